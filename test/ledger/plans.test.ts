import { afterEach, beforeEach, expect, test } from 'vitest';
import type { FundsEstimate, KeySettings } from '../../src/ledger/ledger.ts';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  estimate,
  makeHash,
  noUsage,
  openFixture,
  plans,
  settleAmount,
  makeSettleCommand,
  sheet,
} from './fixture.ts';
import { publicRequestId } from '../../src/lib/ids.ts';

/** Plans with small budgets: core biweekly has 10,000 tokens for 2 dollars and 2 free requests a day; core_pro monthly has 500 tokens for 3 dollars and no free requests. */
const smallPlans = {
  ...plans,
  core: { ...plans.core, biweekly: { priceNanoUsd: 2n * dollar, tokens: 10_000 }, freeDailyRequests: 2 },
  core_pro: { ...plans.core_pro, monthly: { priceNanoUsd: 3n * dollar, tokens: 500 }, freeDailyRequests: 0 },
};
const dayMs = 86_400_000;

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openFixture({ plans: smallPlans, isInline: true });
});
afterEach(async () => fixture.end());

const start = (plan: 'core' | 'core_pro' = 'core', period: 'biweekly' | 'monthly' = 'biweekly') =>
  fixture.ledger.startSubscription({ accountId: 1, plan, period });
const updateKey = (settings: KeySettings) => fixture.ledger.updateKey({ keyId: 1, accountId: 1, settings });
const balance = async () => (await fixture.ledger.findAccount(1))?.balance;
const subscription = () => fixture.ledger.findSubscription(1);
const requestIds = Array.from({ length: 10 }, (_, id) => publicRequestId(id));
/** Admits a request that free daily requests do not cover, as at a tier other than standard. */
const admit = (id: number, change: Partial<FundsEstimate> = {}, model = 'acme/large') =>
  fixture.ledger.admit(makeAdmitCommand(id, { requestId: requestIds[id] ?? '', model, funds: estimate(change) }));
/** Admits a request at the standard tier. */
const admitStandard = (id: number, model = 'acme/large') => admit(id, { freeDaily: true }, model);
/** Returns who paid for which tokens of a request, in the order of its buckets. */
const lines = async (id: number) =>
  (await fixture.ledger.findActivity(1, requestIds[id] ?? ''))?.lines.map(line => [
    line.kind,
    line.tokens,
    line.paidBy,
    line.discountPermille,
  ]);

test('starting a plan debits its price at once; a second start is a conflict, and an unknown account is not found', async () => {
  expect(await start()).toEqual({
    accountId: 1,
    plan: 'core',
    period: 'biweekly',
    startedAtMs: fixture.clock.nowMs,
    periodStartMs: fixture.clock.nowMs,
    periodEndMs: fixture.clock.nowMs + 14 * dayMs,
    cancelled: false,
    tokens: 10_000,
    tokensUsed: 0,
    tokensHeld: 0,
    freeLeftToday: 2,
  });
  expect(await balance()).toBe(8n * dollar);
  expect(await start('core_pro', 'monthly')).toBe('conflict');
  expect(await balance()).toBe(8n * dollar);
  expect(await fixture.ledger.startSubscription({ accountId: 9, plan: 'core', period: 'monthly' })).toBe('not_found');
});

test('a plan’s price is paid only with money that is not held', async () => {
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(8n * dollar + 1n) }));
  expect(await start()).toBe('insufficient');
  expect(await subscription()).toBeUndefined();
  await fixture.ledger.void(1, 'cancelled');
  expect(await start()).toMatchObject({ plan: 'core' });
});

test('free daily requests are used before the budget and money, cost nothing, and are not used at another tier', async () => {
  await start();
  expect(await admitStandard(1)).toMatchObject({ kind: 'admitted', heldNanoUsd: 0n, outputTokensAvailable: Infinity });
  expect(await subscription()).toMatchObject({ freeLeftToday: 1, tokensHeld: 0 });
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 5000 })).toMatchObject({ outputTokens: 5000 });
  expect(await fixture.ledger.settle(makeSettleCommand(1, 7000))).toMatchObject({
    costNanoUsd: 0n,
    writtenOffNanoUsd: 0n,
  });
  expect(await lines(1)).toEqual([
    ['input', 100, 'free', 1000],
    ['output', 7000, 'free', 1000],
  ]);
  // A request at another tier is paid from the budget.
  await admit(2);
  expect(await subscription()).toMatchObject({ freeLeftToday: 1, tokensHeld: 1124, tokensUsed: 0 });
  await fixture.ledger.void(2, 'cancelled');
  await admitStandard(3);
  await admitStandard(4);
  expect(await subscription()).toMatchObject({ freeLeftToday: 0, tokensHeld: 1124 });
  expect(await balance()).toBe(8n * dollar);
});

test('a request with several choices uses a free daily request for each, and is not free if fewer are left', async () => {
  await start();
  const admitChoices = (id: number, requests: number) =>
    fixture.ledger.admit(
      makeAdmitCommand(id, { requestId: requestIds[id] ?? '', requests, funds: estimate({ freeDaily: true }) }),
    );
  await admitChoices(1, 3);
  expect(await subscription()).toMatchObject({ freeLeftToday: 2, tokensHeld: 1124 });
  expect(await admitChoices(2, 2)).toMatchObject({ kind: 'admitted', heldNanoUsd: 0n });
  expect(await subscription()).toMatchObject({ freeLeftToday: 0, tokensHeld: 1124 });
  await fixture.ledger.settle(makeSettleCommand(2, 10));
  expect(await subscription()).toMatchObject({ freeLeftToday: 0 });
  await fixture.ledger.void(1, 'cancelled');
});

test('a free request counts if it is answered, but not if it fails at the upstream or never runs', async () => {
  await start();
  await admitStandard(1);
  await fixture.ledger.settle(makeSettleCommand(1, 0, { usage: noUsage, state: 'upstream_failed' }));
  expect(await subscription()).toMatchObject({ freeLeftToday: 2 });
  await admitStandard(2);
  await fixture.ledger.void(2, 'rejected');
  expect(await subscription()).toMatchObject({ freeLeftToday: 2 });
  await admitStandard(3);
  await fixture.ledger.settle(makeSettleCommand(3, 1, { state: 'client_aborted' }));
  expect(await subscription()).toMatchObject({ freeLeftToday: 1 });
});

test('free requests are counted per UTC day, on the day of their admission', async () => {
  fixture.clock.set('2026-05-10T23:59:59.999Z');
  await start();
  await admitStandard(1);
  await admitStandard(2);
  expect(await subscription()).toMatchObject({ freeLeftToday: 0 });
  fixture.clock.step(1);
  expect(await subscription()).toMatchObject({ freeLeftToday: 2 });
  await fixture.ledger.void(1, 'gateway_failure');
  expect(await subscription()).toMatchObject({ freeLeftToday: 2 });
  fixture.clock.step(-1);
  expect(await subscription()).toMatchObject({ freeLeftToday: 1 });
});

test('every token counts as one token of the plan, whatever the tier or cache, and nothing is charged', async () => {
  await start();
  await admit(1);
  const usage = { input: 100, cacheRead: 20, cacheWrite5m: 30, cacheWrite1h: 40, output: 50, reasoning: 10, images: 0 };
  expect(await fixture.ledger.settle(makeSettleCommand(1, 0, { usage, multiplierPermille: 2000 }))).toMatchObject({
    costNanoUsd: 0n,
  });
  expect(await subscription()).toMatchObject({ tokensUsed: 240, tokensHeld: 0 });
  expect(await balance()).toBe(8n * dollar);
  expect(await lines(1)).toEqual([
    ['input', 100, 'subscription', 1000],
    ['cache_read', 20, 'subscription', 1000],
    ['cache_write_5m', 30, 'subscription', 1000],
    ['cache_write_1h', 40, 'subscription', 1000],
    ['output', 50, 'subscription', 1000],
  ]);
});

test('the plan pays for input, cache writes, cache reads and output in this order until it is used up, and money for the rest', async () => {
  await start('core_pro', 'monthly');
  // The plan pays for 500 tokens (100 of input, 400 of output), money for 624 of output at 95 %.
  expect(await admit(1)).toMatchObject({ kind: 'admitted', outputTokens: 1024, heldNanoUsd: 624n * 3800n });
  expect(await subscription()).toMatchObject({ tokensHeld: 500 });
  const usage = {
    input: 200,
    cacheRead: 200,
    cacheWrite5m: 150,
    cacheWrite1h: 50,
    output: 10,
    reasoning: 0,
    images: 0,
  };
  // Money pays for 100 of the cache reads and for the output: (100 × 1,000 + 10 × 4,000) × 0.95.
  expect(await fixture.ledger.settle(makeSettleCommand(1, 0, { usage }))).toMatchObject({ costNanoUsd: 133_000n });
  expect(await lines(1)).toEqual([
    ['input', 200, 'subscription', 1000],
    ['cache_read', 100, 'subscription', 1000],
    ['cache_read', 100, 'account', 50],
    ['cache_write_5m', 150, 'subscription', 1000],
    ['cache_write_1h', 50, 'subscription', 1000],
    ['output', 10, 'account', 50],
  ]);
  expect(await subscription()).toMatchObject({ tokensUsed: 500, tokensHeld: 0 });
});

test('unused held tokens go back to the plan; an extension uses the plan’s remaining tokens before money', async () => {
  await start();
  await admit(1, { outputTokensWanted: 9000 });
  expect(await subscription()).toMatchObject({ tokensHeld: 9100 });
  // 900 tokens of the plan are left; money pays for the rest.
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 1000 })).toMatchObject({
    outputTokens: 1000,
    heldNanoUsd: 100n * 4000n,
  });
  await fixture.ledger.settle(makeSettleCommand(1, 10));
  expect(await subscription()).toMatchObject({ tokensUsed: 110, tokensHeld: 0 });
  expect(await fixture.ledger.findAccount(1)).toMatchObject({ balance: 8n * dollar, held: 0n });
});

test('without the fallback to money only the plan pays: when it is used up, the output is cut, and later requests are refused with the time of the reset', async () => {
  await start();
  await updateKey({ fallbackToPayg: false });
  const funds = estimate({ outputTokensWanted: 20_000 });
  expect(await fixture.ledger.admit(makeAdmitCommand(1, { funds }))).toMatchObject({
    // The slice is so small that another such request fits.
    outputTokens: 4900,
    outputTokensAvailable: 5000,
    availableNanoUsd: 0n,
  });
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 20_000 })).toMatchObject({ outputTokens: 5000 });
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 1 })).toMatchObject({ kind: 'denied' });
  const resetAtMs = fixture.clock.nowMs + 14 * dayMs;
  expect(await admit(2)).toEqual({
    kind: 'denied',
    code: 'subscription_exhausted',
    denial: { limit: 'subscription', unit: 'tokens', used: 10_000, max: 10_000, resetAtMs },
    retryAfterMs: 14 * dayMs,
    windows: [],
  });
  await fixture.ledger.cancelSubscription(1);
  expect(await admit(2)).toEqual({
    kind: 'denied',
    code: 'subscription_exhausted',
    denial: { limit: 'subscription', unit: 'tokens', used: 10_000, max: 10_000 },
    windows: [],
  });
  // The request used more than was held, and no other payer may pay.
  expect(await fixture.ledger.settle(makeSettleCommand(1, 9950))).toEqual({
    kind: 'settled',
    costNanoUsd: 0n,
    writtenOffNanoUsd: 50n * 4000n,
  });
  expect(await subscription()).toMatchObject({ tokensUsed: 10_000 });
  expect(await balance()).toBe(8n * dollar);
});

test('if only the plan may pay, a request is admitted only if the plan covers the input and the minimum output', async () => {
  await start('core_pro', 'monthly');
  await updateKey({ fallbackToPayg: false, useSubsFirst: false });
  expect(await admit(1, { inputTokens: 485 })).toMatchObject({ code: 'subscription_exhausted' });
  expect(await admit(2, { inputTokens: 484 })).toMatchObject({ kind: 'admitted', outputTokens: 16, heldNanoUsd: 0n });
});

test('without a plan, or for a model that is not in the plan, a key without the fallback has no payer', async () => {
  await updateKey({ fallbackToPayg: false });
  const nobody = { kind: 'denied', code: 'subscription_exhausted', windows: [] };
  expect(await admitStandard(1)).toEqual(nobody);
  await start();
  expect(await fixture.ledger.admit(makeAdmitCommand(2, { funds: amount(1n) }))).toEqual(nobody);
  expect(await fixture.ledger.admit(makeAdmitCommand(3, { funds: undefined }))).toMatchObject({ kind: 'admitted' });
  expect(await subscription()).toMatchObject({ tokensHeld: 0, freeLeftToday: 2 });
});

test('if money is used first, the plan pays after the money is spent, even in the middle of a request', async () => {
  await start();
  await updateKey({ useSubsFirst: false });
  await fixture.ledger.addCredit({ accountId: 1, amount: -8n * dollar + 140_000n, note: '' });
  // Money pays for the input and 10 output tokens, the plan for 1,014.
  expect(await admit(1)).toMatchObject({ kind: 'admitted', outputTokens: 1024, heldNanoUsd: 140_000n });
  expect(await subscription()).toMatchObject({ tokensHeld: 1014 });
  expect(await fixture.ledger.settle(makeSettleCommand(1, 100))).toMatchObject({
    costNanoUsd: 140_000n,
    writtenOffNanoUsd: 0n,
  });
  expect(await lines(1)).toEqual([
    ['input', 100, 'account', 0],
    ['output', 10, 'account', 0],
    ['output', 90, 'subscription', 1000],
  ]);
  expect(await balance()).toBe(0n);
  expect(await admit(2)).toMatchObject({ kind: 'admitted', heldNanoUsd: 0n });
  expect(await subscription()).toMatchObject({ tokensUsed: 90, tokensHeld: 1124 });
});

test('dollar limits apply only to what money pays, not to the plan', async () => {
  await start();
  await fixture.ledger.setMonthlyLimit({ keyId: 1, limit: 1n });
  expect(await admit(1)).toMatchObject({ kind: 'admitted', outputTokens: 1024, outputTokensAvailable: 8876 });
  await fixture.ledger.settle(makeSettleCommand(1, 9800));
  expect(await subscription()).toMatchObject({ tokensUsed: 9900 });
  expect(await admit(2)).toMatchObject({ code: 'spending_limit', denial: { limit: 'monthly_limit' } });
  await fixture.ledger.setMonthlyLimit({ keyId: 1, limit: 64_000n });
  expect(await admit(3)).toMatchObject({ kind: 'admitted', outputTokens: 16, outputTokensAvailable: 0 });
});

test('a key’s own balance, and never the account’s, pays for what the plan does not', async () => {
  await start('core_pro', 'monthly');
  await updateKey({ balance: 38_000n });
  // The plan pays for 400 output tokens, the key for 10.
  expect(await admit(1)).toMatchObject({ kind: 'admitted', outputTokens: 155, outputTokensAvailable: 255 });
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 1024 })).toMatchObject({ outputTokens: 255 });
  expect(await fixture.ledger.settle(makeSettleCommand(1, 410))).toMatchObject({ costNanoUsd: 38_000n });
  expect((await lines(1))?.at(-1)).toEqual(['output', 10, 'key_balance', 50]);
  expect(await admit(2)).toMatchObject({ code: 'insufficient_balance' });
});

test('the plan never pays for a request that costs nothing or is charged as an amount, as for images and searches', async () => {
  await start();
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: undefined, free: true, model: 'acme/small:free' }));
  await fixture.ledger.settle(makeSettleCommand(1, 500, { prices: { ...sheet, input: 0n, output: 0n } }));
  await fixture.ledger.admit(makeAdmitCommand(2, { funds: amount(dollar) }));
  await fixture.ledger.settle(settleAmount(2, dollar));
  expect(await subscription()).toMatchObject({ tokensUsed: 0, tokensHeld: 0, freeLeftToday: 2 });
  expect(await balance()).toBe(7n * dollar);
});

test('a plan for some models pays only for those; its discount applies to all text models', async () => {
  await fixture.end();
  const some = { ...smallPlans, core_pro: { ...smallPlans.core_pro, models: ['acme/large'], freeDailyRequests: 1 } };
  fixture = await openFixture({ plans: some, isInline: true });
  await start('core_pro', 'monthly');
  await admitStandard(1, 'acme/small');
  expect(await subscription()).toMatchObject({ tokensHeld: 0, freeLeftToday: 1 });
  expect(await fixture.ledger.settle(makeSettleCommand(1, 0))).toMatchObject({ costNanoUsd: 95_000n });
  expect(await lines(1)).toEqual([['input', 100, 'account', 50]]);
  await fixture.ledger.admit(makeAdmitCommand(2, { funds: amount(dollar) }));
  expect(await fixture.ledger.settle(settleAmount(2, dollar))).toMatchObject({ costNanoUsd: dollar });
});

test('periods are renewed when they are over, at the first read or request; tokens do not carry over', async () => {
  await start();
  await admit(1);
  await fixture.ledger.settle(makeSettleCommand(1, 900));
  fixture.clock.step(14 * dayMs - 1);
  expect(await subscription()).toMatchObject({ tokensUsed: 1000 });
  fixture.clock.step(1);
  expect(await balance()).toBe(6n * dollar);
  expect(await subscription()).toMatchObject({
    tokensUsed: 0,
    periodStartMs: fixture.clock.nowMs,
    periodEndMs: fixture.clock.nowMs + 14 * dayMs,
  });
  fixture.clock.step(14 * dayMs);
  await admit(2);
  expect(await balance()).toBe(4n * dollar);
});

test('a monthly plan that began on the 31st is renewed on the leap day, at the same time to the millisecond, and then on the 31st', async () => {
  fixture.clock.set('2028-01-31T10:00:00.500Z');
  await start('core_pro', 'monthly');
  for (const [time, dollars] of [
    ['2028-02-29T10:00:00.500Z', 7n],
    ['2028-03-31T10:00:00.500Z', 4n],
  ] as const) {
    const nextMs = Date.parse(time);
    fixture.clock.nowMs = nextMs - 1;
    expect(await subscription()).toMatchObject({ periodEndMs: nextMs });
    expect(await balance()).toBe(dollars * dollar);
    fixture.clock.nowMs = nextMs;
    expect(await subscription()).toMatchObject({ periodStartMs: nextMs, tokensUsed: 0 });
    expect(await balance()).toBe((dollars - 3n) * dollar);
  }
});

test('periods that passed while the gateway was stopped are not debited; only the current one is', async () => {
  await start();
  const startedAtMs = fixture.clock.nowMs;
  await fixture.ledger.close();
  fixture.clock.step(14 * dayMs * 3 + 5);
  await fixture.open();
  expect(await balance()).toBe(6n * dollar);
  expect(await subscription()).toMatchObject({ startedAtMs, periodStartMs: startedAtMs + 42 * dayMs });
});

test('a balance that is too small ends a plan at its renewal; held money does not count', async () => {
  await start();
  await fixture.ledger.addCredit({ accountId: 1, amount: -5n * dollar, note: '' });
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(dollar + 1n) }));
  fixture.clock.step(14 * dayMs);
  expect(await subscription()).toBeUndefined();
  expect(await balance()).toBe(3n * dollar);
  await fixture.ledger.addCredit({ accountId: 1, amount: dollar, note: '' });
  expect(await subscription()).toBeUndefined();
  expect(await start()).toMatchObject({ plan: 'core', startedAtMs: fixture.clock.nowMs });
});

test('holds that were open when the gateway stopped are released before a plan is renewed', async () => {
  await start();
  await fixture.ledger.addCredit({ accountId: 1, amount: -6n * dollar, note: '' });
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(dollar) }));
  await fixture.ledger.close();
  fixture.clock.step(14 * dayMs);
  await fixture.open();
  expect(await subscription()).toMatchObject({ periodStartMs: fixture.clock.nowMs });
  expect(await balance()).toBe(0n);
});

test('a cancelled plan pays until its period ends, and can be started again then', async () => {
  await start();
  expect(await fixture.ledger.cancelSubscription(1)).toMatchObject({ cancelled: true });
  expect(await fixture.ledger.cancelSubscription(1)).toMatchObject({ cancelled: true });
  expect(await start()).toBe('conflict');
  fixture.clock.step(14 * dayMs - 1);
  await admit(1);
  expect(await subscription()).toMatchObject({ tokensHeld: 1124 });
  fixture.clock.step(1);
  expect(await subscription()).toBeUndefined();
  expect(await fixture.ledger.cancelSubscription(1)).toBe('not_found');
  // The request was admitted during the period, so the plan pays for it until it ends.
  expect(await fixture.ledger.extend({ id: 1, outputTokens: 100 })).toMatchObject({
    outputTokens: 100,
    heldNanoUsd: 0n,
  });
  expect(await fixture.ledger.settle(makeSettleCommand(1, 1100))).toMatchObject({ costNanoUsd: 0n });
  expect(await balance()).toBe(8n * dollar);
  expect(await start()).toMatchObject({ tokensUsed: 0 });
});

test('setting the clock back does not renew a period twice or give a second budget', async () => {
  await start();
  fixture.clock.step(14 * dayMs);
  await admit(1);
  await fixture.ledger.settle(makeSettleCommand(1, 900));
  fixture.clock.step(-14 * dayMs);
  expect(await subscription()).toMatchObject({ tokensUsed: 1000 });
  await fixture.reopen();
  expect(await subscription()).toMatchObject({ tokensUsed: 1000 });
  fixture.clock.step(14 * dayMs);
  expect(await subscription()).toMatchObject({ tokensUsed: 1000 });
  expect(await balance()).toBe(6n * dollar);
});

test('of 1,000 simultaneous requests, exactly as many are admitted as the plan’s budget covers', async () => {
  await start();
  await updateKey({ fallbackToPayg: false });
  const funds = estimate({ outputTokensWanted: 16 });
  const admits = Array.from({ length: 1000 }, (_, index) =>
    fixture.ledger.admit(makeAdmitCommand(index + 1, { funds })),
  );
  const admitted = (await Promise.all(admits)).filter(reply => reply.kind === 'admitted').map(reply => reply.id);
  // 10,000 / 116
  expect(admitted).toHaveLength(86);
  // Each request uses more than was held for it.
  await Promise.all(admitted.map(id => fixture.ledger.settle(makeSettleCommand(id, 100))));
  expect(await subscription()).toMatchObject({ tokensUsed: 10_000, tokensHeld: 0 });
  expect(await balance()).toBe(8n * dollar);
});

test('1,000 simultaneous requests that share a plan and a balance overspend neither', async () => {
  await start();
  await fixture.ledger.addCredit({ accountId: 1, amount: -8n * dollar + 1_000_000n, note: '' });
  const key = { accountId: 1, hash: makeHash('money first'), masked: '' };
  await fixture.ledger.createKey({ ...key, settings: { useSubsFirst: false } });
  const funds = estimate({ outputTokensWanted: 100 });
  const admits = Array.from({ length: 1000 }, (_, index) =>
    fixture.ledger.admit(makeAdmitCommand(index + 1, { funds }, index % 2 === 0 ? 'key' : 'money first')),
  );
  const admitted = (await Promise.all(admits)).filter(reply => reply.kind === 'admitted').map(reply => reply.id);
  expect(admitted.length).toBeGreaterThan(50);
  await Promise.all(admitted.map(id => fixture.ledger.settle(makeSettleCommand(id, 16))));
  const after = await subscription();
  expect(after?.tokensHeld).toBe(0);
  expect(after?.tokensUsed).toBeLessThanOrEqual(10_000);
  expect(await fixture.ledger.findAccount(1)).toMatchObject({ held: 0n });
  expect(await balance()).toBeGreaterThanOrEqual(0n);
});

test('a repeated admit and a repeated settle of a request with two payers return the same and charge once', async () => {
  await start('core_pro', 'monthly');
  const first = await admit(1);
  expect(await admit(1)).toEqual(first);
  const settled = await fixture.ledger.settle(makeSettleCommand(1, 900));
  expect(await fixture.ledger.settle(makeSettleCommand(1, 900))).toEqual(settled);
  expect(await fixture.ledger.settle(makeSettleCommand(1, 901))).toMatchObject({ kind: 'conflict' });
  expect(await subscription()).toMatchObject({ tokensUsed: 500 });
});
