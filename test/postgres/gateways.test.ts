/** Several gateways on one database: limits and money are exact, whichever gateway a request reaches, and the holds of a gateway that died are ended by the others. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { lockHome } from '../../src/ledger/postgres/home-lock.ts';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { systemClock } from '../../src/lib/clock.ts';
import {
  makeAdmitCommand,
  amount,
  dollar,
  estimate,
  makeHash,
  makeLimit,
  plans,
  settleAmount,
} from '../ledger/fixture.ts';
import { createLedgerDatabase } from './ledger-database.ts';
import { DroppingProxy } from './dropping-proxy.ts';
import { startPostgres } from './server.ts';
import { migratePostgres } from '../../src/lib/postgres/migrations.ts';

/** The lease is long enough that a process renews it in time even on a busy machine. */
const lease = { leaseMs: 4000, renewMs: 200 };
const open = (url: string, clock = systemClock): Promise<PostgresLedger> =>
  openPostgresLedger({ url, clock, dailyLimitUnit: 'dollars', plans, lease });
/** Clocks that are an hour apart, which must not make any limit available twice. */
const clocks = [0, 3_600_000, -3_600_000].map(offMs => ({ now: () => systemClock.now() + offMs }));

let url: string;
let ledgers: PostgresLedger[];
let lastId = 1000;

beforeAll(async () => {
  url = await createLedgerDatabase();
  ledgers = await Promise.all(clocks.map(clock => open(url, clock)));
});

afterAll(async () => {
  await Promise.all(ledgers.map(ledger => ledger.close()));
});

const pick = (index: number): PostgresLedger => ledgers[index % 3] as PostgresLedger;

async function makeAccount(name: string, balance: bigint): Promise<{ accountId: number; keyId: number }> {
  const { accountId } = await pick(0).createAccount({ name, balance });
  const key = await pick(1).createKey({ accountId, hash: makeHash(name), masked: name, settings: {} });
  if (typeof key === 'string') throw new Error(key);
  return { accountId, keyId: key.keyId };
}

/** Admits `count` requests at once over all gateways. Returns the ids of those that were admitted. */
async function admitAll(count: number, name: string, each: Parameters<typeof makeAdmitCommand>[1]): Promise<number[]> {
  const ids = Array.from({ length: count }, () => ++lastId);
  const replies = await Promise.all(ids.map((id, index) => pick(index).admit(makeAdmitCommand(id, each, name))));
  return ids.filter((_, index) => replies[index]?.kind === 'admitted');
}

async function settleAll(ids: readonly number[], cost: bigint): Promise<void> {
  // Each is settled by a different gateway from the one that admitted it.
  await Promise.all(ids.map((id, index) => pick(index + 1).settle(settleAmount(id, cost))));
}

test('if several gateways start for the first time at once, one makes the keys', async () => {
  const made = await Promise.all(
    ledgers.map((ledger, index) =>
      ledger.bootstrap({
        accountName: 'default',
        balance: 10n * dollar,
        apiKey: { hash: makeHash(`key ${index}`), masked: 'sk' },
        managementKey: { hash: makeHash(`management ${index}`), masked: 'mk', scopes: [] },
      }),
    ),
  );
  expect(made.filter(Boolean)).toHaveLength(1);
  expect(await pick(0).listAccounts()).toHaveLength(1);
});

test('of 1,000 concurrent requests through three gateways, with a balance of 5 cents, exactly as many are admitted as the balance pays for', async () => {
  const { accountId } = await makeAccount('cents', 50_000_000n);
  const admitted = await admitAll(1000, 'cents', { funds: amount(500_000n) });
  expect(admitted).toHaveLength(100);
  await settleAll(admitted, 500_000n);
  expect(await pick(2).findAccount(accountId)).toMatchObject({ balance: 0n, held: 0n });
});

test('of 1,000 concurrent requests through three gateways, with a limit of 100 requests, exactly 100 are admitted', async () => {
  const { accountId, keyId } = await makeAccount('hundred', 100n * dollar);
  expect(await makeLimit(pick(2), { accountId, scopeId: keyId, max: 100n })).toMatchObject({ remaining: 100n });
  const admitted = await admitAll(1000, 'hundred', { funds: amount(1n) });
  expect(admitted).toHaveLength(100);
  await settleAll(admitted, 1n);
});

test('of 1,000 concurrent requests of 100 tokens through three gateways, with a limit of 10,000 tokens a minute, exactly 100 are admitted', async () => {
  const { accountId, keyId } = await makeAccount('tokens', 100n * dollar);
  await makeLimit(pick(0), { accountId, scopeId: keyId, unit: 'tokens', window: 'minute', max: 10_000n });
  const text = { inputTokens: 84, outputTokensMin: 16, outputTokensWanted: 16 };
  const admitted = await admitAll(1000, 'tokens', { funds: estimate(text), text });
  expect(admitted).toHaveLength(100);
  await settleAll(admitted, 1n);
});

test('a repeat at another gateway gets the first answer, and a revoked key is refused everywhere from the next request on', async () => {
  const { keyId } = await makeAccount('repeat', dollar);
  const id = ++lastId;
  const first = await pick(0).admit(makeAdmitCommand(id, { funds: amount(5n) }, 'repeat'));
  expect(await pick(1).admit(makeAdmitCommand(id, { funds: amount(5n) }, 'repeat'))).toEqual(first);
  const settled = await pick(2).settle(settleAmount(id, 5n));
  expect(await pick(0).settle(settleAmount(id, 5n))).toEqual(settled);
  expect(await pick(1).settle(settleAmount(id, 6n))).toMatchObject({ kind: 'conflict' });
  await pick(1).setKeyState({ keyId, accountId: undefined, state: 'revoked' });
  for (const ledger of ledgers) {
    const denied = await ledger.admit(makeAdmitCommand(++lastId, { funds: amount(1n) }, 'repeat'));
    expect(denied).toMatchObject({ kind: 'denied', code: 'invalid_api_key' });
    expect(await ledger.findCredential(makeHash('repeat'))).toBeUndefined();
  }
});

test('a hold that another gateway has ended is not settled by the one that made it', async () => {
  const { accountId } = await makeAccount('ended', dollar);
  const [id, other] = [++lastId, ++lastId];
  await pick(0).admit(makeAdmitCommand(id, { funds: amount(5n) }, 'ended'));
  // This second hold keeps the account's held amount above 5, so that a wrong settlement would not be refused for that reason.
  await pick(1).admit(makeAdmitCommand(other, { funds: amount(9n) }, 'ended'));
  expect(await pick(1).void(id, 'cancelled')).toBe('voided');
  expect(await pick(0).settle(settleAmount(id, 5n))).toMatchObject({ kind: 'not_held' });
  expect(await pick(2).findAccount(accountId)).toMatchObject({ balance: dollar, held: 9n });
  await pick(1).void(other, 'cancelled');
});

test('the holds of a killed gateway, whose lease is 4 seconds, are released once, within 10 seconds', async () => {
  const { accountId, keyId } = await makeAccount('killed', dollar);
  const child: ChildProcess = fork(join(import.meta.dirname, 'killed-child.ts'), [
    url,
    String(accountId),
    String(keyId),
  ]);
  await once(child, 'message');
  expect(await pick(0).findAccount(accountId)).toMatchObject({ held: 500n });
  child.kill('SIGKILL');
  const held = async () => (await pick(0).findAccount(accountId))?.held;
  await expect.poll(held, { timeout: 10_000 }).toBe(0n);
  const voided = (await pick(1).listVoidedHolds(1000)).filter(hold => hold.accountId === accountId);
  expect(voided.map(({ reason }) => reason)).toEqual(Array.from({ length: 100 }, () => 'restarted'));
});

test('a gateway that starts on the data directory of a killed one releases exactly the killed one’s holds before it accepts requests', async () => {
  const { accountId, keyId } = await makeAccount('followed', dollar);
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-homes-'));
  const homes = ['one', 'other'].map(name => join(folder, name));
  const children = homes.map(home =>
    fork(join(import.meta.dirname, 'killed-child.ts'), [url, String(accountId), String(keyId), home]),
  );
  // Also if the test fails: a process that runs, or an open ledger, would keep the run from ending.
  onTestFinished(() => {
    for (const child of children) child.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  await Promise.all(children.map(child => once(child, 'message')));
  expect(await pick(0).findAccount(accountId)).toMatchObject({ held: 1000n });
  const [one] = children;
  const ended = once(one as ChildProcess, 'exit');
  one?.kill('SIGKILL');
  await ended;
  const home = lockHome(homes[0] ?? '');
  expect(home).toBeDefined();
  const successor = await openPostgresLedger({
    url,
    clock: systemClock,
    dailyLimitUnit: 'dollars',
    plans,
    lease,
    home,
  });
  onTestFinished(() => successor.close());
  expect(await successor.findAccount(accountId)).toMatchObject({ held: 500n });
  // The other process still runs and holds the lock of its directory.
  expect(lockHome(homes[1] ?? '')).toBeUndefined();
  await successor.close();
  children[1]?.kill('SIGKILL');
  const connection = await PostgresConnection.open({ url });
  await connection.query('UPDATE instance SET lease_until_ms = 0 WHERE home IS NOT NULL');
  await connection.end();
  const held = async () => (await pick(0).findAccount(accountId))?.held;
  await expect.poll(held, { timeout: 10_000 }).toBe(0n);
});

test('a gateway that resumes after the end of its lease settles nothing, and continues as a new instance', async () => {
  const { accountId } = await makeAccount('asleep', dollar);
  const sleeper = await open(url);
  const id = ++lastId;
  await sleeper.admit(makeAdmitCommand(id, { funds: amount(7n) }, 'asleep'));
  const connection = await PostgresConnection.open({ url });
  await connection.query('UPDATE instance SET lease_until_ms = 0 WHERE number = $1::smallint', [
    sleeper.instanceNumber,
  ]);
  expect(await sleeper.settle(settleAmount(id, 7n))).toMatchObject({ kind: 'not_held' });
  await connection.end();
  const held = async () => (await pick(0).findAccount(accountId))?.held;
  await expect.poll(held, { timeout: 10_000 }).toBe(0n);
  expect(await pick(0).findAccount(accountId)).toMatchObject({ balance: dollar });
  const again = await sleeper.admit(makeAdmitCommand(++lastId, { funds: amount(7n) }, 'asleep'));
  expect(again).toMatchObject({ kind: 'admitted' });
  await sleeper.settle(settleAmount(lastId, 7n));
  await sleeper.close();
});

test('if the answer to a commit is lost, the gateway looks up whether it was done, so that nothing is done twice', async () => {
  const { accountId } = await makeAccount('dropped', dollar);
  const proxy = await DroppingProxy.open(url);
  const far = await open(proxy.url);
  let spent = 0n;
  for (let round = 0; round < 20; round += 1) {
    const ids = Array.from({ length: 10 }, () => ++lastId);
    if (round % 2 === 1) proxy.dropNext();
    const replies = await Promise.all(
      ids.map(id => far.admit(makeAdmitCommand(id, { funds: amount(1000n) }, 'dropped')).catch(() => undefined)),
    );
    if (round % 3 === 1) proxy.dropNext();
    const admitted = ids.filter((_, index) => replies[index]?.kind === 'admitted');
    const settled = await Promise.all(admitted.map(id => far.settle(settleAmount(id, 1000n))));
    spent += settled.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  }
  await far.close();
  await proxy.close();
  const account = await pick(0).findAccount(accountId);
  expect(account?.balance).toBe(dollar - spent);
  await expect.poll(async () => (await pick(0).findAccount(accountId))?.held).toBe(0n);
});

test('every invariant holds after the tests above', async () => {
  expect(await pick(0).verify()).toEqual([]);
  const connection = await PostgresConnection.open({ url });
  const [row] = await connection.query('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()');
  expect(row).toEqual({ deadlocks: 0n });
  await connection.end();
});

test('while the database is stopped, requests are refused within 5 s, and running ones are settled afterwards', async () => {
  const server = await startPostgres();
  const ledger = await open(server.url);
  try {
    await ledger.bootstrap({
      accountName: 'default',
      balance: dollar,
      apiKey: { hash: makeHash('key'), masked: 'sk' },
      managementKey: { hash: makeHash('management'), masked: 'mk', scopes: [] },
    });
    await ledger.admit(makeAdmitCommand(1, { funds: amount(5n), key: { id: 1, accountId: 1 } }));
    await server.crash();
    const startedAtMs = performance.now();
    const settling = ledger.settle(settleAmount(1, 5n));
    const refused = await ledger
      .admit(makeAdmitCommand(2, { funds: amount(5n), key: { id: 1, accountId: 1 } }))
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'overloaded' });
    await expect(ledger.findCredential(makeHash('key'))).rejects.toMatchObject({ code: 'overloaded' });
    expect(performance.now() - startedAtMs).toBeLessThan(5000);
    await sleep(200);
    await server.start();
    expect(await settling).toMatchObject({ kind: 'settled', costNanoUsd: 5n });
    await expect.poll(() => ledger.isReachable).toBe(true);
    expect(await ledger.admit(makeAdmitCommand(3, { funds: amount(5n) }))).toMatchObject({ kind: 'admitted' });
    await ledger.void(3, 'cancelled');
    expect(await ledger.verify()).toEqual([]);
  } finally {
    await ledger.close();
    await server.stop();
  }
});

test('a database that a newer version has migrated is refused', async () => {
  const newer = await createLedgerDatabase();
  const migrations = [{ number: 1, name: 'later', sql: 'SELECT 1' }];
  await migratePostgres({ url: newer }, { part: 'later', migrations });
  const connection = await PostgresConnection.open({ url: newer });
  await connection.query("UPDATE schema_version SET version = 99 WHERE part = 'ledger'");
  await connection.end();
  await expect(open(newer)).rejects.toMatchObject({ name: 'LedgerStartError', code: 'newer' });
});
