/** Who pays for what (docs/accounting.md "Who pays"), seen in balances, answers and records. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { type ActivityRecord, Payer, RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import { endGateway, heldBy, makeKey, readBalance, readRecord, turnLoop } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { ask, type ChatUsage, complete, payg as paidModel, post, stream } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '100' });
afterAll(() => endGateway(gateway));

const dollars = (amount: number | string | null): bigint => BigInt(Math.round(Number(amount) * 1e9));
const steer = (line: string, more?: object): Record<string, unknown> => ask(`Tolls\n!sim ${line}`, { ...more });
const readRequestId = ({ headers }: { readonly headers: Headers }): string => headers.get('x-request-id') ?? '';

/** Returns the exact sum of a record's line items in nano-dollars, rounded once, half up. */
function readArithmetic({ buckets }: ActivityRecord): bigint {
  const scale = 1_000n * 1_000n * 1_000n;
  const exact = buckets.reduce(
    (sum, each) =>
      sum + each.tokens * each.pricePicoUsd * BigInt(each.multiplierPermille) * BigInt(1_000 - each.discountPermille),
    0n,
  );
  return (exact * 2n + scale) / (scale * 2n);
}

describe('one request', () => {
  test('costs price times tokens, in the answer, the header, the record and the balance', async () => {
    const before = await readBalance(gateway);
    const answer = await complete(gateway, steer('tokens=123'));
    const { prompt_tokens: input, completion_tokens: output, cost } = answer.body.usage;
    expect(output).toBe(123);
    // sim/large costs 1 dollar per million tokens of input and 4 of output; a prompt this short is not cached.
    const nano = BigInt(input) * 1_000n + BigInt(output) * 4_000n;
    expect(dollars(cost)).toBe(nano);
    expect(dollars(answer.headers.get('x-tollgate-cost'))).toBe(nano);
    expect(before - (await readBalance(gateway))).toBe(nano);
    const record = await readRecord(gateway, readRequestId(answer));
    expect(record).toMatchObject({
      model: paidModel,
      costNanoUsd: nano,
      writtenOffNanoUsd: 0n,
      state: RecordState.COMPLETED,
      serviceTier: ServiceTier.DEFAULT,
    });
    expect(readArithmetic(record)).toBe(nano);
    expect(record.buckets.map(({ kind, tokens, paidBy }) => [kind, tokens, paidBy])).toEqual([
      ['input', BigInt(input), Payer.ACCOUNT],
      ['output', 123n, Payer.ACCOUNT],
    ]);
  });

  test('has the same cost in the usage of a stream, which has no cost header', async () => {
    const answer = await stream(gateway, steer('tokens=77'));
    expect(answer.headers.get('x-tollgate-cost')).toBeNull();
    const record = await readRecord(gateway, readRequestId(answer));
    expect(record.costNanoUsd).toBe(dollars(answer.usage?.cost ?? -1));
    expect(record.costNanoUsd).toBe(BigInt(answer.usage?.prompt_tokens ?? 0) * 1_000n + 77n * 4_000n);
  });

  test('is charged the same if its stream has no usage', async () => {
    const answer = await stream(gateway, steer('tokens=33', { stream_options: { include_usage: false } }));
    expect(answer.usage).toBeUndefined();
    const { usage, costNanoUsd } = await readRecord(gateway, readRequestId(answer));
    expect(usage?.outputTokens).toBe(33);
    expect(costNanoUsd).toBe(BigInt(usage?.inputTokens ?? 0) * 1_000n + 33n * 4_000n);
  });

  test.each([
    ['flex', ServiceTier.FLEX, 500n],
    ['priority', ServiceTier.PRIORITY, 2_000n],
  ] as const)('%s multiplies the price, requested by field or by suffix', async (tier, billed, permille) => {
    const byField = await complete(gateway, steer('tokens=40', { service_tier: tier }));
    const bySuffix = await complete(gateway, steer('tokens=40', { model: `${paidModel}:${tier}` }));
    for (const answer of [byField, bySuffix]) {
      expect(answer.body).toMatchObject({ model: paidModel, service_tier: tier });
      const usage: ChatUsage = answer.body.usage;
      const nano = ((BigInt(usage.prompt_tokens) * 1_000n + 160_000n) * permille) / 1_000n;
      const record = await readRecord(gateway, readRequestId(answer));
      expect({ cost: record.costNanoUsd, tier: record.serviceTier }).toEqual({ cost: nano, tier: billed });
    }
  });

  test('different tiers in field and suffix are refused with 400', async () => {
    const answer = await complete(gateway, steer('tokens=1', { model: `${paidModel}:flex`, service_tier: 'priority' }));
    expect(answer.status).toBe(400);
  });

  test('a free model costs nothing and is recorded', async () => {
    const before = await readBalance(gateway);
    const answer = await complete(gateway, steer('tokens=10', { model: 'sim/small:free' }));
    expect(answer.headers.get('x-tollgate-cost')).toBe('0');
    expect((await readRecord(gateway, readRequestId(answer))).costNanoUsd).toBe(0n);
    expect(await readBalance(gateway)).toBe(before);
  });

  test('all n answers are charged, their input once', async () => {
    const one = await complete(gateway, steer('tokens=30'));
    const three = await complete(gateway, steer('tokens=30', { n: 3 }));
    expect(three.body.usage.completion_tokens).toBe(90);
    expect(three.body.usage.prompt_tokens).toBe(one.body.usage.prompt_tokens);
    expect(dollars(three.body.usage.cost)).toBe(BigInt(one.body.usage.prompt_tokens) * 1_000n + 90n * 4_000n);
  });

  test('a repeated long prompt is read from the cache at the cache’s price', async () => {
    const body = ask(`${'The toll of the bridge is a coin. '.repeat(400)}\n!sim tokens=5`, { model: 'sim/small' });
    const first = await complete(gateway, body);
    const again = await complete(gateway, body);
    expect(first.body.usage.prompt_tokens_details?.cached_tokens).toBe(0);
    const cached = again.body.usage.prompt_tokens_details?.cached_tokens ?? 0;
    expect(cached).toBeGreaterThan(1_000);
    expect(again.body.usage.prompt_tokens).toBe(first.body.usage.prompt_tokens);
    const record = await readRecord(gateway, readRequestId(again));
    expect(readArithmetic(record)).toBe(record.costNanoUsd);
    expect(record.buckets.find(({ kind }) => kind === 'cache_read')?.tokens).toBe(BigInt(cached));
    expect(record.costNanoUsd).toBeLessThan(dollars(first.body.usage.cost));
  });

  test('a request above a threshold pays the higher prices for all its tokens', async () => {
    const body = ask(`${'word '.repeat(33_000)}\n!sim tokens=10`, { model: 'sim/long' });
    const answer = await complete(gateway, body);
    expect(answer.body.usage.prompt_tokens).toBeGreaterThan(32_000);
    const record = await readRecord(gateway, readRequestId(answer));
    expect(record.buckets.map(({ kind, pricePicoUsd }) => [kind, pricePicoUsd])).toEqual([
      ['input', 1_000_000n],
      ['output', 3_000_000n],
    ]);
  });
});

test.each([false, true])(
  'attempts that fail before the first event are repeated; only the answer is charged (stream: %s)',
  async streamed => {
    const send = streamed ? stream : complete;
    const before = await readBalance(gateway);
    const answer = await send(gateway, steer('tokens=20 status=500 times=2'));
    expect([answer.status, answer.finish]).toEqual([200, 'stop']);
    const record = await readRecord(gateway, readRequestId(answer));
    expect(record.state).toBe(RecordState.COMPLETED);
    expect(before - (await readBalance(gateway))).toBe(record.costNanoUsd);
    const never = await send(gateway, steer('tokens=20 status=500 times=9'));
    expect(never.status).toBe(502);
    expect((await readRecord(gateway, readRequestId(never))).costNanoUsd).toBe(0n);
  },
);

describe('clients that disconnect', () => {
  test('from a stream: the delivered output is charged once, within about a second', async () => {
    const answer = await stream(gateway, steer('tokens=5000 tps=100'), { until: chunks => chunks.length > 12 });
    const left = performance.now();
    const record = await readRecord(gateway, readRequestId(answer));
    expect(performance.now() - left).toBeLessThan(3_000);
    expect(record.state).toBe(RecordState.CLIENT_ABORTED);
    expect(record.usage?.outputTokens).toBeGreaterThan(5);
    expect(record.usage?.outputTokens).toBeLessThan(400);
    expect(readArithmetic(record)).toBe(record.costNanoUsd);
    expect(record.costNanoUsd).toBeGreaterThan(0n);
  });

  test('from an answer that is not streamed: the same', async () => {
    const { key, id } = await makeKey(gateway);
    const leave = new AbortController();
    const left = complete(gateway, steer('tokens=5000 tps=100'), { key, signal: leave.signal }).catch(() => 'left');
    await expect.poll(() => heldBy(gateway), { interval: 10 }).toBeGreaterThan(0n);
    await sleep(300);
    await turnLoop(gateway);
    leave.abort();
    expect(await left).toBe('left');
    await expect
      .poll(async () => (await gateway.account.listActivity({ apiKeyId: id })).records.map(({ state }) => state))
      .toEqual([RecordState.CLIENT_ABORTED]);
    const { records } = await gateway.account.listActivity({ apiKeyId: id });
    expect(records[0]?.usage?.outputTokens).toBeGreaterThan(5);
    expect(records[0]?.usage?.outputTokens).toBeLessThan(400);
  });

  test('before the first event: no output is charged', async () => {
    const { key, id } = await makeKey(gateway);
    const leave = new AbortController();
    const left = stream(gateway, steer('delay_ms=20000'), { key, signal: leave.signal }).catch(() => 'left');
    await expect.poll(() => heldBy(gateway), { interval: 10 }).toBeGreaterThan(0n);
    leave.abort();
    expect(await left).toBe('left');
    await expect
      .poll(async () => (await gateway.account.listActivity({ apiKeyId: id })).records.map(({ state }) => state))
      .toEqual([RecordState.CLIENT_ABORTED]);
    const { records } = await gateway.account.listActivity({ apiKeyId: id });
    expect(records[0]?.usage?.outputTokens ?? 0).toBe(0);
  });
});

describe('a key’s own balance', () => {
  test('is moved from the account, is the only one that pays, and moves back when the key is deleted', async () => {
    const before = await readBalance(gateway);
    const { key, id } = await makeKey(gateway, { balanceNanoUsd: 1_000_000n });
    expect(before - (await readBalance(gateway))).toBe(1_000_000n);
    const answer = await complete(gateway, steer('tokens=50'), { key });
    const record = await readRecord(gateway, readRequestId(answer));
    expect(record.buckets.map(({ paidBy }) => paidBy)).toEqual([Payer.KEY_BALANCE, Payer.KEY_BALANCE]);
    const { key: shown } = await gateway.account.getKey({ apiKeyId: id });
    expect(shown?.balanceNanoUsd).toBe(1_000_000n - record.costNanoUsd);
    const tooLong = await complete(gateway, ask('word '.repeat(5_000)), { key });
    expect([tooLong.status, tooLong.body.error.code]).toEqual([429, 'insufficient_balance']);
    expect(before - (await readBalance(gateway))).toBe(1_000_000n);
    await gateway.account.deleteKey({ apiKeyId: id });
    expect(before - (await readBalance(gateway))).toBe(record.costNanoUsd);
    expect((await complete(gateway, steer('tokens=1'), { key })).status).toBe(401);
  });

  test.each([false, true])(
    'that is exhausted ends the answer with finish reason `length` and does not go below zero (stream: %s)',
    async streamed => {
      // The balance pays for about 500 tokens of output.
      const { key, id } = await makeKey(gateway, { balanceNanoUsd: 2_000_000n });
      const send = streamed ? stream : complete;
      const answer = await send(gateway, steer('tokens=3000'), { key });
      expect(answer.status).toBe(200);
      expect(answer.finish).toBe('length');
      const { key: shown } = await gateway.account.getKey({ apiKeyId: id });
      const record = await readRecord(gateway, readRequestId(answer));
      expect(record).toMatchObject({ state: RecordState.INCOMPLETE, writtenOffNanoUsd: 0n });
      expect(record.usage?.outputTokens).toBeGreaterThan(200);
      expect(shown?.balanceNanoUsd).toBe(2_000_000n - record.costNanoUsd);
      expect(shown?.balanceNanoUsd).toBeGreaterThanOrEqual(0n);
    },
  );

  test('that can’t pay for the input and 16 tokens is refused without a record', async () => {
    const { key, id } = await makeKey(gateway, { balanceNanoUsd: 20_000n });
    const answer = await complete(gateway, ask('word '.repeat(500)), { key });
    expect(answer.status).toBe(429);
    expect(answer.body.error).toMatchObject({ code: 'insufficient_balance', type: 'rate_limit_error' });
    expect(answer.body.error.tip).toContain('credits add');
    expect(answer.headers.get('x-should-retry')).toBe('false');
    expect((await gateway.account.listActivity({ apiKeyId: id })).records).toEqual([]);
  });

  test('pays for an answer that the client’s `max_tokens` makes short enough', async () => {
    // The balance pays for the input and 5 tokens, but not for 16.
    const { key, id } = await makeKey(gateway, { balanceNanoUsd: 60_000n });
    expect((await complete(gateway, steer('tokens=50'), { key })).status).toBe(429);
    const short = await complete(gateway, steer('tokens=50', { max_tokens: 5 }), { key });
    expect([short.status, short.finish, short.body.usage.completion_tokens]).toEqual([200, 'length', 5]);
    const { key: shown } = await gateway.account.getKey({ apiKeyId: id });
    expect(shown?.balanceNanoUsd).toBe(60_000n - dollars(short.body.usage.cost));
  });

  test('of zero is enough for a free model', async () => {
    const { key } = await makeKey(gateway, { balanceNanoUsd: 0n });
    const free = await complete(gateway, steer('tokens=5', { model: 'sim/small:free' }), { key });
    expect([free.status, free.body.usage.cost]).toEqual([200, 0]);
  });

  test('of zero is raised by a credit, and the next request works', async () => {
    const { account } = await gateway.admin.createAccount({ name: 'poor', balanceNanoUsd: 0n });
    const made = await gateway.admin.createApiKey({ accountId: account?.accountId ?? 0n, settings: {} });
    const key = made.key?.key ?? '';
    expect((await complete(gateway, steer('tokens=1'), { key })).status).toBe(429);
    expect((await gateway.cli(['credits', 'add', String(account?.accountId), '1.5'])).code).toBe(0);
    expect((await complete(gateway, steer('tokens=1'), { key })).status).toBe(200);
  });
});

describe('a thousand requests at once', () => {
  test('never overdraw a key with five cents', async () => {
    const funds = 50_000_000n;
    const { key, id } = await makeKey(gateway, { balanceNanoUsd: funds });
    // Each costs at most about 0.82 cents, so the balance pays for about six. They are slow, so that they run at the same time.
    const send = async (index: number): Promise<{ status: number; code: string | undefined; cost: bigint }> => {
      const body = steer('tokens=2000 tps=4000', { max_tokens: 2_000, stream: index % 2 === 0 });
      if (index % 2 === 0) {
        const { status, error, usage } = await stream(gateway, body, { key });
        return { status, code: error?.code, cost: dollars(usage?.cost ?? 0) };
      }
      const answer = await complete(gateway, body, { key });
      return { status: answer.status, code: answer.body.error?.code, cost: dollars(answer.body.usage?.cost ?? 0) };
    };
    const answers = await Promise.all(Array.from({ length: 1_000 }, (_, index) => send(index)));
    const paid = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status !== 200);
    expect(new Set(refused.map(({ status, code }) => `${status} ${code}`))).toEqual(
      new Set(['429 insufficient_balance']),
    );
    expect(paid.length).toBeGreaterThanOrEqual(5);
    const spent = paid.reduce((sum, { cost }) => sum + cost, 0n);
    expect(spent).toBeLessThanOrEqual(funds);
    const { key: shown } = await gateway.account.getKey({ apiKeyId: id });
    expect(shown?.balanceNanoUsd).toBe(funds - spent);
    const { records } = await gateway.account.listActivity({ apiKeyId: id, limit: 1_000 });
    expect(records).toHaveLength(paid.length);
    expect(records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n)).toBe(spent);
    expect(records.every(({ writtenOffNanoUsd }) => writtenOffNanoUsd === 0n)).toBe(true);
  });
});

test('listing models, counting tokens and a malformed request cost nothing and leave no record', async () => {
  const { key, id } = await makeKey(gateway);
  const before = await readBalance(gateway);
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { 'x-api-key': key } });
  expect(response.status).toBe(200);
  await response.arrayBuffer();
  const body = { model: paidModel, messages: [{ role: 'user', content: 'Tolls' }] };
  const count = await post(gateway, '/v1/messages/count_tokens', body, { key });
  expect(count.status).toBe(200);
  expect(((await count.json()) as { input_tokens: number }).input_tokens).toBeGreaterThan(0);
  expect((await post(gateway, '/v1/chat/completions', '{', { key })).status).toBe(400);
  expect((await gateway.account.listActivity({ apiKeyId: id })).records).toEqual([]);
  expect(await readBalance(gateway)).toBe(before);
});
