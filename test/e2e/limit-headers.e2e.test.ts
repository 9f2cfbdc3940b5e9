/** What a client of every interface is told of its limits, whatever became of its request (decisions §3). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway, startGateway } from '../gateway.ts';
import { call, type KeyJson, newAccount, newKey } from './account-client.ts';
import { ask, post } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nretries: 0\n', balance: '1000' });
afterAll(() => endGateway(gateway));

type Body = Readonly<Record<string, unknown>>;
const words = 'Tolls\n!sim tokens=3';
/** Each interface with a body that is answered. */
const interfaces: readonly (readonly [name: string, path: string, body: Body])[] = [
  ['Chat', '/v1/chat/completions', ask(words)],
  ['Messages', '/v1/messages', ask(words, { max_tokens: 50 })],
];

interface Told {
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
): Promise<Told> {
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
    const asked = { ...body, stream };
    const say = (line: string): Body => ({ ...asked, messages: [{ role: 'user', content: `Tolls\n!sim ${line}` }] });

    test('every answer of a key with a window tells how it stands, refused ones too', async () => {
      const { key } = await newKey(gateway, windowed);
      const disabled = await newKey(gateway, windowed);
      await gateway.cli(['keys', 'disable', String(disabled.api_key_id)]);
      const narrow = await newKey(gateway, { ...windowed, allowed_models: ['sim/small'] });
      const poor = await newKey(gateway, { ...windowed, balance: 0 });
      const cases: readonly (readonly [number, string | undefined, Promise<Told>, remaining?: string])[] = [
        [200, undefined, send(path, asked, key)],
        [400, 'invalid_request', send(path, '{', key)],
        [400, 'invalid_request', send(path, JSON.stringify(asked), key, { 'content-type': 'text/plain' })],
        [422, 'validation_error', send(path, { ...asked, temperature: 'hot' }, key)],
        [400, 'model_not_found', send(path, { ...asked, model: 'acme/none' }, key)],
        [400, 'upstream_rejected', send(path, say('nonsense=1'), key)],
        [502, 'model_unavailable', send(path, { ...asked, model: 'sim/unavailable' }, key)],
        [502, 'upstream_error', send(path, say('status=500'), key)],
        [403, 'model_not_allowed', send(path, asked, narrow.key)],
        [403, 'key_disabled', send(path, asked, disabled.key)],
        [429, 'insufficient_balance', send(path, asked, poor.key)],
      ];
      for (const [status, code, pending] of cases) {
        const told = await pending;
        expect([told.status, told.code]).toEqual([status, code]);
        expect([code, told.limit]).toEqual([code, '40']);
        expect(Number(told.remaining)).toBeGreaterThan(30);
        expect(told.reset).toMatch(/^(\d+m)?\d+s$/);
      }
    });

    test('the headers count down to 0, then 429 tells when to come back, and that a retry helps', async () => {
      const { key, api_key_id: id } = await newKey(gateway, { minute_limit: 2 });
      const told = [await send(path, asked, key), await send(path, asked, key), await send(path, asked, key)];
      expect(told.map(({ status, limit, remaining }) => [status, limit, remaining])).toEqual([
        [200, '2', '1'],
        [200, '2', '0'],
        [429, '2', '0'],
      ]);
      const refused = told[2];
      expect([refused?.code, refused?.shouldRetry]).toEqual(['rate_limit', 'true']);
      expect(Number(refused?.retryAfter)).toBeGreaterThanOrEqual(1);
      expect(Number(refused?.retryAfter)).toBeLessThanOrEqual(61);
      expect(refused?.tip).toContain(`PATCH /v1/account/keys/${id} {"minute_limit": N}`);
      // A repeat of what was refused is refused too and uses nothing up: the limit that is raised next tells.
      await send(path, asked, key);
      await change(id, { minute_limit: 3 });
      expect(await send(path, asked, key)).toMatchObject({ status: 200, limit: '3', remaining: '0' });
    });

    test('a key without a window is told nothing', async () => {
      const { key } = await newKey(gateway);
      for (const told of [
        await send(path, asked, key),
        await send(path, '{', key),
        await send(path, say('status=500'), key),
      ]) {
        expect([told.limit, told.remaining, told.reset]).toEqual([null, null, null]);
      }
    });

    test('a refusal for lack of money says which balance is meant and how to raise it; no retry helps', async () => {
      const { accountId, managementKey } = await newAccount(gateway, 0);
      const broke = await newKey(gateway, {}, managementKey);
      const own = await newKey(gateway, { balance: 0 });
      const ofAccount = await send(path, asked, broke.key);
      const ofKey = await send(path, asked, own.key);
      for (const told of [ofAccount, ofKey]) {
        expect([told.status, told.code, told.shouldRetry, told.retryAfter]).toEqual([
          429,
          'insufficient_balance',
          'false',
          null,
        ]);
      }
      expect(ofAccount.tip).toBe(`Ask the operator to add credit: npx tollgate credits add ${accountId} DOLLARS.`);
      expect(ofKey.tip).toContain(`PATCH /v1/account/keys/${own.api_key_id} {"balance": DOLLARS}`);
    });

    test('a spent monthly limit tells when the month ends and what the operator can do', async () => {
      const { key, api_key_id: id } = await newKey(gateway);
      await gateway.cli(['keys', 'monthly-limit', String(id), '0.000000001']);
      const told = await send(path, asked, key);
      expect([told.status, told.code, told.shouldRetry]).toEqual([429, 'spending_limit', 'false']);
      const now = new Date();
      const end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
      expect(Math.abs(Number(told.retryAfter) - (end - now.getTime()) / 1_000)).toBeLessThan(30);
      expect(told.tip).toContain(`npx tollgate keys monthly-limit ${id} `);
    });
  });
});

describe('under load', () => {
  /** Does something to a key. */
  type Act = (id: number) => Promise<void>;
  interface Sent {
    readonly sentAt: number;
    readonly status: number;
    readonly code: string | undefined;
  }
  /** Sends one request after the other on several connections until told to stop; statuses with the times when they were sent. */
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
    ['limited by the minute', 429, 'rate_limit', patch({ minute_limit: 1 })],
    ['narrowed', 403, 'model_not_allowed', patch({ allowed_models: [] })],
    ['left without money', 429, 'insufficient_balance', patch({ balance: 0 })],
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

  test('a stream whose key is deleted meanwhile is cut, with the reason', async () => {
    const { key, api_key_id: id } = await newKey(gateway, { balance: 1 });
    const running = post(gateway, '/v1/chat/completions', ask('Tolls\n!sim tokens=60 tps=100', { stream: true }), {
      key,
    });
    const response = await running;
    await call(gateway, 'DELETE', `/keys/${id}`);
    expect(await response.text()).toMatch(/"code":"invalid_api_key"/);
  });
});
