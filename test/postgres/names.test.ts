/** Names in requests (end users, tags, models) that the database does not have yet. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Dictionary } from '../../src/ledger/postgres/dictionary.ts';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { amount, dollar, makeAdmitCommand, makeHash, plans, settleAmount, TestClock } from '../ledger/fixture.ts';
import { createLedgerDatabase } from './ledger-database.ts';

const clock = new TestClock();
const day = Math.floor(clock.now() / 86_400_000);
let url: string;
let ledgers: PostgresLedger[];
let query: PostgresConnection;
let lastId = 1000;

beforeAll(async () => {
  url = await createLedgerDatabase();
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

test('all new names of a batch together take one more round trip, and its sums none', async () => {
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

test('the tags of a key are added with those of its requests', async () => {
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

test('two gateways that add the same names at once, in different order, give them the same numbers', async () => {
  const connections = [await PostgresConnection.open({ url }), await PostgresConnection.open({ url })];
  const watch = await PostgresConnection.open({ url });
  const dictionaries = connections.map(() => new Dictionary());
  const add = async (index: number, users: readonly string[]): Promise<void> => {
    for (const user of users) {
      dictionaries[index]?.want('end_user', user);
      dictionaries[index]?.wantTags({ of: user });
    }
    const need = dictionaries[index]?.takeWanted();
    need?.onResults((await connections[index]?.run(need.steps)) ?? []);
  };
  const users = ['one end', 'the middle', 'other end'];
  // Both have added a name and wait for the one in the middle, which a third transaction has locked.
  await query.query('BEGIN');
  const digest = createHash('sha256')
    .update(JSON.stringify(['the middle']))
    .digest('hex');
  await query.query(`INSERT INTO end_user (digest, name) VALUES (decode('${digest}', 'hex'), 'the middle')`);
  const adding = [add(0, users), add(1, users.toReversed())];
  const waiting = `SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  await expect.poll(async () => (await watch.query(waiting))[0]?.['count']).toBe(2n);
  await query.query('ROLLBACK');
  await Promise.all(adding);
  const [left, right] = dictionaries.map(each => users.map(user => [each.endUser(user), each.tagSet({ of: user })]));
  expect(left).toEqual(right);
  expect(new Set(left?.map(([user]) => user)).size).toBe(users.length);
  await watch.end();
  for (const connection of connections) await connection.end();
});

test('an account has sums for 10,000 end users and tags a day over all gateways; further ones are summed as `(other)`', async () => {
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
