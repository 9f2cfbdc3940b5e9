import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Admitted, Denied } from '../../src/ledger/ledger.ts';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  estimate,
  makeHash,
  openFixture,
  settleAmount,
} from './fixture.ts';

let fixture: LedgerFixture;
let nextId = 1;

async function admit(change: Parameters<typeof makeAdmitCommand>[1] = {}, key = 'key'): Promise<Admitted | Denied> {
  return fixture.ledger.admit(makeAdmitCommand(nextId++, { funds: amount(1n), ...change }, key));
}

async function limit(settings: Parameters<LedgerFixture['ledger']['updateKey']>[0]['settings']): Promise<void> {
  await fixture.ledger.updateKey({ keyId: 1, accountId: 1, settings });
}

afterEach(async () => fixture.end());

describe('with daily limits in dollars', () => {
  beforeEach(async () => {
    fixture = await openFixture({ isInline: true });
  });

  test('a minute limit admits exactly its maximum in any 60 s, and a refusal says when to retry', async () => {
    await limit({ minuteLimit: 3 });
    const start = fixture.clock.nowMs;
    for (const remaining of [2, 1, 0]) {
      expect(await admit()).toMatchObject({
        kind: 'admitted',
        windows: [{ limit: 'minute_limit', max: 3, remaining, resetAtMs: start + 60_000 }],
      });
      fixture.clock.step(1000);
    }
    expect(await admit()).toEqual({
      kind: 'denied',
      code: 'rate_limit',
      denial: {
        limit: 'minute_limit',
        row: { id: 3, scope: 'key', scopeId: 1, window: 'minute' },
        unit: 'requests',
        used: 3,
        max: 3,
        resetAtMs: start + 60_000,
      },
      retryAfterMs: 57_000,
      windows: [{ limit: 'minute_limit', unit: 'requests', max: 3, remaining: 0, resetAtMs: start + 60_000 }],
    });
    fixture.clock.nowMs = start + 59_999;
    expect(await admit()).toMatchObject({ kind: 'denied', retryAfterMs: 1000 });
    fixture.clock.nowMs = start + 60_000;
    expect(await admit()).toMatchObject({ kind: 'admitted' });
    expect(await admit()).toMatchObject({ kind: 'denied', retryAfterMs: 1000 });
  });

  test('a step back of the clock does not start another minute, and waits stay within 61 s', async () => {
    await limit({ minuteLimit: 2 });
    await admit();
    await admit();
    fixture.clock.step(-3_600_000);
    expect(await admit()).toMatchObject({ kind: 'denied', retryAfterMs: 61_000 });
    fixture.clock.step(3_600_000 + 60_000);
    expect(await admit()).toMatchObject({ kind: 'admitted' });
    // Back to a time at which the first two requests still count, in addition to the third.
    fixture.clock.step(-1);
    expect(await admit()).toMatchObject({ kind: 'denied', denial: { used: 3, max: 2 } });
  });

  test('a minute limit that is removed and set again counts the requests that were admitted in the meantime', async () => {
    await admit();
    await limit({ minuteLimit: 2 });
    expect(await admit()).toMatchObject({ kind: 'admitted' });
    expect(await admit()).toMatchObject({ kind: 'denied' });
    await limit({ minuteLimit: 0 });
    await admit();
    await limit({ minuteLimit: 4 });
    expect(await admit()).toMatchObject({ kind: 'admitted', windows: [{ remaining: 0 }] });
    expect(await admit()).toMatchObject({ kind: 'denied', denial: { used: 4 } });
  });

  test('a limit that is lowered below its use admits again once enough requests have left the window', async () => {
    await limit({ minuteLimit: 3 });
    const start = fixture.clock.nowMs;
    for (let i = 0; i < 3; i++) {
      await admit();
      fixture.clock.step(10_000);
    }
    await limit({ minuteLimit: 1 });
    expect(await admit()).toMatchObject({ kind: 'denied', denial: { resetAtMs: start + 80_000 } });
  });

  test('voided and settled requests still count in the minute', async () => {
    await limit({ minuteLimit: 2 });
    await fixture.ledger.admit(makeAdmitCommand(900));
    await fixture.ledger.void(900, 'rejected');
    await fixture.ledger.admit(makeAdmitCommand(901));
    await fixture.ledger.settle(settleAmount(901, 5n));
    expect(await admit()).toMatchObject({ kind: 'denied', denial: { used: 2 } });
    expect(await fixture.ledger.findKey(1, 1)).toMatchObject({ usageMinute: 2 });
  });

  test('the windows of free models belong to the account: 20 requests a minute and 200 a day for all keys and free models together', async () => {
    await fixture.ledger.createKey({ accountId: 1, hash: makeHash('second'), masked: '', settings: {} });
    await fixture.ledger.createAccount({ name: 'other', balance: 0n });
    await fixture.ledger.createKey({ accountId: 2, hash: makeHash('other'), masked: '', settings: {} });
    const free = (n: number, key = 'key'): Promise<Admitted | Denied> =>
      admit({ model: `m${n}:free`, free: true, funds: undefined }, key);
    for (let i = 0; i < 20; i++) {
      expect(await free(i, i % 2 === 0 ? 'key' : 'second')).toMatchObject({
        kind: 'admitted',
        windows: [
          { limit: 'free_minute', max: 20, remaining: 19 - i },
          { limit: 'free_day', max: 200, remaining: 199 - i },
        ],
      });
    }
    expect(await free(0, 'second')).toMatchObject({
      code: 'rate_limit',
      denial: { limit: 'free_minute', used: 20, max: 20 },
    });
    expect(await free(0, 'other')).toMatchObject({ kind: 'admitted' });
    expect(await admit()).toMatchObject({ kind: 'admitted', windows: [] });
    for (let i = 20; i < 200; i++) {
      if (i % 20 === 0) fixture.clock.step(60_000);
      expect(await free(i)).toMatchObject({ kind: 'admitted' });
    }
    fixture.clock.step(60_000);
    expect(await free(0)).toMatchObject({
      code: 'rate_limit',
      denial: { limit: 'free_day', used: 200, max: 200, resetAtMs: Date.parse('2026-05-11T00:00:00Z') },
      retryAfterMs: Date.parse('2026-05-11T00:00:00Z') - fixture.clock.nowMs,
    });
    fixture.clock.set('2026-05-10T23:59:59.999Z');
    expect(await free(0)).toMatchObject({ kind: 'denied', retryAfterMs: 1 });
    fixture.clock.set('2026-05-11T00:00:00Z');
    expect(await free(0)).toMatchObject({ kind: 'admitted' });
  });

  test('a daily limit counts the key’s settled and held amounts of the day, is named in refusals, and ends at midnight UTC', async () => {
    await limit({ dailyLimit: 1 });
    await fixture.ledger.admit(makeAdmitCommand(900, { funds: amount(400_000_000n) }));
    await fixture.ledger.settle(settleAmount(900, 300_000_000n));
    await fixture.ledger.admit(makeAdmitCommand(901, { funds: amount(600_000_000n) }));
    expect(await admit({ funds: amount(100_000_001n) })).toEqual({
      kind: 'denied',
      code: 'spending_limit',
      denial: {
        limit: 'daily_limit',
        row: { id: 3, scope: 'key', scopeId: 1, window: 'day' },
        unit: 'nano_usd',
        used: 900_000_000n,
        max: dollar,
        resetAtMs: Date.parse('2026-05-11T00:00:00Z'),
      },
      retryAfterMs: 12 * 3_600_000,
      windows: [],
    });
    expect(await admit({ funds: amount(100_000_000n) })).toMatchObject({ kind: 'admitted', availableNanoUsd: 0n });
    expect(await admit({ funds: amount(0n) })).toMatchObject({ code: 'spending_limit' });
    expect(await admit({ funds: undefined })).toMatchObject({ kind: 'admitted' });
    expect(await fixture.ledger.findKey(1, 1)).toMatchObject({ usageToday: 300_000_000n });
    fixture.clock.set('2026-05-11T00:00:00Z');
    expect(await admit({ funds: amount(dollar) })).toMatchObject({ kind: 'admitted' });
    // Request 901 counts on the day of its admission, so its settle makes no room today.
    await fixture.ledger.settle(settleAmount(901, 1n));
    expect(await admit()).toMatchObject({ code: 'spending_limit', denial: { used: dollar } });
    expect(await fixture.ledger.findKey(1, 1)).toMatchObject({ usageToday: 0n });
  });

  test('a daily limit shortens the output like a balance, and an extension counts on the day of the request’s admission', async () => {
    await limit({ dailyLimit: 1 });
    await fixture.ledger.admit(makeAdmitCommand(900, { funds: amount(dollar - 200_000n) }));
    expect(await admit({ funds: estimate() })).toMatchObject({
      kind: 'admitted',
      outputTokens: 25,
      outputTokensAvailable: 0,
    });
    const own = nextId - 1;
    fixture.clock.set('2026-05-11T00:00:00Z');
    expect(await fixture.ledger.extend({ id: own, outputTokens: 1 })).toMatchObject({ kind: 'denied' });
    expect(await admit({ funds: estimate() })).toMatchObject({ kind: 'admitted', outputTokens: 1024 });
  });

  test('a cost above the hold is debited only up to the limit, and the rest is written off', async () => {
    await limit({ dailyLimit: 1 });
    await fixture.ledger.admit(makeAdmitCommand(900, { funds: amount(900_000_000n) }));
    await fixture.ledger.admit(makeAdmitCommand(901, { funds: amount(60_000_000n) }));
    expect(await fixture.ledger.settle(settleAmount(901, 200_000_000n))).toMatchObject({
      costNanoUsd: 100_000_000n,
      writtenOffNanoUsd: 100_000_000n,
    });
    await limit({ dailyLimit: 0 });
    expect(await fixture.ledger.settle(settleAmount(900, 950_000_000n))).toMatchObject({ costNanoUsd: 950_000_000n });
  });

  test('lowering a limit while a request runs does not change what that request holds', async () => {
    await fixture.ledger.admit(makeAdmitCommand(900, { funds: amount(3n * dollar) }));
    await limit({ dailyLimit: 1 });
    expect(await fixture.ledger.settle(settleAmount(900, 3n * dollar + 5n))).toMatchObject({
      costNanoUsd: 3n * dollar,
      writtenOffNanoUsd: 5n,
    });
    expect(await admit()).toMatchObject({ code: 'spending_limit', denial: { used: 3n * dollar, max: dollar } });
  });

  test.each([
    ['2026-02-28T23:59:59.999Z', '2026-03-01T00:00:00.000Z'],
    ['2028-02-29T23:59:59.999Z', '2028-03-01T00:00:00.000Z'],
    ['2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00.000Z'],
    ['2026-04-30T23:59:59.999Z', '2026-05-01T00:00:00.000Z'],
  ])('a monthly limit lasts until %s and starts again at %s', async (last, first) => {
    fixture.clock.set(last);
    fixture.clock.step(-27 * 86_400_000);
    await fixture.ledger.setMonthlyLimit({ keyId: 1, limit: 1000n });
    await fixture.ledger.admit(makeAdmitCommand(900, { funds: amount(600n) }));
    await fixture.ledger.settle(settleAmount(900, 600n));
    fixture.clock.set(last);
    expect(await admit({ funds: amount(401n) })).toEqual({
      kind: 'denied',
      code: 'spending_limit',
      denial: {
        limit: 'monthly_limit',
        row: { id: 3, scope: 'key', scopeId: 1, window: 'month' },
        unit: 'nano_usd',
        used: 600n,
        max: 1000n,
        resetAtMs: Date.parse(first),
      },
      retryAfterMs: 1,
      windows: [],
    });
    expect(await admit({ funds: amount(400n) })).toMatchObject({ kind: 'admitted' });
    fixture.clock.set(first);
    expect(await admit({ funds: amount(1000n) })).toMatchObject({ kind: 'admitted' });
    fixture.clock.set(last);
    expect(await admit()).toMatchObject({ code: 'spending_limit', denial: { used: 1000n } });
    await fixture.ledger.setMonthlyLimit({ keyId: 1, limit: undefined });
    expect(await admit()).toMatchObject({ kind: 'admitted' });
  });

  test('29 February is a day of its own', async () => {
    await limit({ dailyLimit: 1 });
    for (const day of ['2028-02-28', '2028-02-29', '2028-03-01']) {
      fixture.clock.set(`${day}T00:00:00Z`);
      expect(await admit({ funds: amount(dollar) })).toMatchObject({ kind: 'admitted' });
      fixture.clock.set(`${day}T23:59:59.999Z`);
      expect(await admit()).toMatchObject({ code: 'spending_limit' });
    }
  });

  test('limits refuse in a fixed order, and a refused request counts in no other limit', async () => {
    await fixture.ledger.setMonthlyLimit({ keyId: 1, limit: 1n });
    await limit({ minuteLimit: 1, dailyLimit: 1, allowedModels: ['acme/large'] });
    expect(await admit({ model: 'acme/small' })).toMatchObject({ code: 'model_not_allowed' });
    expect(await admit({ funds: amount(20n * dollar) })).toMatchObject({ denial: { limit: 'daily_limit' } });
    expect(await admit({ funds: amount(2n) })).toMatchObject({ denial: { limit: 'monthly_limit' } });
    await fixture.ledger.setMonthlyLimit({ keyId: 1, limit: undefined });
    await limit({ dailyLimit: 0 });
    expect(await admit({ funds: amount(20n * dollar) })).toMatchObject({ code: 'insufficient_balance' });
    expect(await fixture.ledger.windows(1, false)).toMatchObject([{ remaining: 1 }]);
    expect(await admit()).toMatchObject({ kind: 'admitted' });
    await limit({ dailyLimit: 1 });
    expect(await admit({ funds: amount(20n * dollar) })).toMatchObject({ denial: { limit: 'minute_limit' } });
    await fixture.ledger.setKeyState({ keyId: 1, accountId: 1, state: 'disabled' });
    expect(await admit({ model: 'acme/small' })).toMatchObject({ code: 'key_disabled' });
  });

  test('allowed models of a key: null allows all, a list only those in it, an empty list none', async () => {
    await limit({ allowedModels: ['a', 'b'] });
    expect(await admit({ model: 'b' })).toMatchObject({ kind: 'admitted' });
    expect(await admit({ model: 'c' })).toMatchObject({ code: 'model_not_allowed' });
    await limit({ allowedModels: ['a', 'acme/*'] });
    expect(await admit({ model: 'acme/large' })).toMatchObject({ kind: 'admitted' });
    expect(await admit({ model: 'other/large' })).toMatchObject({ code: 'model_not_allowed' });
    await limit({ allowedModels: [] });
    expect(await admit({ model: 'a' })).toMatchObject({ code: 'model_not_allowed' });
    await limit({ label: 'the list stays' });
    expect(await admit({ model: 'a' })).toMatchObject({ code: 'model_not_allowed' });
    await limit({ allowedModels: null });
    expect(await admit({ model: 'c' })).toMatchObject({ kind: 'admitted' });
  });

  test('credentials that may not generate are refused: unknown 401, management 403, disabled 403, revoked 401', async () => {
    const { ledger } = fixture;
    expect(await admit({}, 'nobody')).toEqual({ kind: 'denied', code: 'invalid_api_key', windows: [] });
    expect(await admit({}, 'management')).toEqual({ kind: 'denied', code: 'permission_denied', windows: [] });
    await ledger.setManagementKeyState({ keyId: 1, state: 'disabled' });
    expect(await admit({}, 'management')).toMatchObject({ code: 'key_disabled' });
    await ledger.setManagementKeyState({ keyId: 1, state: 'revoked' });
    expect(await admit({}, 'management')).toMatchObject({ code: 'invalid_api_key' });
    await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'disabled' });
    expect(await admit()).toMatchObject({ code: 'key_disabled' });
    await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'enabled' });
    expect(await admit({ key: { id: 1 } })).toMatchObject({ kind: 'admitted' });
    await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'revoked' });
    expect(await admit()).toMatchObject({ code: 'invalid_api_key' });
    expect(await admit({ key: { id: 1 } })).toMatchObject({ code: 'invalid_api_key' });
  });

  test('of 1,000 requests at once on a minute limit of 50, 50 pass', async () => {
    await limit({ minuteLimit: 50 });
    const replies = await Promise.all(Array.from({ length: 1000 }, () => admit()));
    expect(replies.filter(reply => reply.kind === 'admitted')).toHaveLength(50);
  });

  test('1,000 requests at once on 5 cents never spend or hold more, to the nano-dollar', async () => {
    const { ledger } = fixture;
    await ledger.addCredit({ accountId: 1, amount: -10n * dollar + 50_000_000n, note: '' });
    const replies = await Promise.all(
      Array.from({ length: 1000 }, async (_, n) => {
        const id = 1000 + n;
        const reply = await ledger.admit(makeAdmitCommand(id, { funds: estimate({ inputNanoUsd: 123_457n }) }));
        if (reply.kind === 'denied') return 0n;
        await ledger.extend({ id, outputTokens: 1024 });
        const settled = await ledger.settle(settleAmount(id, 9_999_999n));
        return settled.costNanoUsd;
      }),
    );
    const spent = replies.reduce((sum, cost) => sum + cost, 0n);
    expect(spent).toBe(50_000_000n);
    expect(await ledger.findAccount(1)).toMatchObject({ balance: 0n, held: 0n });
  });

  test('revoking, disabling and limits apply from the next admission on, while other requests run', async () => {
    const { ledger } = fixture;
    await ledger.createKey({ accountId: 1, hash: makeHash('busy'), masked: '', settings: {} });
    let running = true;
    let ran = 0;
    const load = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (running) {
          await admit({}, 'busy');
          ran++;
        }
      }),
    );
    for (let i = 0; i < 25; i++) {
      await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'disabled' });
      expect(await admit()).toMatchObject({ code: 'key_disabled' });
      await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'enabled' });
      expect(await admit()).toMatchObject({ kind: 'admitted' });
      await limit({ minuteLimit: 1 });
      expect(await admit()).toMatchObject({ code: 'rate_limit' });
      await limit({ minuteLimit: 0 });
    }
    const next = admit();
    const revoked = ledger.setKeyState({ keyId: 2, accountId: 1, state: 'revoked' });
    const after = admit({}, 'busy');
    await revoked;
    expect(await after).toMatchObject({ code: 'invalid_api_key' });
    expect(await next).toMatchObject({ kind: 'admitted' });
    running = false;
    await load;
    expect(ran).toBeGreaterThan(50);
  });
});

describe('with daily limits in requests', () => {
  beforeEach(async () => {
    fixture = await openFixture({ dailyLimitUnit: 'requests', isInline: true });
  });

  test('a daily limit counts the admitted requests of the UTC day, also free ones, and is listed as a window', async () => {
    await limit({ dailyLimit: 2, minuteLimit: 10 });
    expect(await fixture.ledger.findCredential(makeHash('key'))).toMatchObject({ hasWindow: true });
    expect(await admit()).toMatchObject({
      kind: 'admitted',
      windows: [
        { limit: 'daily_limit', max: 2, remaining: 1, resetAtMs: Date.parse('2026-05-11T00:00:00Z') },
        { limit: 'minute_limit', max: 10, remaining: 9 },
      ],
    });
    expect(await admit({ free: true, funds: undefined })).toMatchObject({ kind: 'admitted' });
    expect(await admit()).toMatchObject({
      code: 'rate_limit',
      denial: { limit: 'daily_limit', unit: 'requests', used: 2, max: 2 },
      retryAfterMs: 12 * 3_600_000,
    });
    fixture.clock.set('2026-05-11T00:00:00Z');
    expect(await admit({ funds: amount(5n * dollar) })).toMatchObject({ kind: 'admitted' });
    fixture.clock.step(-1);
    expect(await admit()).toMatchObject({ code: 'rate_limit', retryAfterMs: 1 });
  });
});
