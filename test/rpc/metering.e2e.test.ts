/** Runs the example of a service that meters its own work (examples/metering) as a program against a running gateway. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { readBalance, endGateway, heldBy, makeKey, root, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';

let gateway = await startGateway({ balance: '1' });
const folder = mkdtempSync(join(tmpdir(), 'tollgate-metering-'));
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await endGateway(gateway);
});

const megabyte = 1_000_000;
const cent = 10_000_000n;
const file = (name: string): string => join(folder, name);

interface Printed {
  readonly id: number;
  readonly target: string;
  readonly state: string;
  readonly cost_nano_usd: number;
  readonly written_off_nano_usd: number;
}

interface Run {
  readonly code: number | null;
  readonly printed: readonly Printed[];
  readonly stderr: string;
}

/** The service number of each journal, so that journals use different ids. */
const services = new Map<string, number>();
function startService(journal: string): number {
  const known = services.get(journal) ?? services.size + 1;
  services.set(journal, known);
  return known;
}

/** Starts the program with an open standard input. Each test uses another journal. */
function start(journal: string, keyId: bigint, ...paths: string[]): { child: ChildProcess; ended: Promise<Run> } {
  const options = {
    gateway: gateway.rpcUrl,
    'token-file': join(gateway.dataDir, 'operator.token'),
    'api-key-id': String(keyId),
    journal: file(journal),
    service: String(startService(journal)),
  };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn(process.execPath, [join(root, 'examples/metering/main.ts'), ...flags, '--', ...paths], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '' },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.on('error', () => undefined); // the program may be killed while the test writes to it
  const ended = once(child, 'close').then(([code]) => ({
    code: code as number | null,
    printed: stdout.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line) as Printed])),
    stderr,
  }));
  return { child, ended };
}

const run = (journal: string, keyId: bigint, ...paths: string[]): Promise<Run> => start(journal, keyId, ...paths).ended;

const listRecords = async (apiKeyId: bigint) => (await gateway.account.listActivity({ apiKeyId })).records;

function input(name: string, bytes: number): { path: string; content: Buffer } {
  const content = randomBytes(bytes);
  writeFileSync(file(name), content);
  return { path: file(name), content };
}

test('work is held slice by slice, charged by its use, and has a record in the account', async () => {
  const { id } = await makeKey(gateway);
  const before = await readBalance(gateway);
  const { path, content } = input('whole', 2.5 * megabyte);
  const { code, printed, stderr } = await run('whole.journal', id, path, file('whole.gz'));
  expect([code, stderr]).toEqual([0, '']);
  expect(printed).toMatchObject([{ state: 'settled', cost_nano_usd: 25_000_000, written_off_nano_usd: 0 }]);
  expect(gunzipSync(readFileSync(file('whole.gz'))).equals(content)).toBe(true);
  expect(before - (await readBalance(gateway))).toBe((5n * cent) / 2n);
  expect(await heldBy(gateway)).toBe(0n);
  expect(await listRecords(id)).toMatchObject([
    { model: 'examples/gzip', costNanoUsd: (5n * cent) / 2n, state: RecordState.COMPLETED },
  ]);
});

test('if the answer to a charge is lost in a crash, the charge is repeated and gets the same answer, without a second charge', async () => {
  const { id } = await makeKey(gateway);
  const { path } = input('lost', 0.3 * megabyte);
  const first = await run('lost.journal', id, path, file('lost.gz'));
  const balance = await readBalance(gateway);
  const lines = readFileSync(file('lost.journal'), 'utf8').split('\n');
  expect(lines.map(line => /"what":"(\w+)"/.exec(line)?.[1])).toEqual(['begun', 'done', 'settled', undefined]);
  // The crash cut the last line.
  writeFileSync(file('lost.journal'), `${lines.slice(0, 2).join('\n')}\n${lines[2]?.slice(0, 9)}`);
  const repeated = await run('lost.journal', id);
  expect([repeated.code, repeated.printed]).toEqual([0, first.printed]);
  expect(await readBalance(gateway)).toBe(balance);
  expect(await listRecords(id)).toHaveLength(1);
  expect(await run('lost.journal', id)).toMatchObject({ code: 0, printed: [] });
});

test('work that the account can’t pay for is stopped, its hold is released, and it is not delivered', async () => {
  const { id } = await makeKey(gateway, { balanceNanoUsd: (3n * cent) / 2n });
  const { path } = input('poor', 2.5 * megabyte);
  const { code, printed, stderr } = await run('poor.journal', id, path, file('poor.gz'));
  expect([code, JSON.parse(stderr)]).toMatchObject([1, { code: 'insufficient_balance' }]);
  expect(printed).toMatchObject([{ state: 'voided', cost_nano_usd: 0 }]);
  expect([existsSync(file('poor.gz')), existsSync(file('poor.gz.part'))]).toEqual([false, false]);
  expect([await heldBy(gateway), await listRecords(id)]).toEqual([0n, []]);
  const refused = await run('poor.journal', 999n, path, file('poor.gz'));
  expect([refused.code, JSON.parse(refused.stderr)]).toMatchObject([1, { code: 'invalid_api_key' }]);
  // Each piece of work has another id.
  expect(refused.printed[0]?.id).toBe((printed[0]?.id ?? 0) + 1);
});

test('the id of other work is refused, and that work keeps its hold', async () => {
  const { id } = await makeKey(gateway);
  const { child, ended } = start('mine.journal', id, '-', file('mine.gz'));
  child.stdin?.write(randomBytes(1.5 * megabyte));
  await expect.poll(() => heldBy(gateway), { timeout: 20_000 }).toBe(2n * cent);
  services.set('theirs.journal', startService('mine.journal'));
  const other = await makeKey(gateway);
  const refused = await run('theirs.journal', other.id, input('theirs', 9).path, file('theirs.gz'));
  expect([refused.code, JSON.parse(refused.stderr)]).toMatchObject([1, { code: 'conflict' }]);
  expect(await heldBy(gateway)).toBe(2n * cent);
  child.stdin?.end();
  expect((await ended).printed).toMatchObject([{ state: 'settled', cost_nano_usd: 15_000_000 }]);
  expect([existsSync(file('mine.gz')), existsSync(file('theirs.gz'))]).toEqual([true, false]);
});

test('the hold of a service that is killed while it works stays, and its next start releases it', async () => {
  const { id } = await makeKey(gateway);
  const balance = await readBalance(gateway);
  const { child, ended } = start('killed.journal', id, '-', file('killed.gz'));
  child.stdin?.write(randomBytes(1.5 * megabyte));
  await expect.poll(() => heldBy(gateway), { timeout: 20_000 }).toBe(2n * cent);
  child.kill('SIGKILL');
  await ended;
  expect(await heldBy(gateway)).toBe(2n * cent);
  expect(await run('killed.journal', id)).toMatchObject({ code: 0, printed: [{ state: 'voided', cost_nano_usd: 0 }] });
  expect([await heldBy(gateway), await readBalance(gateway), await listRecords(id)]).toEqual([0n, balance, []]);
  expect(existsSync(file('killed.gz.part'))).toBe(false);
});

test('a hold survives a kill of the gateway, and work that is done in the meantime is charged once afterwards', async () => {
  const { id } = await makeKey(gateway);
  const balance = await readBalance(gateway);
  const { child, ended } = start('away.journal', id, '-', file('away.gz'));
  child.stdin?.write(randomBytes(0.5 * megabyte));
  await expect.poll(() => heldBy(gateway), { timeout: 20_000 }).toBe(cent);
  await gateway.kill();
  child.stdin?.end();
  expect(await ended).toMatchObject({ code: 1, printed: [] });
  expect(existsSync(file('away.gz'))).toBe(false);
  gateway = await startShared({ home: gateway.home });
  expect(await heldBy(gateway)).toBe(cent);
  const settled = { state: 'settled', cost_nano_usd: 5_000_000, written_off_nano_usd: 0 };
  expect(await run('away.journal', id)).toMatchObject({ code: 0, printed: [settled] });
  expect(gunzipSync(readFileSync(file('away.gz')))).toHaveLength(0.5 * megabyte);
  expect([await heldBy(gateway), balance - (await readBalance(gateway))]).toEqual([0n, cent / 2n]);
  expect(await listRecords(id)).toMatchObject([{ costNanoUsd: cent / 2n }]);
});

test('work that is charged after its hold has expired is unpaid, and not delivered', async () => {
  const notes = [
    { id: '77', what: 'begun', target: file('late.gz') },
    { id: '77', what: 'done', costNanoUsd: '5', latencyMs: 1 },
  ];
  writeFileSync(file('late.journal'), notes.map(note => `${JSON.stringify(note)}\n`).join(''));
  writeFileSync(file('late.gz.part'), 'a result');
  expect(await run('late.journal', 1n)).toMatchObject({ code: 0, printed: [{ id: 77, state: 'unpaid' }] });
  expect([existsSync(file('late.gz')), existsSync(file('late.gz.part'))]).toEqual([false, false]);
});
