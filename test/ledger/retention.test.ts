/** Which old data is removed, and that sums, balances and entries stay and every invariant holds. */
import Database from 'better-sqlite3';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  isOnPostgres,
  makeAdmitCommand,
  makeHash,
  type LedgerFixture,
  dollar,
  estimate,
  openFixture,
  plans,
  settleAmount,
  makeLimit,
  makeSettleCommand,
} from './fixture.ts';

const day = 86_400_000;
let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openFixture({
    isInline: true,
    balance: 100n * dollar,
    plans: {
      ...plans,
      core: { ...plans.core, biweekly: { priceNanoUsd: dollar, tokens: 10_000 }, freeDailyRequests: 1 },
    },
  });
});
afterEach(() => fixture.end());

let id = 0;

/** Runs thirty days of requests of a key, a group and a plan. Two cost more than their payer has. */
async function live(): Promise<void> {
  const { ledger, clock } = fixture;
  const group = await ledger.createGroup({ accountId: 1, settings: { name: 'g', balance: 5n * dollar } });
  if (typeof group === 'string') throw new Error(group);
  await ledger.startSubscription({ accountId: 1, plan: 'core', period: 'biweekly' });
  for (let n = 0; n < 60; n++) {
    if (n % 30 === 10) await ledger.addCredit({ accountId: 1, amount: 50n * dollar, note: 'again' });
    clock.nowMs += day / 2;
    await ledger.updateKey({ keyId: 1, accountId: 1, settings: { groupId: n % 2 === 0 ? group.groupId : null } });
    const funds = { ...estimate(), plan: n % 3 === 0, freeDaily: n % 6 === 0 };
    await ledger.admit(makeAdmitCommand(++id, { funds, endUser: `user ${n % 3}`, tags: { team: `t${n % 2}` } }));
    if (n % 7 === 6) await ledger.void(id, 'cancelled');
    else
      await (n % 30 === 9 ? ledger.settle(settleAmount(id, 200n * dollar)) : ledger.settle(makeSettleCommand(id, 20)));
  }
}

async function removeBefore(ms: number): Promise<number> {
  let all = 0;
  for (;;) {
    const removed = await fixture.ledger.removeOld({ activityBeforeMs: ms, auditBeforeMs: ms, eventsBeforeMs: ms });
    if (removed === 0) return all;
    all += removed;
  }
}

const activity = { accountId: 1, limit: 1000, offset: 0 };

async function readSums(): Promise<unknown> {
  const { ledger } = fixture;
  const query = { accountId: 1, startMs: 0, endMs: undefined, granularity: 'day', limit: 1000 } as const;
  const groups = ['none', 'model', 'api_key', 'group', 'end_user', { tag: 'team' }] as const;
  return Promise.all([
    ...groups.map(groupBy => ledger.analytics({ ...query, groupBy })),
    // A write-off belongs to a request only while the record is stored.
    ledger.listEntries(activity).then(entries => entries.map(entry => ({ ...entry, requestId: null }))),
    ledger.findAccount(1),
    ledger.listGroups(1),
    ledger.findSubscription(1),
  ]);
}

test('old records are removed; sums, balances and the hash chain stay', async () => {
  await live();
  const { ledger, clock } = fixture;
  const before = await readSums();
  const horizonMs = clock.nowMs - 10 * day;
  const recent = (await ledger.listActivity(activity)).filter(
    row => row.createdAtMs >= Math.floor(horizonMs / day) * day,
  );
  expect(await removeBefore(horizonMs)).toBeGreaterThan(30);
  expect(await ledger.listActivity(activity)).toEqual(recent);
  expect(recent.length).toBeGreaterThan(10);
  expect(await readSums()).toEqual(before);
  expect(await ledger.verify()).toEqual([]);
  await fixture.reopen();
  expect(fixture.ledger.violationsAtStart).toEqual([]);
  expect(await fixture.ledger.verify()).toEqual([]);
  // The second run continues the removal.
  await fixture.ledger.admit(makeAdmitCommand(++id));
  expect(await fixture.ledger.settle(makeSettleCommand(id, 5))).toMatchObject({ kind: 'settled' });
});

// Only SQLite has a trigger for this.
test.skipIf(isOnPostgres)('recent records can’t be removed, even by SQL', async () => {
  await live();
  await removeBefore(fixture.clock.nowMs - 10 * day);
  const db = new Database(join(fixture.dataDir, 'ledger.sqlite'));
  expect(() => db.exec('DELETE FROM usage')).toThrow('usage rows are only inserted');
  db.close();
});

test('a limit of window `total` keeps its use', async () => {
  await makeLimit(fixture.ledger, { window: 'total', max: 1000n });
  await live();
  const before = await fixture.ledger.listActivity(activity);
  await removeBefore(fixture.clock.nowMs - 10 * day);
  expect(await fixture.ledger.listActivity(activity)).toEqual(before);
});

test('the use of windows that ended long ago is removed, and limits decide and report the same as before', async () => {
  const { ledger, clock } = fixture;
  const parts = { timeZone: 'Asia/Kolkata', models: null, action: 'refuse', raised: null, locked: false } as const;
  const scope = { accountId: 1, scope: 'key', scopeId: 1, unit: 'requests' } as const;
  for (const window of ['hour', 'day', 'week', 'month'] as const) {
    for (const endUsers of ['all', 'each'] as const) {
      await ledger.createLimit({ ...parts, ...scope, window, endUsers, max: 20n });
    }
  }
  await live();
  const countUses = async (): Promise<Record<string, number>> => {
    await ledger.listLimits({ accountId: 1 });
    const rows = await fixture.query(
      'SELECT per, end_users, count(*) AS n FROM limit_use JOIN usage_limit ON id = limit_id GROUP BY 1, 2',
    );
    const counts = rows.map(({ per, end_users, n }) => [`${String(per)} ${String(end_users)}`, Number(n)] as const);
    return Object.fromEntries(counts);
  };
  const [before, shown] = [await countUses(), await ledger.listLimits({ accountId: 1 })];
  expect(before['hour each']).toBeGreaterThan(60);
  // Nothing more is old enough.
  expect(await removeBefore(clock.nowMs - 100 * day)).toBeGreaterThan(150);
  const after = await countUses();
  expect(after['hour all']).toBeLessThan(20);
  expect(after['day each']).toBeLessThan(40);
  expect([after['week all'], after['month all']]).toEqual([2, 1]);
  expect(await ledger.listLimits({ accountId: 1 })).toEqual(shown);
  // A request that was admitted in a removed window can still end, and the monthly limit refuses as before.
  const month = shown.find(({ window, endUsers }) => window === 'month' && endUsers === 'all');
  const passes = async (): Promise<boolean> => (await ledger.admit(makeAdmitCommand(++id))).kind === 'admitted';
  for (let n = Number(month?.remaining); n > 0; n--) expect(await passes()).toBe(true);
  expect(await passes()).toBe(false);
  const late = id - 1;
  clock.nowMs += 60 * day;
  await removeBefore(clock.nowMs - 100 * day);
  expect(await ledger.settle(makeSettleCommand(late, 5))).toMatchObject({ kind: 'settled' });
  expect(await ledger.verify()).toEqual([]);
  await fixture.reopen();
  expect(fixture.ledger.violationsAtStart).toEqual([]);
  expect(await fixture.ledger.verify()).toEqual([]);
});

test('the audit is removed only from its beginning, and the rest can still be verified', async () => {
  await live();
  const { ledger, clock } = fixture;
  const all = await ledger.listAudit({ limit: 1000, offset: 0 });
  const horizonMs = clock.nowMs - 10 * day;
  await removeBefore(horizonMs);
  const kept = await ledger.listAudit({ limit: 1000, offset: 0 });
  expect(kept).toEqual(all.filter(row => row.createdAtMs >= horizonMs));
  expect(kept.length).toBeGreaterThan(5);
  expect(await ledger.verify()).toEqual([]);
  // All of the audit may be removed.
  clock.nowMs += 365 * day;
  await removeBefore(clock.nowMs);
  expect(await ledger.listAudit({ limit: 10, offset: 0 })).toEqual([]);
  await ledger.updateAccount({ accountId: 1, name: 'renamed' });
  const [first] = await ledger.listAudit({ limit: 10, offset: 0 });
  expect(first?.previousHash).toBe(all[0]?.hash);
});

test('pages of a tag, a provider or a group together have all matching records, for any page size', async () => {
  await live();
  const { ledger } = fixture;
  const all = await ledger.listActivity(activity);
  const [group] = await ledger.listGroups(1);
  const [first, last] = [all.at(-1)?.createdAtMs ?? 0, all[0]?.createdAtMs ?? 0];
  const ofGroup = await ledger.listActivity({ ...activity, groupId: group?.groupId ?? 0 });
  expect(ofGroup.length).toBeGreaterThan(5);
  const provider = 'local';
  const filters = [
    {
      filter: { tag: { name: 'team', value: 't1' } },
      has: (tags: Readonly<Record<string, string>>) => tags['team'] === 't1',
    },
    { filter: { tag: { name: 'team', value: 'none' } }, has: () => false },
    { filter: { provider }, has: () => true },
    { filter: { provider: 'nobody' }, has: () => false },
  ];
  for (const { filter, has } of filters) {
    const expected = all.filter(({ tags }) => has(tags));
    expect(await ledger.listActivity({ ...activity, ...filter })).toEqual(expected);
    const page = { ...activity, ...filter, limit: 4, offset: 3 };
    expect(await ledger.listActivity(page)).toEqual(expected.slice(3, 7));
    const span = { startMs: first + 3 * day, endMs: last - 2 * day };
    const inSpan = ({ createdAtMs }: { createdAtMs: number }): boolean =>
      createdAtMs >= span.startMs && createdAtMs < span.endMs;
    expect(await ledger.listActivity({ ...page, ...span })).toEqual(expected.filter(inSpan).slice(3, 7));
  }
});

test('the row of a session is removed a day after the session has ended; the row of a live session stays', async () => {
  const { ledger, clock } = fixture;
  const session = { role: 'owner', accountId: 1, keyHash: null, subject: 'ann' } as const;
  await ledger.createSession({ ...session, hash: makeHash('one'), endsAtMs: clock.nowMs + day / 2 });
  await ledger.createSession({ ...session, hash: makeHash('two'), endsAtMs: clock.nowMs + 9 * day });
  clock.nowMs += day;
  expect(await removeBefore(0)).toBe(0);
  clock.nowMs += day;
  expect(await removeBefore(0)).toBe(1);
  expect((await ledger.listSessions(1)).map(({ sessionId }) => sessionId)).toEqual([2]);
  expect(await ledger.verify()).toEqual([]);
});
