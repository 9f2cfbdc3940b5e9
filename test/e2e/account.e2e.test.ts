/** The account endpoints as their clients see them (docs/interfaces/account.md). */
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import {
  type AnalyticsJson,
  type RecordDetailJson,
  call,
  readDollars,
  type KeyJson,
  newAccount,
  newKey,
  type RecordJson,
} from './account-client.ts';
import { ask, complete, stream } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '100' });
afterAll(() => endGateway(gateway));

const hello = ask('Tolls\n!sim tokens=10');
const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const get = async (id: number): Promise<KeyJson> =>
  (await call<{ data: KeyJson }>(gateway, 'GET', `/keys/${id}`)).body.data;
const patch = (id: number, body: object) => call<{ data: KeyJson }>(gateway, 'PATCH', `/keys/${id}`, { body });
const readRequestId = ({ headers }: { readonly headers: Headers }): string => headers.get('x-request-id') ?? '';

describe('keys', () => {
  test('a key that is made without settings has the defaults; its secret is only in the answer of the request that created it', async () => {
    const made = await call<{ data: KeyJson }>(gateway, 'POST', '/keys', { body: {} });
    expect(made.status).toBe(200);
    const { key, api_key_id, created_at, ...rest } = made.body.data;
    expect(key).toMatch(/^sk-tg-[0-9A-Za-z]{43}$/);
    expect(created_at).toMatch(isoTime);
    expect(rest).toEqual({
      label: '',
      daily_limit: 0,
      minute_limit: 0,
      monthly_limit: null,
      low_balance: null,
      expires_at: null,
      balance: null,
      usage_today: 0,
      usage_minute: 0,
      last_used_at: null,
      use_subs_first: true,
      fallback_to_payg: true,
      allowed_models: null,
      disabled: false,
      group_id: null,
      tags: {},
      metadata: {},
      keep_bodies: null,
      paused: false,
    });
    const masked = { ...made.body.data, key: `${key.slice(0, 10)}…${key.slice(-4)}` };
    expect(await get(api_key_id)).toEqual(masked);
    expect((await patch(api_key_id, {})).body.data).toEqual(masked);
    const listed = await call<{ data: KeyJson[] }>(gateway, 'GET', '/keys');
    expect(listed.body.data.find(each => each.api_key_id === api_key_id)).toEqual(masked);
    expect(listed.text).not.toContain(key.slice(10, -4));
  });

  test('every setting is kept, and an update changes only what it names', async () => {
    const settings = {
      label: 'build server “ÿ”',
      daily_limit: 7,
      minute_limit: 60,
      allowed_models: ['large', 'sim/small:free', 'sim/large-2026-05-01', 'sim/small:flex'],
      balance: 2.5,
      use_subs_first: false,
      fallback_to_payg: false,
    };
    const made = await newKey(gateway, settings);
    const shown = { ...settings, allowed_models: ['sim/large', 'sim/small:free', 'sim/small'] };
    expect(made).toMatchObject(shown);
    const id = made.api_key_id;
    const changes: readonly [object, object][] = [
      [{ label: 'other' }, { label: 'other' }],
      [{ daily_limit: 0 }, { daily_limit: 0 }],
      [{ minute_limit: null }, { minute_limit: 0 }],
      [{ allowed_models: [] }, { allowed_models: [] }],
      [{ allowed_models: null }, { allowed_models: null }],
      [{ balance: 0 }, { balance: 0 }],
      [{ balance: null }, { balance: null }],
      [{ use_subs_first: true }, { use_subs_first: true }],
      [{ fallback_to_payg: true }, { fallback_to_payg: true }],
      [{}, {}],
    ];
    let expected: object = { ...(await get(id)) };
    for (const [change, effect] of changes) {
      expected = { ...expected, ...effect };
      expect((await patch(id, change)).body.data).toEqual(expected);
      expect(await get(id)).toEqual(expected);
    }
  });

  test('a key shows its use today and in the last minute, and the time of its last use', async () => {
    const made = await newKey(gateway);
    const before = Date.now();
    const answer = await complete(gateway, hello, { key: made.key });
    const shown = await get(made.api_key_id);
    expect(shown.usage_today).toBe(answer.body.usage.cost);
    expect(shown.usage_today).toBeGreaterThan(0);
    expect(shown.usage_minute).toBe(1);
    expect(shown.last_used_at).toMatch(isoTime);
    expect(Date.parse(shown.last_used_at ?? '')).toBeGreaterThanOrEqual(before - 1);
  });

  test('requests with a deleted key get 401 at once; the key is not found, and can’t be deleted twice', async () => {
    const made = await newKey(gateway, { balance: 1 });
    expect((await complete(gateway, hello, { key: made.key })).status).toBe(200);
    const before = await readDollars(gateway);
    const left = (await get(made.api_key_id)).balance ?? 0;
    const deleted = await call(gateway, 'DELETE', `/keys/${made.api_key_id}`);
    expect([deleted.status, deleted.body]).toEqual([200, { message: 'API key successfully deleted.' }]);
    expect((await complete(gateway, hello, { key: made.key })).status).toBe(401);
    for (const method of ['GET', 'DELETE']) {
      const again = await call(gateway, method, `/keys/${made.api_key_id}`);
      expect([again.status, again.body.error.code]).toEqual([404, 'not_found']);
    }
    expect((await patch(made.api_key_id, { label: 'x' })).status).toBe(404);
    const { data } = (await call<{ data: KeyJson[] }>(gateway, 'GET', '/keys')).body;
    expect(data.some(({ api_key_id }) => api_key_id === made.api_key_id)).toBe(false);
    // The key's remaining balance has moved back to the account; its records stay.
    expect(await readDollars(gateway)).toBeCloseTo(before + left, 9);
    const { data: records } = (
      await call<{ data: RecordJson[] }>(gateway, 'GET', `/activity?api_key_id=${made.api_key_id}`)
    ).body;
    expect(records).toHaveLength(1);
  });

  test('a key has what the operator set: disabled, monthly limit', async () => {
    const { api_key_id: id } = await newKey(gateway);
    await gateway.cli(['keys', 'disable', String(id)]);
    await gateway.cli(['keys', 'monthly-limit', String(id), '12.5']);
    expect(await get(id)).toMatchObject({ disabled: true, monthly_limit: 12.5 });
    expect((await patch(id, { label: 'still mine' })).body.data).toMatchObject({ disabled: true, label: 'still mine' });
  });
});

describe('money', () => {
  test('a key’s balance is moved from the account and back; the amount is read exactly and rounded to nano-dollars', async () => {
    const { managementKey: key } = await newAccount(gateway, 10);
    const made = await newKey(gateway, {}, key);
    const set = (balance: string) =>
      call<{ data: KeyJson }>(gateway, 'PATCH', `/keys/${made.api_key_id}`, { key, body: `{"balance":${balance}}` });
    const steps: readonly [string, string, string][] = [
      ['3', '3', '7'],
      ['1e-3', '0.001', '9.999'],
      ['0.0000000005', '0.000000001', '9.999999999'],
      ['0.00000000049', '0', '10'],
      ['1.0000000014', '1.000000001', '8.999999999'],
      ['10', '10', '0'],
      ['null', 'null', '10'],
    ];
    for (const [sent, shown, left] of steps) {
      const reply = await set(sent);
      expect([sent, reply.status]).toEqual([sent, 200]);
      expect(reply.text).toContain(`"balance":${shown},`);
      expect((await call(gateway, 'GET', '/balance', { key })).text).toBe(`{"balance":${left}}`);
    }
    const refused = await set('10.000000001');
    expect([refused.status, refused.body.error.code, refused.body.error.param]).toEqual([
      422,
      'validation_error',
      'balance',
    ]);
    expect(await readDollars(gateway, key)).toBe(10);
  });

  test('large amounts are exact to the nano-dollar', async () => {
    const { accountId, managementKey: key } = await newAccount(gateway, 0);
    await gateway.admin.addCredit({ accountId, amountNanoUsd: 8_999_999_999_123_456_789n });
    expect((await call(gateway, 'GET', '/balance', { key })).text).toBe('{"balance":8999999999.123456789}');
    const { api_key_id: id } = await newKey(gateway, {}, key);
    const moved = await call(gateway, 'PATCH', `/keys/${id}`, { key, body: '{"balance":8999999998.123456788}' });
    expect(moved.text).toContain('"balance":8999999998.123456788,');
    expect((await call(gateway, 'GET', '/balance', { key })).text).toBe('{"balance":1.000000001}');
  });
});

describe('activity', () => {
  test('a page has one record per request, newest first, with model, tokens and cost', async () => {
    const { managementKey: key } = await newAccount(gateway, 5);
    const [one, other] = [await newKey(gateway, {}, key), await newKey(gateway, {}, key)];
    const large = await complete(gateway, hello, { key: one.key });
    const small = await complete(gateway, { ...hello, model: 'sim/small' }, { key: one.key });
    const free = await complete(gateway, { ...hello, model: 'sim/small:free' }, { key: other.key });
    const flex = await stream(gateway, { ...hello, model: 'sim/large:flex' }, { key: other.key });
    const failed = await complete(gateway, ask('x\n!sim status=500'), { key: other.key });
    expect([large.status, small.status, free.status, flex.status, failed.status]).toEqual([200, 200, 200, 200, 502]);
    const page = async (query: string) => {
      const reply = await call<{ data: RecordJson[]; limit: number; offset: number }>(
        gateway,
        'GET',
        `/activity${query}`,
        { key },
      );
      expect(reply.status).toBe(200);
      return reply.body;
    };
    const all = await page('');
    expect([all.limit, all.offset]).toEqual([100, 0]);
    expect(all.data.map(({ request_id }) => request_id)).toEqual([failed, flex, free, small, large].map(readRequestId));
    expect(all.data[4]).toEqual({
      request_id: readRequestId(large),
      model: 'sim/large',
      api_key_id: one.api_key_id,
      cost: large.body.usage.cost,
      created_at: expect.stringMatching(isoTime),
      state: 'completed',
      service_tier: 'default',
      input_tokens: large.body.usage.prompt_tokens,
      output_tokens: 10,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      end_user: null,
      tags: {},
      unpriced: [],
      batch_id: null,
    });
    expect(all.data[0]).toMatchObject({ state: 'upstream_failed', cost: 0, input_tokens: 0, output_tokens: 0 });
    expect(all.data[1]).toMatchObject({ service_tier: 'flex', model: 'sim/large' });
    expect(all.data[2]).toMatchObject({ model: 'sim/small:free', cost: 0 });

    const ids = async (query: string) => (await page(query)).data.map(({ request_id }) => request_id);
    const readIds = (...answers: { readonly headers: Headers }[]) => answers.map(readRequestId);
    expect(await ids('?limit=2')).toEqual(readIds(failed, flex));
    expect(await ids('?limit=2&offset=3')).toEqual(readIds(small, large));
    expect(await ids('?offset=5')).toEqual([]);
    expect(await ids('?model=sim/large')).toEqual(readIds(failed, flex, large));
    expect(await ids(`?api_key_id=${one.api_key_id}`)).toEqual(readIds(small, large));
    expect(await ids(`?api_key_id=${other.api_key_id}&model=sim/large&limit=1&offset=1`)).toEqual(readIds(flex));
    expect(await ids('?model=sim/other')).toEqual([]);
    expect(await ids('?api_key_id=1')).toEqual([]);
    const since = all.data[2]?.created_at ?? '';
    expect(await ids(`?start=${since}`)).toEqual(readIds(failed, flex, free));
    expect(await ids(`?end=${since}`)).toEqual(readIds(small, large));
    expect(await ids(`?start=${since}&end=${since}`)).toEqual([]);
    expect(await ids('?end=2026-01-01')).toEqual([]);
  });

  test('a single record has the calculation of its cost: price, multiplier and cost of each bucket, and the total', async () => {
    const answer = await complete(gateway, { ...hello, service_tier: 'flex' });
    const { body, status } = await call<RecordDetailJson>(gateway, 'GET', `/activity/${readRequestId(answer)}`);
    const input = answer.body.usage.prompt_tokens;
    expect(status).toBe(200);
    expect(body).toEqual({
      request_id: readRequestId(answer),
      model: 'sim/large',
      api_key_id: 1,
      cost: answer.body.usage.cost,
      written_off: 0,
      created_at: expect.stringMatching(isoTime),
      state: 'completed',
      usage_source: 'reported',
      service_tier: 'flex',
      latency_ms: expect.any(Number),
      input_tokens: input,
      output_tokens: 10,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      reasoning_tokens: 0,
      end_user: null,
      tags: {},
      unpriced: [],
      batch_id: null,
      timeline: {
        attempt_count: 1,
        extensions: [],
        first_event_ms: expect.any(Number),
        held_at_admission: expect.any(Number),
        provider: 'simulator',
        // Empty, because there was one attempt, without a choice of routes.
        attempts: [],
      },
      buckets: [
        { kind: 'input', tokens: input, price: 1, multiplier: 0.5, discount: 0, cost: input / 2e6, paid_by: 'account' },
        { kind: 'output', tokens: 10, price: 4, multiplier: 0.5, discount: 0, cost: 0.00002, paid_by: 'account' },
      ],
    });
  });

  test.each(['req_nothing', 'req_0Xg5QH9qtM0udaYIIl74P', '1', 'req_%00', '..%2Fkeys'])(
    'an unknown id %s is 404',
    async id => {
      const reply = await call(gateway, 'GET', `/activity/${id}`);
      expect([reply.status, reply.body.error.code]).toEqual([404, 'not_found']);
    },
  );
});

describe('analytics', () => {
  test('the sums equal the sums of the records, in total and by period, model and key', async () => {
    const { managementKey: key } = await newAccount(gateway, 5);
    const [one, other] = [await newKey(gateway, {}, key), await newKey(gateway, {}, key)];
    const began = new Date();
    const requested = [
      [one, hello],
      [one, { ...hello, model: 'sim/small' }],
      [other, hello],
      [other, ask('x\n!sim status=500')],
    ] as const;
    for (const [{ key: apiKey }, body] of requested) await complete(gateway, body, { key: apiKey });
    const analytics = async (query: string) => {
      const reply = await call<AnalyticsJson>(gateway, 'GET', `/analytics${query}`, { key });
      expect(reply.status).toBe(200);
      return reply.body;
    };
    const { data } = (await call<{ data: RecordJson[] }>(gateway, 'GET', '/activity', { key })).body;
    const latencies = await Promise.all(
      data.map(
        async ({ request_id }) =>
          (await call<RecordDetailJson>(gateway, 'GET', `/activity/${request_id}`, { key })).body.latency_ms,
      ),
    );
    const sum = (of: (record: RecordJson) => number, records = data): number =>
      records.reduce((total, record) => total + of(record), 0);
    const byDay = await analytics('');
    expect(byDay.metrics).toMatchObject({
      requests: 4,
      failed_requests: 1,
      input_tokens: sum(record => record.input_tokens),
      output_tokens: 30,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
    });
    const average = latencies.reduce((total, each) => total + each, 0) / 4;
    expect(byDay.metrics.average_latency_ms).toBeCloseTo(average, 3);
    expect(byDay.metrics.cost).toBeCloseTo(
      sum(record => record.cost),
      9,
    );
    const byHour = await analytics('?granularity=hour');
    for (const { metrics, series } of [byDay, byHour]) {
      expect(metrics).toEqual(byDay.metrics);
      expect(series.reduce((total, { requests }) => total + requests, 0)).toBe(4);
      expect(series.every(({ group }) => group === null)).toBe(true);
    }
    expect(byDay.series[0]?.timestamp).toMatch(/T00:00:00\.000Z$/);
    expect(byHour.series[0]?.timestamp).toMatch(/T\d\d:00:00\.000Z$/);

    const requestsBy = async (groupBy: string) => {
      const counts: Record<string, number> = {};
      const { series } = await analytics(`?group_by=${groupBy}`);
      for (const { group, requests } of series) counts[String(group)] = (counts[String(group)] ?? 0) + requests;
      return counts;
    };
    expect(await requestsBy('none')).toEqual({ null: 4 });
    expect(await requestsBy('model')).toEqual({ 'sim/large': 3, 'sim/small': 1 });
    expect(await requestsBy('api_key')).toEqual({ [one.api_key_id]: 2, [other.api_key_id]: 2 });

    // `start` and `end` are exact to the millisecond, although sums are stored by the hour.
    const secondCreatedAt = [...data].reverse()[1]?.created_at ?? '';
    const after = data.filter(({ created_at }) => created_at >= secondCreatedAt).length;
    expect((await analytics(`?start=${secondCreatedAt}`)).metrics.requests).toBe(after);
    expect((await analytics(`?end=${secondCreatedAt}&start=${began.toISOString()}`)).metrics.requests).toBe(4 - after);
    expect((await analytics('?start=2020-01-01&end=2020-02-01')).series).toEqual([]);
  });

  test('an account without requests has sums of 0', async () => {
    const { managementKey: key } = await newAccount(gateway, 0);
    const zero = {
      requests: 0,
      failed_requests: 0,
      cost: 0,
      input_tokens: 0,
      output_tokens: 0,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      average_latency_ms: 0,
    };
    expect((await call(gateway, 'GET', '/analytics', { key })).body).toEqual({ metrics: zero, series: [] });
  });
});

describe('lists', () => {
  test.each(['/keys', '/limits', '/groups', '/activity'])('%s has pages of at most 1,000 entries', async path => {
    for (const name of ['one', 'two', 'three']) {
      await call(gateway, 'POST', '/keys', { body: { label: name } });
      await call(gateway, 'POST', '/groups', { body: { name } });
      const body = { scope: { type: 'account' }, unit: 'requests', window: 'day', max: 1_000_000 };
      await call(gateway, 'POST', '/limits', { body });
      await complete(gateway, hello);
    }
    // Returns ids only, because `resets_at` of a rolling window differs in each answer.
    const page = async (query: string): Promise<unknown[]> =>
      (await call<{ data: object[] }>(gateway, 'GET', `${path}?${query}`)).body.data.map(
        each => Object.values(each)[0],
      );
    const all = await page('limit=1000');
    expect(all.length).toBeGreaterThanOrEqual(3);
    expect([...(await page('limit=2')), ...(await page('limit=1&offset=2'))]).toEqual(all.slice(0, 3));
    expect(await page(`offset=${all.length}`)).toEqual([]);
    for (const query of ['limit=0', 'limit=1001', 'offset=-1']) {
      const refused = await call<{ detail: { loc: string[] }[] }>(gateway, 'GET', `${path}?${query}`);
      expect([refused.status, refused.body.detail[0]?.loc]).toEqual([400, ['query', query.split('=')[0]]]);
    }
  });
});
