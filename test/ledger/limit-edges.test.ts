import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Admitted, Denied, LimitRow, LimitUnit, LimitWindow, NewLimit } from '../../src/ledger/ledger.ts';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  estimate,
  makeHash,
  makeLimit,
  noUsage,
  openFixture,
  settleAmount,
  makeSettleCommand,
  temporaryDirectory,
} from './fixture.ts';

let fixture: LedgerFixture;
let nextId: number;
beforeEach(async () => {
  fixture = await openFixture({ balance: 1000n * dollar, isInline: true });
  nextId = 1;
});
afterEach(async () => fixture.end());

const limit = (change: Partial<NewLimit>): Promise<LimitRow> => makeLimit(fixture.ledger, change);

const admit = (change: Parameters<typeof makeAdmitCommand>[1] = {}, key = 'key'): Promise<Admitted | Denied> =>
  fixture.ledger.admit(makeAdmitCommand(nextId++, { funds: amount(1n), ...change }, key));
const findLimit = async (limitId: number): Promise<LimitRow | undefined> => fixture.ledger.findLimit(limitId, 1);
const passed = (replies: readonly (Admitted | Denied)[]): number =>
  replies.filter(({ kind }) => kind === 'admitted').length;
/** An estimate with which the whole output is held at once. */
const textEstimate = { inputTokens: 100, outputTokensMin: 100, outputTokensWanted: 100 };

const units: readonly LimitUnit[] = ['usd', 'requests', 'tokens', 'concurrent'];
const windows: readonly LimitWindow[] = ['minute', 'hour', 'day', 'week', 'month', 'total'];
const edges = units.flatMap((unit): { unit: LimitUnit; window: LimitWindow | null }[] =>
  unit === 'concurrent' ? [{ unit, window: null }] : windows.map(window => ({ unit, window })),
);

/** The full number of requests is sent for one scope, and fewer for the others, because their code is the same. */
const scopes = [
  { scope: 'key', atOnce: 1000 },
  { scope: 'group', atOnce: 150 },
  { scope: 'account', atOnce: 150 },
] as const;

/** Makes an account, a group in it and a key named `name` in the group. Returns the ids. */
async function makeOwner(name: string): Promise<Record<'account' | 'group' | 'key', number>> {
  const { accountId: account } = await fixture.ledger.createAccount({ name, balance: 1000n * dollar });
  const group = await fixture.ledger.createGroup({ accountId: account, settings: { name: 'team' } });
  if (typeof group === 'string') throw new Error(group);
  const settings = { groupId: group.groupId };
  const key = await fixture.ledger.createKey({ accountId: account, hash: makeHash(name), masked: '', settings });
  if (typeof key === 'string') throw new Error(key);
  return { account, group: group.groupId, key: key.keyId };
}

test.each(edges)(
  'of many requests at once, a limit (unit $unit, window $window) admits exactly its maximum, in every scope',
  async edge => {
    const { unit, window } = edge;
    for (const { scope, atOnce } of scopes) {
      const name = `owner of the ${scope}`;
      const owner = await makeOwner(name);
      const scopeId = owner[scope];
      const max = { usd: 37n * 1000n + 999n, requests: 37n, tokens: 37n * 200n + 115n, concurrent: 37n }[unit];
      const { limitId } = await limit({ accountId: owner.account, scope, scopeId, unit, window, max });
      const funds = unit === 'tokens' ? estimate(textEstimate) : amount(1000n);
      const replies = await Promise.all(
        Array.from({ length: atOnce }, () => admit({ funds, text: textEstimate }, name)),
      );
      expect([scope, passed(replies)]).toEqual([scope, 37]);
      const refused = replies.find(({ kind }) => kind === 'denied');
      expect(refused).toMatchObject({
        code: unit === 'usd' ? 'spending_limit' : 'rate_limit',
        denial: { row: { id: limitId, scope, scopeId, window } },
      });
      const row = await fixture.ledger.findLimit(limitId, owner.account);
      expect((row?.used ?? 0n) + (row?.held ?? 0n) <= max).toBe(true);
      expect(row?.remaining).toBe(max - (row?.used ?? 0n) - (row?.held ?? 0n));
    }
  },
);

test('running requests count in a `concurrent` limit until they end in any way, or until a restart after a kill', async () => {
  const { limitId } = await limit({ unit: 'concurrent', window: null, max: 3n });
  for (let n = 0; n < 3; n++) expect(await admit()).toMatchObject({ kind: 'admitted' });
  expect(await admit()).toMatchObject({
    code: 'rate_limit',
    retryAfterMs: 1000,
    denial: { unit: 'concurrent', used: 3, max: 3, row: { window: null } },
  });
  await fixture.ledger.settle(settleAmount(1, 1n));
  await fixture.ledger.void(2, 'rejected');
  expect(await findLimit(limitId)).toMatchObject({ used: 1n, held: 0n, remaining: 2n, resetsAtMs: null });
  expect(await admit({ expiresAtMs: fixture.clock.nowMs + 60_000 })).toMatchObject({ kind: 'admitted' });
  expect(await admit()).toMatchObject({ kind: 'admitted' });
  expect(await admit()).toMatchObject({ kind: 'denied' });
  // The files are copied while the ledger runs, which simulates a kill.
  const left = temporaryDirectory();
  cpSync(fixture.dataDir, left.path, { recursive: true });
  await fixture.ledger.close();
  for (const file of readdirSync(fixture.dataDir)) rmSync(join(fixture.dataDir, file));
  cpSync(left.path, fixture.dataDir, { recursive: true });
  left.remove();
  await fixture.open();
  // The hold with an expiry, which an internal service made, stays.
  expect(await findLimit(limitId)).toMatchObject({ used: 1n, remaining: 2n });
  expect(passed(await Promise.all([admit(), admit(), admit()]))).toBe(2);
  fixture.clock.step(60_000);
  expect(await admit()).toMatchObject({ kind: 'admitted' });
});

test('tokens are held for the input and slices, then counted as reported, even above the limit', async () => {
  const { limitId } = await limit({ unit: 'tokens', window: 'hour', max: 1500n });
  const funds = estimate();
  expect(await admit({ funds, text: funds })).toMatchObject({
    // The slice is so small that another such request fits, with its input.
    outputTokens: 650,
    outputTokensAvailable: 750,
    windows: [{ limit: 'limit', unit: 'tokens', max: 1500, remaining: 750 }],
  });
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 1024 })).toMatchObject({
    outputTokens: 750,
    outputTokensAvailable: 0,
  });
  expect(await findLimit(limitId)).toMatchObject({ used: 0n, held: 1500n, remaining: 0n });
  expect(await admit({ funds, text: funds })).toMatchObject({
    code: 'rate_limit',
    denial: { limit: 'limit', unit: 'tokens', used: 1500, max: 1500 },
  });
  // Requests without an estimate of tokens are not limited.
  expect(await admit()).toMatchObject({ kind: 'admitted' });
  const usage = { ...noUsage, input: 100, cacheRead: 900, output: 600, reasoning: 100 };
  await fixture.ledger.settle(makeSettleCommand(1, 0, { usage }));
  expect(await findLimit(limitId)).toMatchObject({ used: 1600n, held: 0n, remaining: 0n });
  fixture.clock.step(3_600_000);
  expect(await findLimit(limitId)).toMatchObject({ used: 0n, remaining: 1500n });
});

test('a token limit also applies to free requests, which are extended as far as it allows', async () => {
  await limit({ unit: 'tokens', window: 'total', max: 500n });
  const free = { funds: undefined, free: true, model: 'acme/small:free', text: estimate() };
  expect(await admit(free)).toMatchObject({ heldNanoUsd: 0n, outputTokens: 150, outputTokensAvailable: 250 });
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 1024 })).toMatchObject({ outputTokens: 250 });
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 1 })).toMatchObject({ kind: 'denied' });
  expect(await admit(free)).toMatchObject({ code: 'rate_limit', denial: { unit: 'tokens' } });
});

test('an answer that lasts longer than a minute never uses more than the limit of the minute of its admission', async () => {
  const { limitId } = await limit({ unit: 'tokens', window: 'minute', max: 2000n });
  const funds = estimate();
  const first = await admit({ funds, text: funds });
  fixture.clock.step(59_000);
  const small = estimate({ outputTokensWanted: 16 });
  expect(await admit({ funds: small, text: small })).toMatchObject({ kind: 'admitted', outputTokens: 16 });
  const before = await findLimit(limitId);
  fixture.clock.step(600_000);
  let more = 0n;
  for (;;) {
    const { kind, outputTokens } = await fixture.ledger.extend({ id: 1, outputTokens: 5000 });
    if (kind === 'denied') break;
    more += BigInt(outputTokens);
  }
  // Both requests were admitted within 60 s, and the other one keeps what it holds.
  expect([first.kind, (before?.held ?? 0n) + more]).toEqual(['admitted', 2000n]);
  expect(await admit({ funds, text: funds })).toMatchObject({ kind: 'admitted' });
});

test('use beyond a request’s first hold counts in the minute of its admission once it is charged', async () => {
  const { limitId } = await limit({ unit: 'usd', window: 'minute', max: 10n });
  expect(await admit({ funds: undefined })).toMatchObject({ kind: 'admitted', heldNanoUsd: 0n });
  fixture.clock.step(30_000);
  await fixture.ledger.settle(settleAmount(1, 4n));
  expect(await findLimit(limitId)).toMatchObject({ used: 4n, remaining: 6n });
  fixture.clock.step(30_000);
  expect(await findLimit(limitId)).toMatchObject({ used: 0n, remaining: 10n });
});

test('a step back of the clock never makes the same part of a limit available twice, for every window', async () => {
  for (const window of windows) await limit({ window, max: 5n });
  fixture.clock.set('2026-10-25T00:30:00Z');
  const times = ['2026-10-25T00:59:59Z', '2026-10-24T23:59:59Z', '2026-10-25T00:30:00Z', '2026-10-25T00:59:59Z'];
  let all = 0;
  for (const time of times) {
    fixture.clock.set(time);
    all += passed(await Promise.all(Array.from({ length: 20 }, () => admit())));
  }
  expect(all).toBe(5);
});

test('days are those of the time zone, even if they have 23 or 25 hours, and no day counts twice', async () => {
  await limit({ window: 'day', timeZone: 'Europe/Berlin', max: 2n });
  // In Berlin, daylight saving time ends at 01:00 UTC: October 25 lasts from 22:00 UTC on the 24th to 23:00 UTC on the 25th.
  for (const [time, admits] of [
    ['2026-10-24T21:59:59.999Z', 2],
    ['2026-10-24T22:00:00.000Z', 1],
    ['2026-10-25T00:30:00.000Z', 1],
    ['2026-10-25T01:30:00.000Z', 0],
    ['2026-10-25T22:59:59.999Z', 0],
    ['2026-10-25T23:00:00.000Z', 2],
    ['2026-03-28T23:00:00.000Z', 2],
    ['2026-03-29T21:59:59.999Z', 0],
    ['2026-03-29T22:00:00.000Z', 2],
  ] as const) {
    fixture.clock.set(time);
    const most = time.endsWith('22:00:00.000Z') && time.startsWith('2026-10-24') ? 1 : time.includes('00:30') ? 1 : 5;
    const replies: (Admitted | Denied)[] = [];
    for (let n = 0; n < most; n++) replies.push(await admit());
    expect([time, passed(replies)]).toEqual([time, admits]);
  }
});

test('a limit with a pattern counts and limits only matching models; end users are counted separately, and requests without an end user together', async () => {
  await limit({ models: ['acme/large*', 'other/one'], max: 1n });
  expect(passed([await admit({ model: 'acme/large-2' }), await admit({ model: 'other/one' })])).toBe(1);
  expect(passed([await admit({ model: 'acme/small' }), await admit({ model: 'other/one-2' })])).toBe(2);
  const each = await limit({ endUsers: 'each', models: ['acme/small'], max: 3n });
  const by = (endUser?: string): Promise<Admitted | Denied> =>
    admit({ model: 'acme/small', ...(endUser === undefined ? {} : { endUser }) });
  expect(passed(await Promise.all([by(), by(), by(), by()]))).toBe(2);
  expect(passed(await Promise.all([by('ann'), by('ann'), by('ben')]))).toBe(3);
  expect(await findLimit(each.limitId)).toMatchObject({ used: 3n, remaining: 0n });
  expect(passed(await Promise.all([by('ann'), by('ann'), by('ben')]))).toBe(2);
});

test('a raise applies until its end; a limit with action `alert` never refuses; a maximum of 0 refuses everything', async () => {
  const raised = { max: 2n, untilMs: fixture.clock.nowMs + 1000 };
  const { limitId } = await limit({ max: 1n, raised });
  await limit({ max: 0n, action: 'alert' });
  expect(passed([await admit(), await admit(), await admit()])).toBe(2);
  expect(await findLimit(limitId)).toMatchObject({ used: 2n, remaining: 0n, raised });
  fixture.clock.step(1000);
  expect(await admit()).toMatchObject({ denial: { used: 2, max: 1 } });
  await fixture.ledger.deleteLimit({ limitId, accountId: 1 });
  expect(await admit()).toMatchObject({ kind: 'admitted' });
  await limit({ max: 0n });
  expect(await admit()).toMatchObject({ denial: { max: 0 } });
});

test('a new limit counts the earlier requests of its window; after a change of its pattern, they are counted again', async () => {
  for (const model of ['a', 'a', 'b']) await admit({ model });
  const made = await limit({ max: 10n });
  expect(made).toMatchObject({ used: 3n, remaining: 7n });
  const change = { models: ['a'] };
  expect(await fixture.ledger.updateLimit({ limitId: made.limitId, accountId: 1, change })).toMatchObject({ used: 2n });
  const spent = await limit({ unit: 'usd', window: 'total', scope: 'account', max: dollar });
  expect(spent).toMatchObject({ used: 0n, held: 3n });
});

test('if two limits that count the same both lack room, the one that is first in the order refuses, not the tightest', async () => {
  const month = await limit({ unit: 'tokens', window: 'month', max: 290n });
  const hour = await limit({ unit: 'tokens', window: 'hour', max: 300n });
  expect(await admit({ funds: estimate(textEstimate), text: textEstimate })).toMatchObject({ kind: 'admitted' });
  const row = ({ limitId }: LimitRow) => ({ code: 'rate_limit', denial: { row: { id: limitId } } });
  expect(await admit({ funds: estimate(textEstimate), text: textEstimate })).toMatchObject(row(hour));
  expect([(await findLimit(month.limitId))?.remaining, (await findLimit(hour.limitId))?.remaining]).toEqual([
    90n,
    100n,
  ]);
});

test('the limits of a request refuse in a fixed order, and a refused request counts in none', async () => {
  const group = await fixture.ledger.createGroup({ accountId: 1, settings: { name: 'team' } });
  const scopeId = typeof group === 'string' ? 0 : group.groupId;
  await fixture.ledger.updateKey({ keyId: 1, accountId: 1, settings: { groupId: scopeId } });
  const account = await limit({ scope: 'account', window: 'minute', max: 0n });
  const ofGroup = await limit({ scope: 'group', scopeId, max: 0n });
  const ofKey = await limit({ window: 'total', max: 0n });
  const rows = [ofKey, ofGroup, account];
  const running = await limit({ unit: 'concurrent', window: null, max: 5n });
  for (const { limitId } of rows) {
    expect(await admit()).toMatchObject({ denial: { row: { id: limitId } } });
    await fixture.ledger.updateLimit({ limitId, accountId: 1, change: { max: 9n } });
  }
  expect(await admit()).toMatchObject({ kind: 'admitted' });
  for (const { limitId } of [...rows, running]) expect(await findLimit(limitId)).toMatchObject({ used: 1n });
});

test('an account can’t change the operator’s limits, and no one can change the fixed limits of free models; fields of keys show their limits', async () => {
  const { ledger } = fixture;
  const locked = await limit({ locked: true });
  const [free] = await ledger.listLimits({ accountId: 1, scope: 'account' });
  const { limitId: freeId } = free ?? locked;
  for (const [limitId, accountId, refused] of [
    [locked.limitId, 1, 'locked'],
    [freeId, 1, 'fixed'],
    [freeId, undefined, 'fixed'],
  ] as const) {
    expect(await ledger.updateLimit({ limitId, accountId, change: { max: 9n } })).toBe(refused);
    expect(await ledger.deleteLimit({ limitId, accountId })).toBe(refused);
  }
  expect(
    await ledger.updateLimit({ limitId: locked.limitId, accountId: undefined, change: { max: 9n } }),
  ).toMatchObject({
    max: 9n,
  });
  const settings = { dailyLimit: 3, minuteLimit: 5 };
  expect(await ledger.updateKey({ keyId: 1, accountId: 1, settings })).toMatchObject(settings);
  const rows = (await ledger.listLimits({ accountId: 1, scope: 'key', scopeId: 1 })).filter(({ locked: is }) => !is);
  expect(rows.map(({ unit, window, max }) => [unit, window, max])).toEqual([
    ['requests', 'minute', 5n],
    ['usd', 'day', 3n * dollar],
  ]);
  const daily = rows[1]?.limitId ?? 0;
  await ledger.updateLimit({ limitId: daily, accountId: 1, change: { max: dollar / 2n } });
  expect(await ledger.findKey(1, 1)).toMatchObject({ dailyLimit: null, minuteLimit: 5 });
  expect(await ledger.updateKey({ keyId: 1, accountId: 1, settings: { dailyLimit: 0, minuteLimit: 0 } })).toMatchObject(
    {
      dailyLimit: null,
      minuteLimit: 0,
    },
  );
  expect(await findLimit(daily)).toMatchObject({ max: dollar / 2n });
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { dailyLimit: 2 } });
  expect(await ledger.findKey(1, 1)).toMatchObject({ dailyLimit: 2 });
  expect(await findLimit(daily)).toMatchObject({ max: dollar / 2n });
});

test('a rotated key keeps its id, money and limits; its old secret works until the overlap ends, even after another rotation', async () => {
  const { ledger, clock } = fixture;
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { balance: dollar, minuteLimit: 3 } });
  const rotate = (to: string, overlapMs: number) =>
    ledger.rotateKey({ keyId: 1, accountId: 1, hash: makeHash(to), masked: to, overlapMs });
  expect(await rotate('second', 5000)).toMatchObject({ keyId: 1, masked: 'second', balance: dollar, minuteLimit: 3 });
  expect(await rotate('third', 0)).toMatchObject({ masked: 'third' });
  expect(await ledger.findCredential(makeHash('key'))).toMatchObject({ keyId: 1, expiresAtMs: clock.nowMs + 5000 });
  expect(await ledger.findCredential(makeHash('second'))).toBeUndefined();
  expect(await ledger.findCredential(makeHash('third'))).toMatchObject({ keyId: 1, expiresAtMs: undefined });
  expect(passed([await admit(), await admit({}, 'third'), await admit({}, 'third'), await admit({}, 'third')])).toBe(3);
  clock.step(5000);
  expect(await ledger.findCredential(makeHash('key'))).toMatchObject({ expired: true });
  expect(await ledger.rotateKey({ keyId: 1, accountId: 2, hash: makeHash('x'), masked: '', overlapMs: 0 })).toBe(
    'not_found',
  );
  await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'revoked' });
  expect(await ledger.findCredential(makeHash('third'))).toBeUndefined();
});

test('groups can be nested at most 5 deep and not in themselves; their money pays before the account’s and moves back to it', async () => {
  const { ledger } = fixture;
  const make = async (parentId: number | null, settings = {}): Promise<number> => {
    const made = await ledger.createGroup({ accountId: 1, settings: { name: 'group', parentId, ...settings } });
    return typeof made === 'string' ? -1 : made.groupId;
  };
  const path = [await make(null, { balance: 10n })];
  for (let depth = 1; depth < 5; depth++) path.push(await make(path.at(-1) ?? 0));
  expect(await ledger.createGroup({ accountId: 1, settings: { name: 'sixth', parentId: path[4] ?? 0 } })).toBe(
    'conflict',
  );
  const top = { groupId: path[0] ?? 0, accountId: 1 };
  expect(await ledger.updateGroup({ ...top, settings: { parentId: path[2] ?? 0 } })).toBe('conflict');
  expect(await ledger.deleteGroup(top)).toBe('conflict');
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { groupId: path[4] ?? 0 } });
  expect(await admit({ funds: amount(11n) })).toMatchObject({ code: 'insufficient_balance' });
  expect(await admit({ funds: amount(7n) })).toMatchObject({ availableNanoUsd: 3n });
  await ledger.settle(settleAmount(nextId - 1, 6n));
  expect(await ledger.findGroup(top.groupId, 1)).toMatchObject({ balance: 4n, held: 0n });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 1000n * dollar - 10n });
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { groupId: null } });
  for (const groupId of path.toReversed()) expect(await ledger.deleteGroup({ groupId, accountId: 1 })).toBe('deleted');
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 1000n * dollar - 6n });
});

test('if a group is removed while its request runs, the rest of the hold returns to the account', async () => {
  const { ledger } = fixture;
  const made = await ledger.createGroup({ accountId: 1, settings: { name: 'group', balance: 10n } });
  const groupId = typeof made === 'string' ? -1 : made.groupId;
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { groupId } });
  expect(await admit({ funds: amount(7n) })).toMatchObject({ kind: 'admitted', availableNanoUsd: 3n });
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { groupId: null } });
  expect(await ledger.deleteGroup({ groupId, accountId: 1 })).toBe('deleted');
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 1000n * dollar - 7n });
  await ledger.settle(settleAmount(nextId - 1, 5n));
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 1000n * dollar - 5n });
});

test('slices are smaller if money is short: $0.03 runs more than 60 small answers at once, and is not exceeded', async () => {
  const { ledger } = fixture;
  await ledger.addCredit({ accountId: 1, amount: -1000n * dollar + 30_000_000n, note: '' });
  // 30,000,000 nano-dollars pay for 20 slices of 1,024 output tokens; an input costs as much as 10 tokens.
  const funds = estimate({ inputTokens: 40, inputNanoUsd: 14_000n, outputPicoUsd: 1_450_000n });
  const replies = await Promise.all(Array.from({ length: 200 }, () => admit({ funds })));
  const running = replies.flatMap(reply => (reply.kind === 'admitted' ? [reply] : []));
  expect(running.length).toBeGreaterThan(60);
  expect(running.reduce((sum, { heldNanoUsd }) => sum + heldNanoUsd, 0n) <= 30_000_000n).toBe(true);
  expect(Math.max(...running.map(({ outputTokens }) => outputTokens))).toBe(1024);
  const costs = await Promise.all(running.map(({ id }) => ledger.settle(settleAmount(id, 300_000n))));
  const spent = costs.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 30_000_000n - spent, held: 0n });
  expect(spent <= 30_000_000n).toBe(true);
});

test('if the balance pays for five answers, five can run', async () => {
  const { ledger } = fixture;
  const funds = estimate({ inputTokens: 40, inputNanoUsd: 40_000n });
  await ledger.addCredit({ accountId: 1, amount: -1000n * dollar + 5n * (40_000n + 100n * 4000n), note: '' });
  expect(passed(await Promise.all(Array.from({ length: 5 }, () => admit({ funds }))))).toBe(5);
});
