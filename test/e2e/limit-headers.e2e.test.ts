/** The rate limit headers on every interface, whatever the outcome of the request (docs/errors.md "Rate limit headers"). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, type KeyJson, newAccount, newKey } from './account-client.ts';
import { ask, post } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nretries: 0\n', balance: '1000' });
afterAll(() => endGateway(gateway));

type Body = Readonly<Record<string, unknown>>;
const words = 'Tolls\n!sim tokens=3';
/** Each interface, with a valid body. */
const interfaces: readonly (readonly [name: string, path: string, body: Body])[] = [
  ['Chat', '/v1/chat/completions', ask(words)],
  ['Messages', '/v1/messages', ask(words, { max_tokens: 50 })],
];

interface Reply {
  readonly status: number;
  readonly code: string | undefined;
  readonly limit: string | null;
  readonly remaining: string | null;
  readonly reset: string | null;
  readonly retryAfter: string | null;
  readonly shouldRetry: string | null;
  readonly tip: string | null | undefined;
}

async function send(
  path: string,
  body: unknown,
  key: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  const response = await post(gateway, path, body, { key, headers });
  const text = await response.text();
  const error =
    response.status === 200 ? undefined : (JSON.parse(text) as { error: { code: string; tip: string } }).error;
  const header = (name: string): string | null => response.headers.get(name);
  return {
    status: response.status,
    code: error?.code,
    limit: header('x-ratelimit-limit-requests'),
    remaining: header('x-ratelimit-remaining-requests'),
    reset: header('x-ratelimit-reset-requests'),
    retryAfter: header('retry-after'),
    shouldRetry: header('x-should-retry'),
    tip: error?.tip,
  };
}

const change = (id: number, body: object) => call<{ data: KeyJson }>(gateway, 'PATCH', `/keys/${id}`, { body });
const windowed = { minute_limit: 40 };

describe.each(interfaces)('%s', (_, path, body) => {
  describe.each([false, true])('with stream: %s', stream => {
    const valid = { ...body, stream };
    const steer = (line: string): Body => ({ ...valid, messages: [{ role: 'user', content: `Tolls\n!sim ${line}` }] });

    test('every response to a key with a window has the rate limit headers, errors included', async () => {
      const { key } = await newKey(gateway, windowed);
      const disabled = await newKey(gateway, windowed);
      await gateway.cli(['keys', 'disable', String(disabled.api_key_id)]);
      const narrow = await newKey(gateway, { ...windowed, allowed_models: ['sim/small'] });
      const poor = await newKey(gateway, { ...windowed, balance: 0 });
      const cases: readonly (readonly [number, string | undefined, Promise<Reply>, remaining?: string])[] = [
        [200, undefined, send(path, valid, key)],
        [400, 'invalid_request', send(path, '{', key)],
        [400, 'invalid_request', send(path, JSON.stringify(valid), key, { 'content-type': 'text/plain' })],
        [422, 'validation_error', send(path, { ...valid, temperature: 'hot' }, key)],
        [400, 'model_not_found', send(path, { ...valid, model: 'acme/none' }, key)],
        [400, 'upstream_rejected', send(path, steer('nonsense=1'), key)],
        [502, 'model_unavailable', send(path, { ...valid, model: 'sim/unavailable' }, key)],
        [502, 'upstream_error', send(path, steer('status=500'), key)],
        [403, 'model_not_allowed', send(path, valid, narrow.key)],
        [403, 'key_disabled', send(path, valid, disabled.key)],
        [429, 'insufficient_balance', send(path, valid, poor.key)],
      ];
      for (const [status, code, pending] of cases) {
        const reply = await pending;
        expect([reply.status, reply.code]).toEqual([status, code]);
        expect([code, reply.limit]).toEqual([code, '40']);
        expect(Number(reply.remaining)).toBeGreaterThan(30);
        expect(reply.reset).toMatch(/^(\d+m)?\d+s$/);
      }
    });

    test('the remaining requests in the headers go down to 0, then a 429 says when to retry', async () => {
      const { key, api_key_id: id } = await newKey(gateway, { minute_limit: 2 });
      const replies = [await send(path, valid, key), await send(path, valid, key), await send(path, valid, key)];
      expect(replies.map(({ status, limit, remaining }) => [status, limit, remaining])).toEqual([
        [200, '2', '1'],
        [200, '2', '0'],
        [429, '2', '0'],
      ]);
      const refused = replies[2];
      expect([refused?.code, refused?.shouldRetry]).toEqual(['rate_limit', 'true']);
      expect(Number(refused?.retryAfter)).toBeGreaterThanOrEqual(1);
      expect(Number(refused?.retryAfter)).toBeLessThanOrEqual(61);
      expect(refused?.tip).toContain(`PATCH /v1/account/keys/${id} {"minute_limit": N}`);
      // Refused requests do not count: after the limit is raised by one, exactly one request is left.
      await send(path, valid, key);
      await change(id, { minute_limit: 3 });
      expect(await send(path, valid, key)).toMatchObject({ status: 200, limit: '3', remaining: '0' });
    });

    test('a key without a window gets no rate limit headers', async () => {
      const { key } = await newKey(gateway);
      for (const reply of [
        await send(path, valid, key),
        await send(path, '{', key),
        await send(path, steer('status=500'), key),
      ]) {
        expect([reply.limit, reply.remaining, reply.reset]).toEqual([null, null, null]);
      }
    });

    test('`insufficient_balance` names the balance, and says how to raise it and not to retry', async () => {
      const { accountId, managementKey } = await newAccount(gateway, 0);
      const poorAccount = await newKey(gateway, {}, managementKey);
      const poorKey = await newKey(gateway, { balance: 0 });
      const accountReply = await send(path, valid, poorAccount.key);
      const keyReply = await send(path, valid, poorKey.key);
      for (const reply of [accountReply, keyReply]) {
        expect([reply.status, reply.code, reply.shouldRetry, reply.retryAfter]).toEqual([
          429,
          'insufficient_balance',
          'false',
          null,
        ]);
      }
      expect(accountReply.tip).toBe(`Ask the operator to add credit: npx tollgate credits add ${accountId} DOLLARS.`);
      expect(keyReply.tip).toContain(`PATCH /v1/account/keys/${poorKey.api_key_id} {"balance": DOLLARS}`);
    });

    test('`spending_limit` of a monthly limit says when the month ends and what the operator can do', async () => {
      const { key, api_key_id: id } = await newKey(gateway);
      await gateway.cli(['keys', 'monthly-limit', String(id), '0.000000001']);
      const reply = await send(path, valid, key);
      expect([reply.status, reply.code, reply.shouldRetry]).toEqual([429, 'spending_limit', 'false']);
      const now = new Date();
      const end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
      expect(Math.abs(Number(reply.retryAfter) - (end - now.getTime()) / 1_000)).toBeLessThan(30);
      expect(reply.tip).toContain(`npx tollgate keys monthly-limit ${id} `);
    });
  });
});

describe('under load', () => {
  /** Changes or deletes a key. */
  type Act = (id: number) => Promise<void>;
  interface Sent {
    readonly sentAt: number;
    readonly status: number;
    readonly code: string | undefined;
  }
  /** Sends requests over 12 connections until `stop` is called, one after the other on each. `seen` has the time at which each was sent, and its status. */
  function load(key: string): { readonly seen: readonly Sent[]; readonly stop: () => Promise<void> } {
    const seen: Sent[] = [];
    let running = true;
    const caller = async (index: number): Promise<void> => {
      const [, path, body] = interfaces[index % interfaces.length] ?? ['', '', {}];
      while (running) {
        const sentAt = performance.now();
        const { status, code } = await send(path, { ...body, stream: index % 3 === 0 }, key);
        seen.push({ sentAt, status, code });
      }
    };
    const all = Promise.all(Array.from({ length: 12 }, (_, index) => caller(index)));
    return {
      seen,
      stop: async () => {
        running = false;
        await all;
      },
    };
  }

  const remove: Act = async id => {
    await call(gateway, 'DELETE', `/keys/${id}`);
  };
  const admin =
    (...args: string[]): Act =>
    async id => {
      await gateway.cli([...args, String(id)]);
    };
  const patch =
    (settings: object): Act =>
    async id => {
      await change(id, settings);
    };
  test.each([
    ['deleted', 401, 'invalid_api_key', remove],
    ['revoked', 401, 'invalid_api_key', admin('keys', 'revoke')],
    ['disabled', 403, 'key_disabled', admin('keys', 'disable')],
    ['over its minute limit', 429, 'rate_limit', patch({ minute_limit: 1 })],
    ['limited to other models', 403, 'model_not_allowed', patch({ allowed_models: [] })],
    ['without funds', 429, 'insufficient_balance', patch({ balance: 0 })],
  ] as const)('a key that is %s is refused with %i from the next request on', async (_, status, code, act) => {
    const { key, api_key_id: id } = await newKey(gateway);
    const { seen, stop } = load(key);
    while (seen.length < 20) await sleep(5);
    await act(id);
    const actedAt = performance.now();
    while (seen.filter(({ sentAt }) => sentAt > actedAt).length < 20) await sleep(5);
    await stop();
    const after = seen.filter(({ sentAt }) => sentAt > actedAt);
    expect(new Set(after.map(each => `${each.status} ${each.code}`))).toEqual(new Set([`${status} ${code}`]));
    expect(seen.slice(0, 20).every(each => each.status === 200)).toBe(true);
  });

  test('a stream ends with an error if its key is deleted in the meantime', async () => {
    const { key, api_key_id: id } = await newKey(gateway, { balance: 1 });
    const running = post(gateway, '/v1/chat/completions', ask('Tolls\n!sim tokens=60 tps=100', { stream: true }), {
      key,
    });
    const response = await running;
    await call(gateway, 'DELETE', `/keys/${id}`);
    expect(await response.text()).toMatch(/"code":"invalid_api_key"/);
  });
});

describe('a request with n choices', () => {
  const path = '/v1/chat/completions';
  const several = (model: string, n: number): Body => ({ ...ask(words), model, n });

  test('of a free model counts as n requests, and is refused if the window has fewer left', async () => {
    const { managementKey } = await newAccount(gateway, 1);
    const { key } = await newKey(gateway, {}, managementKey);
    expect(await send(path, several('sim/small:free', 7), key)).toMatchObject({ status: 200, remaining: '13' });
    expect(await send(path, several('sim/small:free', 14), key)).toMatchObject({ status: 429, code: 'rate_limit' });
    expect(await send(path, several('sim/small:free', 13), key)).toMatchObject({ status: 200, remaining: '0' });
    expect(await send(path, several('sim/small:free', 1), key)).toMatchObject({ status: 429, code: 'rate_limit' });
  });

  test('of a paid model counts as one request', async () => {
    const { key } = await newKey(gateway, { minute_limit: 2 });
    expect(await send(path, several('sim/small', 7), key)).toMatchObject({ status: 200, remaining: '1' });
  });
});
