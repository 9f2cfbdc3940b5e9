/** Races between three gateways on one database, while one waits or has lost an answer. `mutants-table.ts` lists the mistakes that these tests find. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { makeAdmitCommand, amount, dollar, makeHash, makeLimit, plans, settleAmount } from '../ledger/fixture.ts';
import { DroppingProxy } from './dropping-proxy.ts';
import { createLedgerDatabase } from './ledger-database.ts';

const open = (url: string): Promise<PostgresLedger> =>
  openPostgresLedger({
    url,
    clock: systemClock,
    dailyLimitUnit: 'dollars',
    plans,
    lease: { leaseMs: 4000, renewMs: 200 },
  });

let url: string;
let ledgers: PostgresLedger[];
let holder: PostgresConnection;
let lastId = 1000;

beforeAll(async () => {
  url = await createLedgerDatabase();
  ledgers = await Promise.all([url, url, url].map(open));
  holder = await PostgresConnection.open({ url });
});

afterAll(async () => {
  await holder.end();
  const [first] = ledgers;
  expect(await first?.verify()).toEqual([]);
  await Promise.all(ledgers.map(ledger => ledger.close()));
});

const pick = (index: number): PostgresLedger => ledgers[index % 3] as PostgresLedger;

async function makeAccount(name: string, settings: Parameters<PostgresLedger['createKey']>[0]['settings'] = {}) {
  const { accountId } = await pick(0).createAccount({ name, balance: dollar });
  const key = await pick(1).createKey({ accountId, hash: makeHash(name), masked: name, settings });
  if (typeof key === 'string') throw new Error(key);
  return { accountId, keyId: key.keyId };
}

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0);
const heldBy = async (accountId: number): Promise<bigint> => (await pick(0).findAccount(accountId))?.held ?? -1n;

/** Locks an account while `work` runs, as a slow gateway would. */
async function holdAccount<R>(accountId: number, work: () => Promise<R>): Promise<R> {
  await holder.script(`BEGIN; SELECT 1 FROM account WHERE id = ${accountId} FOR UPDATE`);
  try {
    return await work();
  } finally {
    await holder.script('COMMIT');
  }
}

test('a key that expires while its request waits for the account is refused', async () => {
  const { accountId, keyId } = await makeAccount('expires');
  await pick(0).admit(makeAdmitCommand(++lastId, { funds: amount(1n) }, 'expires'));
  await pick(0).void(lastId, 'cancelled');
  await pick(0).updateKey({ keyId, accountId, settings: { expiresAtMs: systemClock.now() + 700 } });
  const replies = await holdAccount(accountId, async () => {
    const requested = ledgers.map(ledger => ledger.admit(makeAdmitCommand(++lastId, { funds: amount(1n) }, 'expires')));
    await sleep(1200);
    return requested;
  });
  expect((await Promise.all(replies)).map(({ kind }) => kind)).toEqual(['denied', 'denied', 'denied']);
});

test('an admission that was refused because it waited too long leaves nothing held', async () => {
  const { accountId } = await makeAccount('refused');
  const ask = async (ledger: PostgresLedger): Promise<string> => {
    const requested = ledger.admit(makeAdmitCommand(++lastId, { funds: amount(5n) }, 'refused'));
    return requested.then(
      ({ kind }) => kind,
      (error: { readonly code: string }) => error.code,
    );
  };
  const replies = await holdAccount(accountId, () => Promise.all(ledgers.map(ask)));
  expect(replies).toEqual(['overloaded', 'overloaded', 'overloaded']);
  // By then all admissions have been committed or refused.
  await Promise.all(ledgers.map(ledger => ledger.admit(makeAdmitCommand(++lastId, { funds: amount(1n) }, 'refused'))));
  for (const [index, id] of [lastId - 2, lastId - 1, lastId].entries()) await pick(index).void(id, 'cancelled');
  await expect.poll(() => heldBy(accountId)).toBe(0n);
});

test('an admission that was refused leaves nothing held, even if its commit arrives after the refusal', async () => {
  const { accountId, keyId } = await makeAccount('late');
  const proxy = await DroppingProxy.open(url);
  const far = await open(proxy.url);
  const key = { id: keyId, accountId };
  // After this, the dictionaries have all names of the request below, so that its admission is the only transaction.
  const before = ++lastId;
  await far.admit(makeAdmitCommand(before, { funds: amount(5n), key }));
  await far.void(before, 'cancelled');
  proxy.delayCommit(4000);
  const refused = far.admit(makeAdmitCommand(++lastId, { funds: amount(5n), key })).catch((error: unknown) => error);
  expect(await refused).toMatchObject({ code: 'overloaded' });
  // By then the refused admission has been voided.
  await expect.poll(() => far.isReachable, { timeout: 15_000 }).toBe(true);
  await sleep(2000);
  await expect.poll(() => heldBy(accountId)).toBe(0n);
  await far.close();
  await proxy.close();
  expect(await heldBy(accountId)).toBe(0n);
});

test('counters are exact while three gateways change them at once', async () => {
  const { accountId, keyId } = await makeAccount('counted');
  const made = await makeLimit(pick(0), { accountId, scopeId: keyId, unit: 'usd', max: dollar });
  // Each gateway sends commands independently, so that their batches overlap.
  const run = async (ledger: PostgresLedger): Promise<void> => {
    for (let round = 0; round < 25; round += 1) {
      const ids = Array.from({ length: 4 }, () => ++lastId);
      await Promise.all(ids.map(id => ledger.admit(makeAdmitCommand(id, { funds: amount(10n) }, 'counted'))));
      await Promise.all(ids.map(id => ledger.settle(settleAmount(id, 10n))));
    }
  };
  await Promise.all(ledgers.map(run));
  expect(await pick(1).findAccount(accountId)).toMatchObject({ balance: dollar - 3000n, held: 0n });
  expect(await pick(2).findLimit(made.limitId, accountId)).toMatchObject({ used: 3000n });
  expect(await pick(0).verify()).toEqual([]);
});

test('a limit that one gateway makes applies at the others from the next request on', async () => {
  const { accountId, keyId } = await makeAccount('limited');
  const admitAll = async (): Promise<string[]> => {
    const replies = ledgers.map(ledger => ledger.admit(makeAdmitCommand(++lastId, { funds: amount(1n) }, 'limited')));
    return (await Promise.all(replies)).map(({ kind }) => kind);
  };
  expect(await admitAll()).toEqual(['admitted', 'admitted', 'admitted']);
  const made = await makeLimit(pick(2), { accountId, scopeId: keyId, unit: 'concurrent', window: null, max: 4n });
  const replies = await admitAll();
  expect(replies.filter(kind => kind === 'admitted')).toHaveLength(1);
  await pick(1).deleteLimit({ limitId: made.limitId, accountId });
  expect(await admitAll()).toEqual(['admitted', 'admitted', 'admitted']);
  for (let id = lastId - 8; id <= lastId; id += 1) await pick(id).void(id, 'cancelled');
  expect(await heldBy(accountId)).toBe(0n);
});

test('a credit or settle whose answer was lost is done once', async () => {
  const { accountId } = await makeAccount('credit');
  const proxy = await DroppingProxy.open(url);
  const far = await open(proxy.url);
  proxy.dropNext();
  const credited = await far.addCredit({ accountId, amount: 7n, note: 'once' });
  expect(credited).toMatchObject({ balance: dollar + 7n });
  const id = ++lastId;
  await far.admit(makeAdmitCommand(id, { funds: amount(7n) }, 'credit'));
  proxy.dropNext();
  expect(await far.settle(settleAmount(id, 7n))).toMatchObject({ kind: 'settled', costNanoUsd: 7n });
  await far.close();
  await proxy.close();
  expect(await pick(1).findAccount(accountId)).toMatchObject({ balance: dollar, held: 0n });
});

test('an event is delivered by only one gateway, and by another one if the first has ended', async () => {
  const { accountId } = await makeAccount('events');
  await pick(1).createWebhook({
    accountId,
    url: 'https://example.com/hook',
    events: ['key.created'],
    secret: 'sealed',
    disabled: false,
  });
  await pick(2).createKey({ accountId, hash: makeHash('more'), masked: 'more', settings: {} });
  const listAll = async (): Promise<number[]> => {
    const due = await Promise.all(ledgers.map(ledger => ledger.listDueDeliveries(10)));
    return due.map(each => each.filter(delivery => delivery.accountId === accountId).length);
  };
  // A gateway notices with its next heartbeat that it has become the leader: an earlier test may have closed the one before.
  await expect.poll(async () => sum(await listAll())).toBe(1);
  const leader = (await listAll()).indexOf(1);
  await ledgers[leader]?.close();
  ledgers[leader] = await open(url);
  await expect.poll(async () => sum(await listAll())).toBe(1);
  expect((await listAll())[leader]).toBe(0);
});
