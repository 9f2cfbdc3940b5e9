/** When all records of a month have outlived their retention, its partition is dropped. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import {
  makeAdmitCommand,
  dollar,
  makeHash,
  makeLimit,
  makeSettleCommand,
  plans,
  TestClock,
} from '../ledger/fixture.ts';
import { createLedgerDatabase } from './ledger-database.ts';

const idsPerMs = 4096;
const clock = new TestClock('2025-05-01T00:00:00Z');
let ledger: PostgresLedger;
let connection: PostgresConnection;

beforeAll(async () => {
  const url = await createLedgerDatabase();
  connection = await PostgresConnection.open({ url });
  // The partitions that were made in these months.
  for (const month of [5, 6, 7]) {
    const [start, end] = [month - 1, month].map(each => Date.UTC(2025, each, 1) * idsPerMs);
    await connection.script(
      `CREATE TABLE usage_2025_0${month} PARTITION OF usage FOR VALUES FROM (${start}) TO (${end})`,
    );
  }
  ledger = await openPostgresLedger({ url, clock, dailyLimitUnit: 'dollars', plans, drivesTime: true });
});

afterAll(async () => {
  await ledger.close();
  await connection.end();
});

async function makeAccount(name: string): Promise<{ accountId: number; keyId: number }> {
  const { accountId } = await ledger.createAccount({ name, balance: 100n * dollar });
  const key = await ledger.createKey({ accountId, hash: makeHash(name), masked: name, settings: {} });
  if (typeof key === 'string') throw new Error(key);
  return { accountId, keyId: key.keyId };
}

/** Runs a request at the time `at`. `idAt`: the time in its id, if it is another. */
async function request(name: string, at: string, idAt = at): Promise<void> {
  clock.set(at);
  const id = Date.parse(idAt) * idsPerMs;
  await ledger.admit(makeAdmitCommand(id, {}, name));
  expect((await ledger.settle(makeSettleCommand(id, 20))).kind).toBe('settled');
}

async function listMonths(): Promise<string[]> {
  const rows = await connection.query(
    "SELECT relname AS name FROM pg_class WHERE relname LIKE 'usage_2025_0_' ORDER BY 1",
  );
  return rows.map(({ name }) => String(name));
}

async function removeBefore(at: string): Promise<void> {
  const ms = Date.parse(at);
  const limits = { activityBeforeMs: ms, auditBeforeMs: 0, eventsBeforeMs: 0 };
  while ((await ledger.removeOld(limits)) > 0);
}

const countRecords = async (accountId: number): Promise<number> =>
  (await ledger.listActivity({ accountId, limit: 100, offset: 0 })).length;

test('a month is dropped when all its records are too old, sums and invariants stay; a month with a newer record is not dropped', async () => {
  const one = await makeAccount('one');
  const kept = await makeAccount('kept');
  await request('one', '2025-05-03T10:00:00Z');
  await request('one', '2025-05-31T23:00:00Z');
  await request('one', '2025-06-02T00:00:00Z');
  // A request of a gateway whose clock was a day behind.
  await request('one', '2025-07-01T12:00:00Z', '2025-06-30T12:00:00Z');
  await request('kept', '2025-07-03T12:00:00Z');
  clock.set('2025-09-10T00:00:00Z');
  await makeLimit(ledger, { accountId: kept.accountId, scopeId: kept.keyId, window: 'total', max: 100n });
  const query = { accountId: one.accountId, startMs: 0, endMs: undefined, granularity: 'day', limit: 100 } as const;
  const sums = await ledger.analytics({ ...query, groupBy: 'model' });

  await removeBefore('2025-05-31T00:00:00Z');
  expect([await listMonths(), await countRecords(one.accountId)]).toEqual([
    ['usage_2025_05', 'usage_2025_06', 'usage_2025_07'],
    3,
  ]);
  await removeBefore('2025-06-01T00:00:00Z');
  expect([await listMonths(), await countRecords(one.accountId)]).toEqual([['usage_2025_06', 'usage_2025_07'], 2]);
  await removeBefore('2025-07-01T00:00:00Z');
  expect([await listMonths(), await countRecords(one.accountId)]).toEqual([['usage_2025_06', 'usage_2025_07'], 1]);
  await removeBefore('2025-08-01T00:00:00Z');
  expect([await listMonths(), await countRecords(one.accountId)]).toEqual([['usage_2025_07'], 0]);
  expect(await countRecords(kept.accountId)).toBe(1);

  expect(await ledger.analytics({ ...query, groupBy: 'model' })).toEqual(sums);
  expect(await ledger.verify()).toEqual([]);
  // A late record of a month whose partition was dropped is kept like any other record.
  await request('one', '2025-09-10T01:00:00Z', '2025-05-20T00:00:00Z');
  expect(await countRecords(one.accountId)).toBe(1);
  expect(await ledger.verify()).toEqual([]);
});
