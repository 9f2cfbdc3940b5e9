/** Backups of a running gateway: each is the data directory at one moment, or is refused. `test/long/backup-kill.test.ts` makes 50 of them. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeBackup } from '../../src/gateway/backup/make-backup.ts';
import { restoreBackup } from '../../src/gateway/backup/restore-backup.ts';
import { runInside } from '../cli/run-inside.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { endGateway, type Gateway, makeKey, runCommand, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { backUpUnderLoad } from './backup-rounds.ts';
import { ask, complete } from './chat-client.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';

let gateway: Gateway;
let folder = '';

beforeAll(async () => {
  gateway = await startShared({ config, balance: '1000' });
  folder = gateway.home.folder;
});
afterAll(() => endGateway(gateway));

test('each backup made under load, some of them killed, is the ledger at one moment or is refused', async () => {
  const { complete: whole, refused } = await backUpUnderLoad(4);
  expect(whole + refused).toBe(4);
  // Two were not killed.
  expect(whole).toBeGreaterThanOrEqual(2);
});

test('a backup is complete, can be read by its owner only, and has no secret in its file names or output', async () => {
  const image = await fetch(`${gateway.url}/v1/images/generations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/image', prompt: 'a harbour', size: '256x256' }),
  });
  expect(image.status).toBe(200);
  const backup = join(folder, 'whole');
  const made = await gateway.cli(['backup', backup, '--json']);
  expect([made.code, made.stderr]).toEqual([0, '']);
  const manifest = readFileSync(join(backup, 'manifest.json'), 'utf8');
  const paths = readdirSync(backup, { recursive: true, encoding: 'utf8' });
  expect(paths.toSorted()).toEqual([
    'configuration.json',
    'content.db',
    'edge.token',
    'images',
    expect.stringMatching(/^images\/[0-9a-f]{32}\.\d+\.png$/),
    'ledger.sqlite',
    'manifest.json',
    'operator.token',
    'server.secret',
  ]);
  expect(made.json).toMatchObject({ directory: backup, data_dir: gateway.dataDir, files: 7 });
  expect(statSync(backup).mode & 0o777).toBe(0o700);
  for (const path of paths) expect([path, statSync(join(backup, path)).mode & 0o077]).toEqual([path, 0]);
  for (const secret of ['operator.token', 'edge.token', 'server.secret']) {
    const text = readFileSync(join(gateway.dataDir, secret), 'utf8').trim();
    expect(readFileSync(join(backup, secret), 'utf8').trim()).toBe(text);
    expect(`${made.stdout}${manifest}${paths.join(' ')}`).not.toContain(text);
  }
  expect(`${made.stdout}${manifest}`).not.toContain(gateway.apiKey);
});

test('a restored gateway has the same keys, money and answers, and can decrypt the encrypted values', async () => {
  const { body: first } = await complete(gateway, ask('Say hello.'));
  const backup = join(folder, 'elsewhere');
  expect((await gateway.cli(['backup', backup])).code).toBe(0);
  const { balanceNanoUsd } = await gateway.account.getBalance({});
  const home = { ...gateway.home, folder: join(folder, 'other'), dataDir: join(folder, 'other/data') };
  mkdirSync(home.folder);
  const restored = await runCommand(home, ['restore', backup]);
  expect([restored.code, restored.stderr, restored.stdout]).toEqual([
    0,
    expect.stringMatching(/^WARNING: keys that were revoked, disabled or replaced after 20.* work again/),
    expect.stringMatching(/^restored .*elsewhere to .*other\/data: \d+ files, \d+ bytes, as of 20/),
  ]);
  const other = await startGateway({ config, home });
  expect((await other.account.getBalance({})).balanceNanoUsd).toBe(balanceNanoUsd);
  expect(other.printed()).not.toContain('API key');
  expect((await complete(other, ask('Say hello.'))).body.choices).toEqual(first.choices);
  await endGateway(other);
});

test('keys that were revoked, disabled or replaced after the backup do not work in the restored gateway, nor do sessions', async () => {
  const keys = await Promise.all(['kept', 'revoked', 'disabled', 'rotated'].map(label => makeKey(gateway, { label })));
  const [kept, revoked, disabled, rotated] = keys;
  if (kept === undefined || revoked === undefined || disabled === undefined || rotated === undefined) throw new Error();
  const backup = join(folder, 'before');
  expect((await gateway.cli(['backup', backup])).code).toBe(0);
  await gateway.admin.setApiKeyState({ apiKeyId: revoked.id, state: KeyState.REVOKED });
  await gateway.cli(['keys', 'disable', String(disabled.id)]);
  const turned = await gateway.cli(['keys', 'rotate', String(rotated.id), '--json']);
  const dataDir = join(folder, 'after/data');
  const made = await gateway.cli(['restore', backup, '--data-dir', dataDir, '--old-data-dir', gateway.dataDir]);
  expect([made.code, made.stderr]).toEqual([
    0,
    expect.stringContaining('2 keys that no longer work there are disabled, 1 have the secret that they have there'),
  ]);
  expect(verifyLedgerFile(dataDir)).toEqual([]);
  const other = await startShared({ config, home: { ...gateway.home, folder: join(folder, 'after'), dataDir } });
  const status = async (key: string): Promise<number> => (await complete(other, ask('Say hello.'), { key })).status;
  const fresh = (turned.json as { key: string }).key;
  expect(await Promise.all([kept.key, fresh, revoked.key, disabled.key, rotated.key].map(key => status(key)))).toEqual([
    200, 200, 403, 403, 401,
  ]);
  await endGateway(other);
  await expect(
    restoreBackup({ source: backup, dataDir: join(folder, 'never'), oldDataDir: join(folder, 'nowhere') }),
  ).rejects.toThrow('is not the data directory');
});

test('restore refuses an incomplete or changed backup, and a target directory that is not empty', async () => {
  const good = join(folder, 'good');
  const makeAt = (target: string) => makeBackup({ dataDir: gateway.dataDir, target, now: () => systemClock.now() });
  await makeAt(good);
  const spoil: Record<string, (backup: string) => void> = {
    'is not a complete backup: it has no manifest.json': backup => rmSync(join(backup, 'manifest.json')),
    'operator.token is missing': backup => rmSync(join(backup, 'operator.token')),
    'note.txt does not belong to it': backup => writeFileSync(join(backup, 'note.txt'), ''),
    'manifest.json is not what was written': backup =>
      writeFileSync(
        join(backup, 'manifest.json'),
        readFileSync(join(backup, 'manifest.json'), 'utf8').replace('"created_at": "20', '"created_at": "21'),
      ),
    'ledger.sqlite is not what was written': backup => {
      const bytes = readFileSync(join(backup, 'ledger.sqlite'));
      bytes[5_000] = (bytes[5_000] ?? 0) ^ 1;
      writeFileSync(join(backup, 'ledger.sqlite'), bytes);
    },
  };
  const target = join(folder, 'target');
  for (const [reason, change] of Object.entries(spoil)) {
    const backup = join(folder, 'spoiled');
    cpSync(good, backup, { recursive: true });
    change(backup);
    await expect(restoreBackup({ source: backup, dataDir: target })).rejects.toThrow(reason);
    expect(existsSync(target)).toBe(false);
    rmSync(backup, { recursive: true });
  }
  const refusals: (readonly [readonly string[], string])[] = [
    [['restore', good], 'is not empty. A backup is restored to an empty one'],
    [['restore', join(folder, 'nowhere')], 'There is no backup'],
    [['backup', good], 'is not empty. Name a new folder'],
    [['backup', join(gateway.dataDir, 'copy')], 'is in the data directory'],
    [['backup', join(folder, 'new'), '--data-dir', join(folder, 'nowhere')], 'There is no ledger in'],
  ];
  for (const [args, reason] of refusals) {
    const { code, stderr } = await runInside(gateway, args);
    expect([args, code, stderr]).toEqual([args, 1, expect.stringContaining(reason)]);
  }
  await makeAt(join(gateway.dataDir, 'backups/one'));
  await makeAt(join(folder, 'after'));
  expect(existsSync(join(folder, 'after/backups')), 'backups are no part of a backup').toBe(false);
});

test('a gateway does not start on a data directory whose restore has not ended', async () => {
  const dataDir = join(folder, 'half');
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, 'restore.incomplete'), '');
  const { code, stderr } = await runCommand(gateway.home, ['serve'], { TOLLGATE_DATA_DIR: dataDir });
  expect([code, stderr]).toEqual([1, expect.stringContaining('has not ended. Empty the directory')]);
});
