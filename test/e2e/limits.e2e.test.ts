/** Windows, caps and states of keys, as REST clients see them (docs/accounting.md "Limits"). */
import { afterAll, expect, test } from 'vitest';
import { endGateway, makeKey, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { type Answer, ask, complete } from './chat-client.ts';

const gateway = await startShared({ config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));

const hello = ask('Hello\n!sim tokens=3');
const readHeader = (answer: Answer, name: string): string | null => answer.headers.get(`x-ratelimit-${name}-requests`);

test('free models answer 20 requests a minute for all keys of the account together', async () => {
  const body = ask('Hello\n!sim tokens=3', { model: 'sim/small:free' });
  const other = await makeKey(gateway);
  const keys = [gateway.apiKey, other.key];
  const answers = await Promise.all(
    Array.from({ length: 25 }, (_, index) => complete(gateway, body, { key: keys[index % 2] ?? null })),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(5);
  for (const answer of refused) {
    expect(answer.body.error).toMatchObject({ code: 'rate_limit', type: 'rate_limit_error' });
    expect(readHeader(answer, 'limit')).toBe('20');
    expect(readHeader(answer, 'remaining')).toBe('0');
    expect(readHeader(answer, 'reset')).toMatch(/^(\d+m)?\d+s$/);
    const wait = Number(answer.headers.get('retry-after'));
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(61);
  }
  // This window does not apply to PAYG models.
  expect((await complete(gateway, hello)).status).toBe(200);
});

test('the remaining requests of a minute limit go down to 0, then a request is refused with 429', async () => {
  const { key } = await makeKey(gateway, { minuteLimit: 3n });
  const answers: Answer[] = [];
  for (let count = 0; count < 4; count += 1) answers.push(await complete(gateway, hello, { key }));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(answers.map(answer => readHeader(answer, 'limit'))).toEqual(['3', '3', '3', '3']);
  expect(answers.map(answer => readHeader(answer, 'remaining'))).toEqual(['2', '1', '0', '0']);
  // If the window is full, a request is refused before its body is read, unless it may be a repeat (it has an Idempotency-Key).
  const body = { ...hello, temperature: 9 };
  const broken = await complete(gateway, body, { key });
  expect([broken.status, readHeader(broken, 'remaining')]).toEqual([429, '0']);
  const repeatable = await complete(gateway, body, { key, headers: { 'idempotency-key': 'once' } });
  expect([repeatable.status, readHeader(repeatable, 'remaining')]).toEqual([422, '0']);
});

test('a key without a window gets no rate limit headers', async () => {
  const answer = await complete(gateway, hello);
  expect(readHeader(answer, 'limit')).toBeNull();
});

test('a request that fails before admission counts in no window', async () => {
  const { key } = await makeKey(gateway, { minuteLimit: 1n });
  for (const body of ['{', JSON.stringify({ ...hello, model: 'acme/none' }), JSON.stringify({ ...hello, top_p: 7 })]) {
    expect([400, 422]).toContain((await complete(gateway, body, { key })).status);
  }
  expect((await complete(gateway, hello, { key })).status).toBe(200);
  expect((await complete(gateway, hello, { key })).status).toBe(429);
});

test('a changed limit applies from the next request on', async () => {
  const { key, id } = await makeKey(gateway, { minuteLimit: 1n });
  expect((await complete(gateway, hello, { key })).status).toBe(200);
  expect((await complete(gateway, hello, { key })).status).toBe(429);
  await gateway.account.updateKey({ apiKeyId: id, settings: { minuteLimit: 0n } });
  expect((await complete(gateway, hello, { key })).status).toBe(200);
  await gateway.account.updateKey({ apiKeyId: id, settings: { allowedModels: { models: ['sim/small'] } } });
  const refused = await complete(gateway, hello, { key });
  expect([refused.status, refused.body.error.code]).toEqual([403, 'model_not_allowed']);
  const allowed = await complete(gateway, { ...hello, model: 'small-20260501' }, { key });
  expect([allowed.status, allowed.body.model]).toEqual([200, 'sim/small']);
});

test('a monthly limit shortens the output like a balance, and refuses with `spending_limit` once it is used up', async () => {
  const { key, id } = await makeKey(gateway);
  expect((await gateway.cli(['keys', 'monthly-limit', String(id), '0.002'])).code).toBe(0);
  const bound = await complete(gateway, ask('Hello\n!sim tokens=4000'), { key });
  expect([bound.status, bound.finish]).toEqual([200, 'length']);
  expect(bound.body.usage.cost).toBeLessThanOrEqual(0.002);
  const refused = await complete(gateway, hello, { key });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'spending_limit']);
  expect(refused.headers.get('x-should-retry')).toBe('false');
  expect((await gateway.cli(['keys', 'monthly-limit', String(id), 'none'])).code).toBe(0);
  expect((await complete(gateway, hello, { key })).status).toBe(200);
});

test('with `daily_limit_unit: requests`, requests count until the end of the UTC day; windows survive a kill', async () => {
  const config = 'simulator: { tokens_per_second: 0 }\ndaily_limit_unit: requests\n';
  let daily = await startGateway({ config });
  const { key } = await makeKey(daily, { dailyLimit: 2n });
  const minute = await makeKey(daily, { minuteLimit: 2n });
  expect((await complete(daily, hello, { key })).status).toBe(200);
  expect((await complete(daily, hello, { key: minute.key })).status).toBe(200);
  await daily.kill();
  daily = await startShared({ config, home: daily.home });
  const second = await complete(daily, hello, { key });
  expect([second.status, readHeader(second, 'limit'), readHeader(second, 'remaining')]).toEqual([200, '2', '0']);
  const refused = await complete(daily, hello, { key });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limit']);
  expect(refused.headers.get('x-should-retry')).toBe('false');
  const toMidnight = 86_400 - Math.floor((Date.now() / 1_000) % 86_400);
  expect(Math.abs(Number(refused.headers.get('retry-after')) - toMidnight)).toBeLessThan(10);
  const statuses = [];
  for (let count = 0; count < 2; count += 1) statuses.push((await complete(daily, hello, { key: minute.key })).status);
  expect(statuses).toEqual([200, 429]);
  await endGateway(daily);
});

test('a daily limit of a dollar is not exceeded', async () => {
  const { key } = await makeKey(gateway, { dailyLimit: 1n });
  expect((await complete(gateway, hello, { key })).status).toBe(200);
});

test('a disabled key gets 403 until it is enabled again, a revoked one 401 for good', async () => {
  const { key, id } = await makeKey(gateway);
  const statusAfter = async (command: string): Promise<number> => {
    expect((await gateway.cli(['keys', command, String(id)])).code).toBe(0);
    return (await complete(gateway, hello, { key })).status;
  };
  expect(await statusAfter('disable')).toBe(403);
  expect(await statusAfter('enable')).toBe(200);
  expect(await statusAfter('revoke')).toBe(401);
});

test('a key works in either header; different keys in both are refused with 401', async () => {
  const { key } = await makeKey(gateway);
  const send = (headers: Record<string, string>): Promise<Answer> => complete(gateway, hello, { key: null, headers });
  expect((await send({ authorization: `Bearer ${key}` })).status).toBe(200);
  expect((await send({ 'x-api-key': key })).status).toBe(200);
  expect((await send({ 'x-api-key': key, authorization: `Bearer ${key}` })).status).toBe(200);
  expect((await send({ 'x-api-key': key, authorization: `Bearer ${gateway.apiKey}` })).status).toBe(401);
  expect((await send({})).status).toBe(401);
  expect((await send({ authorization: 'Bearer sk-tg-short' })).status).toBe(401);
  expect((await send({ authorization: `Basic ${key}` })).status).toBe(401);
});

test('a disabled key gets 403, but still the rate limit headers', async () => {
  const { key, id } = await makeKey(gateway, { minuteLimit: 5n });
  await complete(gateway, hello, { key });
  await gateway.cli(['keys', 'disable', String(id)]);
  const answer = await complete(gateway, hello, { key });
  expect([answer.status, answer.body.error?.code]).toEqual([403, 'key_disabled']);
  expect([readHeader(answer, 'limit'), readHeader(answer, 'remaining')]).toEqual(['5', '4']);
});

test('an input that is longer than the model’s context is refused for its length, not for the balance, and costs nothing', async () => {
  const answer = await complete(gateway, ask('word '.repeat(1_000_000)));
  expect([answer.status, answer.body.error?.code, answer.body.error?.param]).toEqual([
    400,
    'context_length_exceeded',
    'messages',
  ]);
});
