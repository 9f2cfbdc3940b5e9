/** Names that requests carry (end users, tags, models) and that the database does not have yet. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { amount, dollar, makeAdmitCommand, makeHash, plans, settleAmount, TestClock } from '../ledger/fixture.ts';
import { createLedgerDatabase } from './ledger-database.ts';

const clock = new TestClock();
const day = Math.floor(clock.now() / 86_400_000);
let ledgers: PostgresLedger[];
let query: PostgresConnection;
let lastId = 1000;

beforeAll(async () => {
  const url = await createLedgerDatabase();
  const options = { url, clock, dailyLimitUnit: 'dollars', plans, drivesTime: true } as const;
  ledgers = [await openPostgresLedger(options), await openPostgresLedger(options)];
  query = await PostgresConnection.open({ url });
});

afterAll(async () => {
  expect(await pick(0).verify()).toEqual([]);
  await query.end();
  for (const ledger of ledgers) await ledger.close();
});

const pick = (index: number): PostgresLedger => ledgers[index] as PostgresLedger;

async function makeKey(name: string): Promise<{ id: number; accountId: number }> {
  const { accountId } = await pick(0).createAccount({ name, balance: dollar });
  const key = await pick(0).createKey({ accountId, hash: makeHash(name), masked: name, settings: {} });
  if (typeof key === 'string') throw new Error(key);
  return { id: key.keyId, accountId };
}

interface Named {
  readonly endUser: string;
  readonly tags: Readonly<Record<string, string>>;
}

/** Admits and settles requests in two batches. Returns how many round trips and batches they took. */
async function answer(ledger: PostgresLedger, key: { id: number; accountId: number }, named: readonly Named[]) {
  const before = { ...ledger.stats };
  const ids = named.map(() => ++lastId);
  await Promise.all(
    ids.map((id, index) => ledger.admit(makeAdmitCommand(id, { key, funds: amount(1n), ...named[index] }))),
  );
  const settled = await Promise.all(ids.map(id => ledger.settle(settleAmount(id, 1n))));
  expect(settled.map(({ kind }) => kind)).toEqual(named.map(() => 'settled'));
  const { batches, roundTrips } = ledger.stats;
  return { batches: batches - before.batches, roundTrips: roundTrips - before.roundTrips };
}

const list = (from: number, count: number): Named[] =>
  Array.from({ length: count }, (_, index) => ({
    endUser: `user ${from + index}`,
    tags: { session: `session ${from + index}`, team: `team ${index % 3}` },
  }));

async function sumsOf(accountId: number, grouped: 3 | 4): Promise<[name: string, requests: number][]> {
  const named =
    grouped === 3
      ? '(SELECT name FROM end_user e WHERE e.id = s.group_id)'
      : '(SELECT value FROM tag t WHERE t.id = s.group_id)';
  const rows = await query.query(
    `SELECT ${named} AS name, requests FROM usage_sum s WHERE account_id = $1::bigint AND period = 1 AND grouped = ${grouped} AND group_id > 0 ORDER BY 1`,
    [accountId],
  );
  return rows.map(({ name, requests }) => [String(name), Number(requests)]);
}

test('all new names of a batch take one more round trip together, and its sums none', async () => {
  const key = await makeKey('together');
  await answer(pick(0), key, [{ endUser: 'first', tags: { first: 'yes' } }]);
  const known = await answer(pick(0), key, [{ endUser: 'first', tags: { first: 'yes' } }]);
  expect(known).toEqual({ batches: 2, roundTrips: 4 });
  expect(await answer(pick(0), key, list(0, 100))).toEqual({ batches: 2, roundTrips: 5 });
  const users = await sumsOf(key.accountId, 3);
  expect(users).toHaveLength(101);
  expect(new Map(users).get('user 99')).toBe(1);
  expect(new Map(await sumsOf(key.accountId, 4)).get('team 2')).toBe(33);
});

test('the tags that a key adds are added with those of its requests', async () => {
  const key = await makeKey('keyed');
  await pick(0).updateKey({
    keyId: key.id,
    accountId: key.accountId,
    settings: { tags: { origin: 'key', team: 'own' } },
  });
  await answer(pick(0), key, list(200, 1));
  expect(await answer(pick(0), key, list(201, 20))).toEqual({ batches: 2, roundTrips: 5 });
  const tags = new Map(await sumsOf(key.accountId, 4));
  expect([tags.get('key'), tags.get('own')]).toEqual([21, undefined]);
  const [{ sets } = {}] = await query.query(
    `SELECT count(*) AS sets FROM tag_set WHERE tags ~ '"session 2\\d\\d"' AND tags NOT LIKE '%origin%'`,
  );
  expect(sets).toBe(0n);
});

test('two gateways that add the same names at once, each in its order, give them the same numbers', async () => {
  const keys = [await makeKey('left'), await makeKey('right')] as const;
  for (let round = 0; round < 6; round += 1) {
    const named = list(1000 + 500 * round, 500);
    await Promise.all([answer(pick(0), keys[0], named), answer(pick(1), keys[1], named.toReversed())]);
  }
  expect(await sumsOf(keys[0].accountId, 3)).toEqual(await sumsOf(keys[1].accountId, 3));
  const [{ users, names } = {}] = await query.query(
    'SELECT count(*) AS users, count(DISTINCT name) AS names FROM end_user',
  );
  expect(users).toBe(names);
  const [{ deadlocks } = {}] = await query.query(
    'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
  );
  expect(deadlocks).toBe(0n);
});

test('an account has sums of 10,000 end users and tags a day, over all gateways; further ones are summed as others', async () => {
  const key = await makeKey('full');
  const rest =
    'failed, cache_write_5m, cache_write_1h, images, written_off, reasoning, cache_read, input, output, cost, latency_ms, requests';
  for (const grouped of [3, 4]) {
    await query.query(
      `INSERT INTO usage_sum (account_id, period, grouped, number, group_id, ${rest})
         SELECT $1::bigint, 1, ${grouped}, $2::bigint, -n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 9998) AS n`,
      [key.accountId, day],
    );
  }
  const named = Array.from({ length: 4 }, (_, index) => ({ endUser: `last ${index}`, tags: { last: `tag ${index}` } }));
  await answer(pick(0), key, named.slice(0, 1));
  await answer(pick(1), key, named);
  await answer(pick(0), key, named);
  const expected = (name: string): [string, number][] => [
    ['(other)', 4],
    [`${name} 0`, 3],
    [`${name} 1`, 2],
  ];
  expect(await sumsOf(key.accountId, 3)).toEqual(expected('last'));
  expect(await sumsOf(key.accountId, 4)).toEqual(expected('tag'));
  await query.query('DELETE FROM usage_sum WHERE account_id = $1::bigint AND group_id < 0', [key.accountId]);
});
