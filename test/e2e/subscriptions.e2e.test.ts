/** Plans as the owners of accounts see them, over REST, on the command line and in records (docs/accounting.md "Subscriptions"). */
import { afterAll, describe, expect, test } from 'vitest';
import { clockAhead } from '../fake-clock.ts';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, type Gateway, makeKey, readRecord, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { type Answer, ask, complete, stream } from './chat-client.ts';
import type { RecordDetailJson } from './account-client.ts';

const config = `simulator: { tokens_per_second: 0 }
plans:
  core: { biweekly: { price: 2, tokens: 3000 }, free_daily_requests: 1, models: [sim/large] }
  core_pro: { monthly: { price: 3, tokens: 400 }, free_daily_requests: 0, discount: 0.05 }
`;
const gateway = await startShared({ config, balance: '100' });
afterAll(() => endGateway(gateway));

interface Owner {
  readonly id: string;
  readonly key: string;
  readonly keyId: string;
}

/** Makes an account with a plan and a key. */
async function subscribe(plan: 'core' | 'core_pro', settings: object = {}, balance = '10'): Promise<Owner> {
  const { account } = await gateway.admin.createAccount({
    name: 'someone',
    balanceNanoUsd: BigInt(balance) * 10n ** 9n,
  });
  const accountId = account?.accountId ?? 0n;
  const { key } = await gateway.admin.createApiKey({ accountId, settings });
  const period = plan === 'core' ? 'biweekly' : 'monthly';
  const { code, stderr } = await gateway.cli([
    'subscriptions',
    'start',
    String(accountId),
    '--plan',
    plan,
    '--period',
    period,
  ]);
  expect([code, stderr]).toEqual([0, '']);
  return { id: String(accountId), key: key?.key ?? '', keyId: String(key?.apiKeyId) };
}

async function readPlan({ id }: Owner): Promise<Record<string, unknown>> {
  return (await gateway.cli(['subscriptions', 'show', id, '--json'])).json as Record<string, unknown>;
}

async function readBalance({ id }: Owner): Promise<bigint> {
  return (await gateway.admin.getAccount({ accountId: BigInt(id) })).account?.balanceNanoUsd ?? 0n;
}

/** Reads a request's record with the account's management key. */
async function readArithmetic({ id }: Owner, answer: { readonly headers: Headers }): Promise<RecordDetailJson> {
  const { key } = await gateway.admin.createManagementKey({ accountId: BigInt(id), scopes: ['account:activity'] });
  const requestId = answer.headers.get('x-request-id') ?? '';
  const response = await fetch(`${gateway.url}/v1/account/activity/${requestId}`, {
    headers: { authorization: `Bearer ${key?.key ?? ''}` },
  });
  expect(response.status).toBe(200);
  return (await response.json()) as RecordDetailJson;
}

const steer = (line: string, more: object = {}): Record<string, unknown> => ask(`Tolls\n!sim ${line}`, { ...more });
const flex = { service_tier: 'flex' };
const readTokens = ({ body }: Answer): number => body.usage.total_tokens;

test('a free daily request pays first, then the plan, at any tier; the record has who paid for each bucket', async () => {
  const owner = await subscribe('core');
  const free = await complete(gateway, steer('tokens=500'), owner);
  expect([free.body.usage.cost, free.headers.get('x-tollgate-cost')]).toEqual([0, '0']);
  expect(await readPlan(owner)).toMatchObject({ tokens_left: 3000, free_left_today: 0 });
  const zero = (kind: string, tokens: number, paidBy: string) => ({
    kind,
    tokens,
    cost: 0,
    discount: 1,
    paid_by: paidBy,
  });
  expect((await readArithmetic(owner, free)).buckets).toMatchObject([
    zero('input', free.body.usage.prompt_tokens, 'free'),
    zero('output', 500, 'free'),
  ]);
  const paid = await complete(gateway, steer('tokens=200', { service_tier: 'priority' }), owner);
  expect(paid.body.usage.cost).toBe(0);
  expect(await readPlan(owner)).toMatchObject({ tokens_left: 3000 - readTokens(paid) });
  expect(await readArithmetic(owner, paid)).toMatchObject({
    cost: 0,
    written_off: 0,
    buckets: [
      { ...zero('input', paid.body.usage.prompt_tokens, 'subscription'), multiplier: 2 },
      { ...zero('output', 200, 'subscription'), multiplier: 2 },
    ],
  });
  expect(await readBalance(owner)).toBe(8_000_000_000n);
});

test('if a request exceeds the plan’s budget, money pays for the rest at the plan’s discount, streamed or not', async () => {
  const owner = await subscribe('core_pro');
  const first = await stream(gateway, steer('tokens=1000'), owner);
  const input = first.usage?.prompt_tokens ?? 0;
  const byMoney = 1000 - (400 - input);
  const cost = (byMoney * 4000 * 95) / 100 / 1e9;
  expect(first.usage?.cost).toBe(cost);
  expect(await readPlan(owner)).toMatchObject({ tokens_left: 0 });
  expect((await readArithmetic(owner, first)).buckets).toMatchObject([
    { kind: 'input', tokens: input, paid_by: 'subscription', cost: 0 },
    { kind: 'output', tokens: 400 - input, paid_by: 'subscription', cost: 0 },
    { kind: 'output', tokens: byMoney, paid_by: 'account', discount: 0.05, price: 4, cost },
  ]);
  const next = await complete(gateway, steer('tokens=100'), owner);
  expect(next.body.usage.cost).toBe((next.body.usage.prompt_tokens * 1000 * 95 + 100 * 4000 * 95) / 100 / 1e9);
});

test('without the fallback to money, an answer is cut with finish reason `length` when the budget is used up, and later requests are refused with the time of the reset', async () => {
  const owner = await subscribe('core_pro', { fallbackToPayg: false });
  const cut = await complete(gateway, steer('tokens=1000'), owner);
  expect([cut.status, cut.finish, cut.body.usage.cost]).toEqual([200, 'length', 0]);
  // A hold has a margin for the input, which is released if it is not used.
  expect(readTokens(cut)).toBeLessThanOrEqual(400);
  expect(readTokens(cut)).toBeGreaterThan(380);
  const refused = await complete(gateway, steer('tokens=100'), owner);
  expect([refused.status, refused.body.error.code, refused.headers.get('x-should-retry')]).toEqual([
    429,
    'subscription_exhausted',
    'false',
  ]);
  const wait = Number(refused.headers.get('retry-after'));
  expect(wait).toBeGreaterThan(27 * 86_400);
  expect(wait).toBeLessThanOrEqual(31 * 86_400);
  expect(await readBalance(owner)).toBe(7_000_000_000n);
});

test('with money first, the plan is not used until the money is spent', async () => {
  const owner = await subscribe('core', { useSubsFirst: false, balanceNanoUsd: 1_000_000n });
  const answer = await complete(gateway, steer('tokens=600', flex), owner);
  expect(answer.finish).toBe('stop');
  const { buckets, cost, written_off: writtenOff } = await readArithmetic(owner, answer);
  // 0.5 dollars per million tokens of input, 2 of output.
  const byMoney = Math.floor((1_000_000 - answer.body.usage.prompt_tokens * 500) / 2000);
  expect(buckets.map(({ kind, tokens, paid_by: by }) => [kind, tokens, by])).toEqual([
    ['input', answer.body.usage.prompt_tokens, 'key_balance'],
    ['output', byMoney, 'key_balance'],
    ['output', 600 - byMoney, 'subscription'],
  ]);
  expect([answer.body.usage.cost, writtenOff]).toEqual([cost, 0]);
  expect(await readPlan(owner)).toMatchObject({ tokens_left: 3000 - (600 - byMoney) });
  // The key has a separate balance, so the account's money does not pay.
  expect(await readBalance(owner)).toBe(7_999_000_000n);
});

test('free requests that fail at the upstream do not count, and models that are not in the plan never use one', async () => {
  const owner = await subscribe('core');
  const failed = await complete(gateway, steer('status=500'), owner);
  expect(failed.status).toBe(502);
  expect(await readPlan(owner)).toMatchObject({ free_left_today: 1 });
  const other = await complete(gateway, steer('tokens=10', { model: 'sim/small' }), owner);
  expect((await readArithmetic(owner, other)).buckets.every(bucket => bucket.paid_by === 'account')).toBe(true);
  const nothing = await complete(gateway, steer('tokens=10', { model: 'sim/small:free' }), owner);
  expect(nothing.status).toBe(200);
  expect(await readPlan(owner)).toMatchObject({ free_left_today: 1, tokens_left: 3000 });
});

test('a changed `fallback_to_payg` applies from the next request on', async () => {
  const { key: managementKey } = await gateway.admin.createManagementKey({ accountId: 1n, scopes: ['keys:update'] });
  const { key, id } = await makeKey(gateway);
  expect((await complete(gateway, steer('tokens=5'), { key })).status).toBe(200);
  const patched = await fetch(`${gateway.url}/v1/account/keys/${id}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${managementKey?.key ?? ''}`, 'content-type': 'application/json' },
    body: JSON.stringify({ fallback_to_payg: false }),
  });
  expect(patched.status).toBe(200);
  const refused = await complete(gateway, steer('tokens=5'), { key });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'subscription_exhausted']);
  expect(refused.body.error.tip).toContain('fallback_to_payg');
});

test('of 50 requests at once on the rest of a plan’s tokens none is paid twice, and the tokens never go below zero', async () => {
  const owner = await subscribe('core', { fallbackToPayg: false });
  const body = steer('tokens=90', { max_tokens: 100, ...flex });
  const answers = await Promise.all(Array.from({ length: 50 }, () => complete(gateway, body, owner)));
  const paid = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status !== 200);
  expect(new Set(refused.map(({ body: { error } }) => error.code))).toEqual(new Set(['subscription_exhausted']));
  expect(paid.length).toBeGreaterThan(10);
  const used = paid.reduce((sum, answer) => sum + readTokens(answer), 0);
  expect(await readPlan(owner)).toMatchObject({ tokens_left: 3000 - used });
  expect(used).toBeLessThanOrEqual(3000);
});

describe('with a clock that moves between two starts', () => {
  async function later(earlier: Gateway, days: number): Promise<Gateway> {
    await earlier.stop();
    return startGateway({ home: earlier.home, config, environment: clockAhead(days * 1_440).environment });
  }

  test('a plan is renewed only for the current period, ends if it can’t be paid, and each day has new free requests', async () => {
    let running = await startShared({ config, balance: '5' });
    try {
      const balance = async (): Promise<bigint> => (await running.account.getBalance({})).balanceNanoUsd;
      const show = async () => (await runInside(running, ['subscriptions', 'show', '1', '--json'])).json;
      expect(
        (await runInside(running, ['subscriptions', 'start', '1', '--plan', 'core', '--period', 'biweekly'])).code,
      ).toBe(0);
      await complete(running, steer('tokens=5'), { key: running.apiKey });
      await complete(running, steer('tokens=5', flex), { key: running.apiKey });
      expect(await show()).toMatchObject({ free_left_today: 0 });
      running = await later(running, 25 / 24);
      expect(await show()).toMatchObject({ free_left_today: 1 });
      expect(await balance()).toBe(3_000_000_000n);
      // Two periods have passed.
      running = await later(running, 30);
      expect(await balance()).toBe(1_000_000_000n);
      expect(await show()).toMatchObject({ tokens_left: 3000, free_left_today: 1 });
      // If the clock steps back, there is no second budget, and nothing is paid again.
      const spent = await complete(running, steer('tokens=50', flex), { key: running.apiKey });
      running = await later(running, 1);
      expect(await show()).toMatchObject({ tokens_left: 3000 - readTokens(spent) });
      running = await later(running, 45);
      const { code } = await runInside(running, ['subscriptions', 'show', '1']);
      expect([code, await balance()]).toEqual([1, 1_000_000_000n]);
      const payg = await complete(running, steer('tokens=5'), { key: running.apiKey });
      expect((await readRecord(running, payg.headers.get('x-request-id') ?? '')).costNanoUsd).toBeGreaterThan(0n);
    } finally {
      await endGateway(running);
    }
  });
});
