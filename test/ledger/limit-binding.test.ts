/** Which limits apply to a request, what they count, and who pays: cases that hardly ever occur in random traces. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Admitted, Denied, LimitRow, NewLimit } from '../../src/ledger/ledger.ts';
import {
  amount,
  type LedgerFixture,
  dollar,
  estimate,
  makeAdmitCommand,
  makeLimit,
  makeSettleCommand,
  noUsage,
  openFixture,
} from './fixture.ts';

let fixture: LedgerFixture;
let nextId: number;
beforeEach(async () => {
  fixture = await openFixture({ balance: 1000n * dollar, isInline: true });
  nextId = 1;
});
afterEach(async () => fixture.end());

const admit = (change: Parameters<typeof makeAdmitCommand>[1] = {}): Promise<Admitted | Denied> =>
  fixture.ledger.admit(makeAdmitCommand(nextId++, { funds: amount(1n), ...change }));

const limit = (change: Partial<NewLimit>): Promise<LimitRow> => makeLimit(fixture.ledger, change);

async function makeGroup(settings: { parentId?: number; balance?: bigint } = {}): Promise<number> {
  const made = await fixture.ledger.createGroup({ accountId: 1, settings: { name: 'group', ...settings } });
  if (typeof made === 'string') throw new Error(made);
  return made.groupId;
}

const putKeyInto = async (groupId: number): Promise<unknown> =>
  fixture.ledger.updateKey({ keyId: 1, accountId: 1, settings: { groupId } });

test('the limits of all groups above the key’s group apply', async () => {
  const top = await makeGroup();
  const middle = await makeGroup({ parentId: top });
  await putKeyInto(await makeGroup({ parentId: middle }));
  const { limitId } = await limit({ scope: 'group', scopeId: middle, max: 2n });
  const above = await limit({ scope: 'group', scopeId: top, max: 1n });
  expect(await admit()).toMatchObject({ kind: 'admitted' });
  expect(await admit()).toMatchObject({ denial: { row: { id: above.limitId, scopeId: top }, used: 1, max: 1 } });
  await fixture.ledger.deleteLimit({ limitId: above.limitId, accountId: 1 });
  expect(await admit()).toMatchObject({ kind: 'admitted' });
  expect(await admit()).toMatchObject({ denial: { row: { id: limitId, scopeId: middle }, used: 2, max: 2 } });
});

test('a pattern matches whole names, not only their beginning or end', async () => {
  const { limitId } = await limit({ models: ['acme/large*', '*:free'], max: 0n });
  for (const model of ['not-acme/large', 'acme/larg', 'other/one:free-2']) {
    expect([model, await admit({ model })]).toMatchObject([model, { kind: 'admitted' }]);
  }
  for (const model of ['acme/large', 'acme/large-2', 'other/one:free']) {
    expect([model, await admit({ model })]).toMatchObject([model, { denial: { row: { id: limitId } } }]);
  }
});

test('if two groups have a balance, the one nearest to the key pays', async () => {
  const far = await makeGroup({ balance: 100n });
  const near = await makeGroup({ parentId: far, balance: 10n });
  await putKeyInto(near);
  expect(await admit({ funds: amount(7n) })).toMatchObject({ kind: 'admitted', availableNanoUsd: 3n });
  expect(await fixture.ledger.findGroup(near, 1)).toMatchObject({ balance: 10n, held: 7n });
  expect(await fixture.ledger.findGroup(far, 1)).toMatchObject({ balance: 100n, held: 0n });
});

test('the limits of a removed group no longer apply', async () => {
  const group = await makeGroup();
  const kept = await makeGroup();
  const { limitId } = await limit({ scope: 'group', scopeId: group });
  const other = await limit({ scope: 'group', scopeId: kept });
  expect(await fixture.ledger.deleteGroup({ groupId: group, accountId: 1 })).toBe('deleted');
  expect(await fixture.ledger.findLimit(limitId, 1)).toBeUndefined();
  expect(await fixture.ledger.updateLimit({ limitId, accountId: 1, change: { max: 9n } })).toBe('not_found');
  const rows = await fixture.ledger.listLimits({ accountId: 1, scope: 'group' });
  expect(rows.map(row => row.limitId)).toEqual([other.limitId]);
});

test('a new limit of a group counts its own requests, not those of a group whose id begins or ends with the same digits', async () => {
  const first = await makeGroup();
  let last = first;
  while (last < 11) last = await makeGroup();
  expect([first, last]).toEqual([1, 11]);
  await putKeyInto(last);
  expect(await admit()).toMatchObject({ kind: 'admitted' });
  expect(await limit({ scope: 'group', scopeId: first, max: 5n })).toMatchObject({ used: 0n });
  expect(await limit({ scope: 'group', scopeId: last, max: 5n })).toMatchObject({ used: 1n });
});

test('if two limits that count the same are used up, the refusal names the first one in the order, not the tightest', async () => {
  const funds = estimate({ inputTokens: 100, outputTokensMin: 100, outputTokensWanted: 100 });
  await limit({ unit: 'tokens', window: 'month', max: 290n });
  const hour = await limit({ unit: 'tokens', window: 'hour', max: 295n });
  expect(await admit({ funds, text: funds })).toMatchObject({ windows: [{ max: 290, remaining: 90 }] });
  // More than was held, because the estimate of the input was too low.
  await fixture.ledger.settle(makeSettleCommand(1, 0, { usage: { ...noUsage, input: 300 } }));
  expect(await admit({ funds, text: funds })).toMatchObject({
    denial: { row: { id: hour.limitId }, used: 300, max: 295 },
    windows: [{ unit: 'tokens', max: 295, remaining: 0, resetAtMs: fixture.clock.nowMs + 3_600_000 }],
  });
});
