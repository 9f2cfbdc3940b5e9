/** Backups beside a gateway that works: each is the data directory at one moment, or refused. `BACKUP_ROUNDS` makes more than 12. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { endGateway, environmentOf, expectVerified, type Gateway, root, runCommand, startGateway } from '../gateway.ts';
import { ask, complete, stream } from './chat-client.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';
const funds = 1_000_000_000_000n;
const rounds = Number(process.env['BACKUP_ROUNDS'] ?? 12);

let gateway: Gateway;
let folder = '';

beforeAll(async () => {
  gateway = await startGateway({ config, balance: '1000' });
  folder = gateway.home.folder;
});
afterAll(() => endGateway(gateway));

/** A client that works until `isOver`; notes the requests that it was told the cost of. */
async function converse(isOver: () => boolean, told: Set<string>, seed: number): Promise<void> {
  for (let turn = seed; !isOver(); turn += 7) {
    const body = ask(`Tolls\n!sim tokens=${5 + (turn % 60)}`);
    const { headers } = await (turn % 2 === 0 ? complete(gateway, body) : stream(gateway, body));
    told.add(headers.get('x-request-id') ?? '');
  }
}

interface Sums {
  readonly balance: bigint;
  readonly costs: ReadonlyMap<string, bigint>;
}

/** What the ledger of a data directory says, read without the gateway's code. */
function readSums(dataDir: string): Sums {
  const db = new Database(join(dataDir, 'ledger.sqlite'), { readonly: true });
  db.defaultSafeIntegers(true);
  const balance = db.prepare<[], bigint>('SELECT balance FROM account WHERE id = 1').pluck().get() ?? -1n;
  const rows = db.prepare<[], { id: bigint; cost: bigint }>('SELECT id, cost FROM usage').all();
  db.close();
  return { balance, costs: new Map(rows.map(({ id, cost }) => [String(id), cost])) };
}

/** Restores to a directory of its own; undefined if it was refused, which must leave nothing. */
async function restore(backup: string, dataDir: string): Promise<Sums | undefined> {
  const { code, stderr } = await runCommand(gateway.home, ['restore', backup, '--data-dir', dataDir]);
  if (code !== 0) {
    expect([code, stderr]).toEqual([1, expect.stringContaining('Use another backup.')]);
    expect(existsSync(dataDir)).toBe(false);
    return undefined;
  }
  expect(verifyLedgerFile(dataDir)).toEqual([]);
  return readSums(dataDir);
}

/** Backs up, and kills the backup after that long unless it has ended; answers whether it ended by itself. */
async function backUp(backup: string, killAfterMs: number | undefined): Promise<boolean> {
  const child = spawn(process.execPath, [join(root, 'src/main.ts'), 'backup', backup], {
    cwd: folder,
    env: environmentOf(gateway.home),
    stdio: 'ignore',
  });
  const ended = once(child, 'close');
  if (killAfterMs !== undefined) {
    // Counted from its first file: loading the program takes most of the time.
    while (!existsSync(backup) && child.exitCode === null) await sleep(1);
    await sleep(killAfterMs);
    child.kill('SIGKILL');
  }
  const [code] = (await ended) as [number | null];
  if (killAfterMs === undefined) expect(code).toBe(0);
  return code === 0;
}

test(
  'of backups under load, some killed, each is the ledger at one moment or refused',
  { timeout: rounds * 20_000 },
  async () => {
    let isOver = false;
    const told = new Set<string>();
    const clients = Promise.all(Array.from({ length: 4 }, (_, seed) => converse(() => isOver, told, seed)));
    while (told.size < 20) await sleep(10);
    const restored: Sums[] = [];
    let refused = 0;
    for (let round = 0; round < rounds; round += 1) {
      const backup = join(folder, `backup-${round}`);
      const toldBefore = told.size;
      const ended = await backUp(backup, round % 3 === 0 ? undefined : (round % 3) * 2 * (round % 12));
      const dataDir = join(folder, `restored-${round}`);
      const sums = await restore(backup, dataDir);
      if (ended) expect(sums, 'a backup that has ended is complete').toBeDefined();
      if (sums === undefined) {
        refused += 1;
        continue;
      }
      const total = [...sums.costs.values()].reduce((sum, cost) => sum + cost, 0n);
      expect(sums.balance, 'every debit has its record').toBe(funds - total);
      expect(sums.costs.size, 'what clients were told before it began is in it').toBeGreaterThanOrEqual(toldBefore);
      restored.push(sums);
    }
    isOver = true;
    await clients;
    const now = readSums(gateway.dataDir);
    for (const { costs } of restored) {
      // A moment of the ledger: everything up to some request that ended, each at the cost that it has now.
      for (const [id, cost] of costs) expect(now.costs.get(id)).toBe(cost);
    }
    const sizes = restored.map(({ costs }) => costs.size);
    expect(sizes).toEqual(sizes.toSorted((a, b) => a - b));
    expect(restored.length).toBeGreaterThan(3);
    expect(refused).toBeGreaterThan(0);
    console.log(`${rounds} backups: ${restored.length} complete, ${refused} refused, ${now.costs.size} requests`);
    expectVerified(gateway.home);
  },
);

test('a backup has everything, for its owner alone, and nothing secret in names or output', async () => {
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
    'content.db',
    'edge.token',
    'images',
    expect.stringMatching(/^images\/[0-9a-f]{32}\.\d+\.png$/),
    'ledger.sqlite',
    'manifest.json',
    'operator.token',
    'server.secret',
  ]);
  expect(made.json).toMatchObject({ directory: backup, data_dir: gateway.dataDir, files: 6 });
  expect(statSync(backup).mode & 0o777).toBe(0o700);
  for (const path of paths) expect([path, statSync(join(backup, path)).mode & 0o077]).toEqual([path, 0]);
  for (const secret of ['operator.token', 'edge.token', 'server.secret']) {
    const text = readFileSync(join(gateway.dataDir, secret), 'utf8').trim();
    expect(readFileSync(join(backup, secret), 'utf8').trim()).toBe(text);
    expect(`${made.stdout}${manifest}${paths.join(' ')}`).not.toContain(text);
  }
  expect(`${made.stdout}${manifest}`).not.toContain(gateway.apiKey);
});

test('a restored gateway has the same keys, money and answers, and its own secrets open what was sealed', async () => {
  const { body: first } = await complete(gateway, ask('Say hello.'));
  const backup = join(folder, 'elsewhere');
  expect((await gateway.cli(['backup', backup])).code).toBe(0);
  const { balanceNanoUsd } = await gateway.account.getBalance({});
  const home = { ...gateway.home, folder: join(folder, 'other'), dataDir: join(folder, 'other/data') };
  mkdirSync(home.folder);
  const restored = await runCommand(home, ['restore', backup]);
  expect([restored.code, restored.stderr, restored.stdout]).toEqual([
    0,
    '',
    expect.stringMatching(/^restored .*elsewhere to .*other\/data: \d+ files, \d+ bytes, as of 20/),
  ]);
  const other = await startGateway({ config, home });
  expect((await other.account.getBalance({})).balanceNanoUsd).toBe(balanceNanoUsd);
  expect(other.printed()).not.toContain('API key');
  expect((await complete(other, ask('Say hello.'))).body.choices).toEqual(first.choices);
  await endGateway(other);
});

test('what is no complete and unchanged backup is refused, and so is a place that is not empty', async () => {
  const good = join(folder, 'good');
  expect((await gateway.cli(['backup', good])).code).toBe(0);
  const spoil: Record<string, (backup: string) => void> = {
    'is no complete backup: it has no manifest.json': backup => rmSync(join(backup, 'manifest.json')),
    'operator.token is missing': backup => rmSync(join(backup, 'operator.token')),
    'note.txt is no part of it': backup => writeFileSync(join(backup, 'note.txt'), ''),
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
    const { code, stderr } = await runCommand(gateway.home, ['restore', backup, '--data-dir', target]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(reason)]);
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
    const { code, stderr } = await gateway.cli(args);
    expect([args, code, stderr]).toEqual([args, 1, expect.stringContaining(reason)]);
  }
  expect((await gateway.cli(['backup', join(gateway.dataDir, 'backups/one')])).code).toBe(0);
  expect((await gateway.cli(['backup', join(folder, 'after')])).code).toBe(0);
  expect(existsSync(join(folder, 'after/backups')), 'backups are no part of a backup').toBe(false);
});

test('no gateway starts on a data directory whose restore has not ended', async () => {
  const dataDir = join(folder, 'half');
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, 'restore.incomplete'), '');
  const { code, stderr } = await runCommand(gateway.home, ['serve'], { TOLLGATE_DATA_DIR: dataDir });
  expect([code, stderr]).toEqual([1, expect.stringContaining('has not ended. Empty the directory')]);
});
