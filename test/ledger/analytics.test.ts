import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AnalyticsQuery, AnalyticsRow, GroupRow, LargestGroups } from '../../src/ledger/ledger.ts';
import { makeAdmitCommand, type LedgerFixture, makeHash, openFixture, makeSettleCommand } from './fixture.ts';

/** The properties of a record that the test uses. */
interface Known {
  readonly atMs: number;
  readonly model: string;
  readonly keyId: number;
  readonly output: number;
  readonly cost: bigint;
  readonly providerCost: bigint | undefined;
  readonly failed: boolean;
  readonly provider: string;
  readonly endUser: string | undefined;
  readonly team: string | undefined;
  /** The key's group and the groups above it, nearest first. */
  readonly groups: readonly number[];
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** The days around a leap day. */
const firstMs = Date.parse('2028-02-28T00:00:00Z');
const keyNames = ['key', 'second', 'third'];
const known: Known[] = [];
let fixture: LedgerFixture;

/** Times at the edges of hours and days, a millisecond before and after them, and any others within three days. */
const times = fc.oneof(
  fc.tuple(fc.nat(72), fc.integer({ min: -1, max: 1 })).map(([hour, beside]) => firstMs + hour * hourMs + beside),
  fc.nat(3 * dayMs).map(ms => firstMs + ms),
);

beforeAll(async () => {
  fixture = await openFixture({ balance: 10n ** 12n, isInline: true });
  const { ledger } = fixture;
  const outer = expectGroupId(await ledger.createGroup({ accountId: 1, settings: { name: 'outer' } }));
  const inner = expectGroupId(await ledger.createGroup({ accountId: 1, settings: { name: 'inner', parentId: outer } }));
  // The first key is in no group.
  const keyGroups = [[], [outer], [inner, outer]];
  for (const [index, name] of keyNames.slice(1).entries()) {
    const settings = { groupId: [outer, inner][index] ?? outer };
    await ledger.createKey({ accountId: 1, hash: makeHash(name), masked: '', settings });
  }
  for (const [index, atMs] of fc.sample(times, { numRuns: 90, seed: 1 }).entries()) {
    const [id, keyId, model] = [index + 1, 1 + ((index * 5) % 3), `m${(index * 11) % 4}`];
    const state = index % 7 === 0 ? 'upstream_failed' : 'completed';
    // Some provider costs are above the price, some below it, some unknown.
    const providerCost = index % 3 === 0 ? undefined : BigInt(index) * 150_000n;
    fixture.clock.nowMs = atMs;
    const provider = `p${index % 2}`;
    const endUser = index % 3 === 0 ? undefined : `u${index % 4}`;
    const team = index % 5 === 0 ? undefined : `t${index % 2}`;
    const who = { ...(endUser !== undefined && { endUser }), tags: { ...(team !== undefined && { team }), n: 'x' } };
    await fixture.ledger.admit(makeAdmitCommand(id, { model, ...who }, keyNames[keyId - 1]));
    // A record counts in the hour of its admission, whenever it ends.
    fixture.clock.step(2 * hourMs);
    const { costNanoUsd: cost } = await fixture.ledger.settle(
      makeSettleCommand(id, id, { state, provider, providerCostNanoUsd: providerCost }),
    );
    const failed = state === 'upstream_failed';
    const groups = keyGroups[keyId - 1] ?? [];
    known.push({ atMs, model, keyId, output: id, cost, providerCost, failed, provider, endUser, team, groups });
  }
});
afterAll(() => fixture.end());

function expectGroupId(group: GroupRow | string): number {
  if (typeof group === 'string') throw new Error(`no group was made: ${group}`);
  return group.groupId;
}

/** Returns the value by which a record is grouped; null if it has none. */
function readGroup(record: Known, groupBy: AnalyticsQuery['groupBy']): string | number | null {
  if (typeof groupBy === 'object') return record.team ?? null;
  if (groupBy === 'none') return null;
  if (groupBy === 'model') return record.model;
  if (groupBy === 'provider') return record.provider;
  if (groupBy === 'end_user') return record.endUser ?? null;
  return groupBy === 'group' ? (record.groups[0] ?? null) : record.keyId;
}

function passes(record: Known, { keyId, model, provider, endUser, groupId, tag }: AnalyticsQuery): boolean {
  return (
    (keyId ?? record.keyId) === record.keyId &&
    (model ?? record.model) === record.model &&
    (provider ?? record.provider) === record.provider &&
    (endUser === undefined || endUser === record.endUser) &&
    (groupId === undefined || record.groups.includes(groupId)) &&
    (tag === undefined || tag.value === record.team)
  );
}

/** Returns the sums for a query, computed as simply as possible. */
function summed(query: AnalyticsQuery): AnalyticsRow[] {
  const { startMs, endMs, granularity, groupBy } = query;
  const rows = new Map<string, AnalyticsRow>();
  const periodMs = granularity === 'day' ? dayMs : hourMs;
  for (const record of known) {
    const { atMs, output, cost, providerCost, failed } = record;
    if (atMs < startMs || (endMs !== undefined && atMs >= endMs) || !passes(record, query)) continue;
    const period = Math.floor(atMs / periodMs) * periodMs;
    const group = readGroup(record, groupBy);
    const before = rows.get(`${period} ${group ?? ''}`);
    rows.set(`${period} ${group ?? ''}`, {
      periodMs: period,
      group,
      requests: (before?.requests ?? 0) + 1,
      failed: (before?.failed ?? 0) + (failed ? 1 : 0),
      costNanoUsd: (before?.costNanoUsd ?? 0n) + cost,
      providerCostNanoUsd: (before?.providerCostNanoUsd ?? 0n) + (providerCost ?? 0n),
      marginNanoUsd: (before?.marginNanoUsd ?? 0n) + (providerCost === undefined ? 0n : cost - providerCost),
      input: (before?.input ?? 0) + 100,
      cacheRead: 0,
      cacheWrite: 0,
      output: (before?.output ?? 0) + output,
      latencyMs: (before?.latencyMs ?? 0) + 250,
    });
  }
  // The requests in no group are last.
  const order = (group: AnalyticsRow['group']): string => (group === null ? '~' : String(group));
  return [...rows.values()].sort((a, b) => a.periodMs - b.periodMs || (order(a.group) < order(b.group) ? -1 : 1));
}

type FilterName = 'keyId' | 'model' | 'provider' | 'endUser' | 'groupId' | 'tag';
const filterNames: FilterName[] = ['keyId', 'model', 'provider', 'endUser', 'groupId', 'tag'];
const queries = fc.record({
  accountId: fc.constant(1),
  startMs: times,
  endMs: fc.option(times, { nil: undefined }),
  granularity: fc.constantFrom('hour', 'day'),
  groupBy: fc.constantFrom('none', 'model', 'api_key'),
  limit: fc.oneof(fc.constant(1000), fc.nat(30)),
});
/** No filter, some or all filters at once, mostly few, because hardly any record matches all of them. Some match no record. */
const filtered = fc
  .tuple(
    fc.record({
      keyId: fc.integer({ min: 1, max: 4 }),
      model: fc.constantFrom('m0', 'm1', 'm2', 'm3', 'unknown'),
      provider: fc.constantFrom('p0', 'p1', 'unknown'),
      endUser: fc.constantFrom('u0', 'u1', 'u2', 'u3', 'unknown'),
      groupId: fc.integer({ min: 1, max: 3 }),
      tag: fc.constantFrom('t0', 't1', 'unknown').map(value => ({ name: 'team', value })),
    }),
    fc.oneof(
      { weight: 4, arbitrary: fc.subarray(filterNames, { maxLength: 2 }) },
      { weight: 1, arbitrary: fc.subarray(filterNames) },
    ),
  )
  .map(([all, names]) => Object.fromEntries(names.map(name => [name, all[name]])) as Partial<typeof all>);
const groupings = fc.constantFrom<AnalyticsQuery['groupBy']>(
  'none',
  'model',
  'api_key',
  'provider',
  'end_user',
  'group',
  { tag: 'team' },
);

test('the sums of any time span equal those of its records, wherever it begins and ends; a span with too many rows is refused', async () => {
  await fc.assert(
    fc.asyncProperty(queries, async query => {
      const expected = summed(query);
      expect(await fixture.ledger.analytics(query)).toEqual(expected.length > query.limit ? 'too_many' : expected);
    }),
    { numRuns: 500 },
  );
});

test('sums with any grouping and any filters equal those of the matching records', async () => {
  await fc.assert(
    fc.asyncProperty(queries, filtered, groupings, async (span, filter, groupBy) => {
      const query = { ...span, ...filter, groupBy, limit: 1000 };
      const rows = await fixture.ledger.analytics(query);
      if (typeof rows === 'string') throw new Error(rows);
      expect(rows).toEqual(summed(query));
    }),
    { numRuns: 600 },
  );
});

/** Returns the sums with those of all but the largest groups together, computed as simply as possible. */
function splitByHand(rows: readonly AnalyticsRow[], { groups, of }: LargestGroups): AnalyticsRow[] {
  const measure = (row: AnalyticsRow): bigint => {
    if (of === 'cost') return row.costNanoUsd;
    if (of === 'tokens') return BigInt(row.input + row.cacheRead + row.cacheWrite + row.output);
    return BigInt(of === 'requests' ? row.requests : row.failed);
  };
  const names = [...new Set(rows.map(({ group }) => group))];
  const size = (name: AnalyticsRow['group']): bigint =>
    rows.filter(({ group }) => group === name).reduce((sum, row) => sum + measure(row), 0n);
  const order = names.toSorted((a, b) =>
    size(a) === size(b) ? ((a ?? '') < (b ?? '') ? -1 : 1) : size(a) > size(b) ? -1 : 1,
  );
  const largest = new Set(order.slice(0, groups));
  const rest = Map.groupBy(
    rows.filter(({ group }) => !largest.has(group)),
    ({ periodMs }) => periodMs,
  );
  const together = [...rest].map(([periodMs, own]): AnalyticsRow => {
    const plus = (a: AnalyticsRow, b: AnalyticsRow): AnalyticsRow => ({
      ...a,
      requests: a.requests + b.requests,
      failed: a.failed + b.failed,
      costNanoUsd: a.costNanoUsd + b.costNanoUsd,
      providerCostNanoUsd: a.providerCostNanoUsd + b.providerCostNanoUsd,
      marginNanoUsd: a.marginNanoUsd + b.marginNanoUsd,
      input: a.input + b.input,
      output: a.output + b.output,
      latencyMs: a.latencyMs + b.latencyMs,
    });
    return { ...own.reduce(plus), periodMs, group: null, isRest: true };
  });
  const kept = rows.filter(({ group }) => largest.has(group));
  // Within a period, the rest is last.
  return [...kept, ...together].sort((a, b) => a.periodMs - b.periodMs);
}

test('the largest groups have sums of their own, all others one together, which nothing is missing from', async () => {
  const largests = fc.record({
    groups: fc.integer({ min: 1, max: 4 }),
    of: fc.constantFrom('cost', 'requests', 'tokens', 'failed'),
  });
  let folded = 0;
  await fc.assert(
    fc.asyncProperty(queries, filtered, groupings, largests, async (span, filter, groupBy, largest) => {
      const query = { ...span, ...filter, groupBy, limit: 1000 };
      const expected = splitByHand(summed(query), largest);
      folded += expected.some(({ isRest }) => isRest) ? 1 : 0;
      expect(await fixture.ledger.analytics({ ...query, largest })).toEqual(expected);
    }),
    { numRuns: 1000 },
  );
  expect(folded).toBeGreaterThan(40);
});

test('a query that has to read too many records one by one is refused; the limit applies after stored sums and indexed filters', async () => {
  const query = {
    accountId: 1,
    startMs: 0,
    endMs: undefined,
    granularity: 'day',
    groupBy: 'none',
    limit: 1000,
  } as const;
  const count = (passes: (record: Known) => boolean): number => known.filter(passes).length;
  const provider = 'p1';
  const ask = (more: Partial<AnalyticsQuery>) => fixture.ledger.analytics({ ...query, ...more });
  expect(await ask({ provider, recordsMax: 0 })).toBeInstanceOf(Array);
  expect(await ask({ keyId: 2, recordsMax: 0 })).toBeInstanceOf(Array);
  const ofAll = { provider, groupBy: 'api_key' } as const;
  expect(await ask({ ...ofAll, recordsMax: known.length - 1 })).toBe('too_many_records');
  expect(await ask({ ...ofAll, recordsMax: known.length })).toBeInstanceOf(Array);
  const ofKey = { provider, keyId: 2 };
  expect(await ask({ ...ofKey, recordsMax: count(({ keyId }) => keyId === 2) - 1 })).toBe('too_many_records');
  expect(await ask({ ...ofKey, recordsMax: count(({ keyId }) => keyId === 2) })).toBeInstanceOf(Array);
});

test('another account sees none of these records', async () => {
  const { accountId } = await fixture.ledger.createAccount({ name: 'other', balance: 0n });
  const all = { accountId, startMs: 0, endMs: undefined, granularity: 'day', groupBy: 'none', limit: 10 } as const;
  expect(await fixture.ledger.analytics(all)).toEqual([]);
});

test('names with characters that an engine can’t store are counted and found like others', async () => {
  const odd = await openFixture({ isInline: true });
  try {
    const { ledger, clock } = odd;
    for (const [index, text] of ['a\0b', 'c\ud800d', 'plain'].entries()) {
      await ledger.admit(makeAdmitCommand(index + 1, { endUser: text, tags: { of: text } }));
      expect(await ledger.settle(makeSettleCommand(index + 1, 1))).toMatchObject({ kind: 'settled' });
    }
    const all = {
      accountId: 1,
      startMs: clock.nowMs - dayMs,
      endMs: undefined,
      granularity: 'day',
      limit: 10,
    } as const;
    for (const groupBy of ['end_user', { tag: 'of' }] as const)
      expect(await ledger.analytics({ ...all, groupBy })).toHaveLength(3);
    const plain = { endUser: 'plain', tag: { name: 'of', value: 'plain' } };
    expect(await ledger.analytics({ ...all, ...plain, groupBy: 'none' })).toMatchObject([{ requests: 1 }]);
  } finally {
    await odd.end();
  }
});

test('beyond 10,000 end users of an account on a day, further ones are summed as `(other)`; records keep their names', async () => {
  const day = await openFixture({ balance: 10n ** 12n, isInline: true });
  try {
    const { ledger, clock } = day;
    const serve = async (id: number, endUser: string): Promise<void> => {
      await ledger.admit(makeAdmitCommand(id, { endUser, funds: undefined, tags: { of: endUser } }));
      await ledger.settle(makeSettleCommand(id, 1));
    };
    const users = Array.from({ length: 10_003 }, (_, index) => `user ${index}`);
    // 1,000 at a time, because an admission that waits for seconds is refused.
    for (let from = 0; from < users.length; from += 1000)
      await Promise.all(users.slice(from, from + 1000).map((user, index) => serve(from + index + 1, user)));
    await serve(20_000, 'user 1');
    const query = {
      accountId: 1,
      startMs: clock.nowMs - dayMs,
      endMs: undefined,
      granularity: 'day',
      limit: 20_000,
    } as const;
    for (const groupBy of ['end_user', { tag: 'of' }] as const) {
      const rows = await ledger.analytics({ ...query, groupBy });
      if (typeof rows === 'string') throw new Error(rows);
      expect(rows).toHaveLength(10_001);
      const requests = new Map(rows.map(row => [row.group, row.requests]));
      expect([requests.get('(other)'), requests.get('user 1'), requests.get('user 2')]).toEqual([3, 2, 1]);
    }
    // If some requests of an end user may be counted under `(other)`, the sums are computed from the records.
    for (const only of [{ endUser: 'user 10002' }, { tag: { name: 'of', value: 'user 10002' } }]) {
      expect(await ledger.analytics({ ...query, ...only, groupBy: 'none' })).toMatchObject([{ requests: 1 }]);
    }
    const records = await ledger.listActivity({ accountId: 1, limit: 1, offset: 0, endUser: 'user 10002' });
    expect(records.map(({ endUser, tags }) => [endUser, tags])).toEqual([['user 10002', { of: 'user 10002' }]]);
    clock.step(dayMs);
    await serve(20_001, 'user 10002');
    const next = await ledger.analytics({ ...query, startMs: clock.nowMs - 1, groupBy: 'end_user' });
    expect(next).toMatchObject([{ group: 'user 10002', requests: 1 }]);
  } finally {
    await day.end();
  }
});
