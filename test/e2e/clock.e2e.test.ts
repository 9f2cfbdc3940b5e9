/**
 * A running gateway whose wall clock is changed: windows, caps and plans at the edges of their periods, a leap day, steps back (docs/architecture.md "Time"; docs/accounting.md "Windows"). Every time in this test is some seconds away from an edge, so that a slow machine makes no difference.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Plan, PlanPeriod } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { FakeClock } from '../fake-clock.ts';
import { readBalance, endGateway, type Gateway, makeKey, readRecord, startGateway } from '../gateway.ts';
import { call, type KeyJson, type RecordJson } from './account-client.ts';
import { type Answer, ask, complete, stream } from './chat-client.ts';

const dollar = 1_000_000_000n;
const config = `simulator: { tokens_per_second: 0 }
daily_limit_unit: requests
plans:
  core: { monthly: { price: 2, tokens: 3000 }, free_daily_requests: 1, models: all }
`;
const short = ask('Tolls\n!sim tokens=3');

describe('a gateway whose clock is set while it runs', () => {
  // The gateway starts at the latest time of all tests, because it refuses a clock that is a day ahead of its start, but not one that is set back.
  const clock = new FakeClock('2028-05-12T00:00:00Z');
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ config, environment: clock.environment, balance: '100' });
    clock.set('2028-01-31T10:00:30Z');
  });
  afterAll(async () => {
    await endGateway(gateway);
    clock.remove();
  });

  const gist = ({ status, body, headers }: Answer): unknown[] => [
    status,
    status === 200 ? undefined : body.error.code,
    headers.get('x-ratelimit-remaining-requests'),
  ];
  const readWait = ({ headers }: Answer): number => Number(headers.get('retry-after'));
  const readKey = async (id: bigint): Promise<KeyJson> =>
    (await call<{ data: KeyJson }>(gateway, 'GET', `/keys/${id}`)).body.data;

  test('a day ends at 00:00 UTC, also on 29 February', async () => {
    const { key, id } = await makeKey(gateway, { dailyLimit: 1n });
    for (const [evening, midnight] of [
      ['2028-02-28T23:50:00Z', '2028-02-29T00:00:00Z'],
      ['2028-02-29T23:50:00Z', '2028-03-01T00:00:00Z'],
    ] as const) {
      clock.set(evening);
      expect(gist(await complete(gateway, short, { key }))).toEqual([200, undefined, '0']);
      expect((await readKey(id)).usage_today).toBeGreaterThan(0);
      const refused = await complete(gateway, short, { key });
      expect(gist(refused)).toEqual([429, 'rate_limit', '0']);
      expect(readWait(refused)).toBeGreaterThan(540);
      expect(readWait(refused)).toBeLessThanOrEqual(600);
      clock.set(midnight);
      expect((await readKey(id)).usage_today).toBe(0);
    }
    expect(gist(await complete(gateway, short, { key }))).toEqual([200, undefined, '0']);
  });

  test('a key works until it expires; then the rest of its balance moves back to the account', async () => {
    clock.set('2028-04-01T10:00:00Z');
    const before = await readBalance(gateway);
    const body = { balance: 2, expires_at: '2028-04-01T11:00:00Z' };
    const { data: made } = (await call<{ data: KeyJson }>(gateway, 'POST', '/keys', { body })).body;
    expect([made.balance, made.expires_at]).toEqual([2, '2028-04-01T11:00:00.000Z']);
    const paid = await complete(gateway, short, { key: made.key });
    expect(paid.status).toBe(200);
    clock.set('2028-04-01T11:00:00Z');
    const spent = (await readKey(BigInt(made.api_key_id))).usage_today;
    expect(spent).toBeGreaterThan(0);
    expect(await readBalance(gateway)).toBe(before - BigInt(Math.round(spent * 1e9)));
    const refused = await complete(gateway, short, { key: made.key });
    expect(refused.status).toBe(401);
    expect(refused.body.error).toMatchObject({
      code: 'invalid_api_key',
      message: 'The API key expired at 2028-04-01T11:00:00.000Z.',
    });
    const patch = { body: { expires_at: null, balance: 1 } };
    await call(gateway, 'PATCH', `/keys/${made.api_key_id}`, patch);
    expect(gist(await complete(gateway, short, { key: made.key }))[0]).toBe(200);
  });

  test('a rolling minute ends 60 s after the admission, and a step back of the clock does not start another minute', async () => {
    const { key, id } = await makeKey(gateway, { minuteLimit: 1n });
    clock.set('2028-03-05T12:00:00Z');
    expect(gist(await complete(gateway, short, { key }))).toEqual([200, undefined, '0']);
    clock.set('2028-03-05T12:00:45Z');
    const refused = await complete(gateway, short, { key });
    expect(gist(refused)).toEqual([429, 'rate_limit', '0']);
    expect([readWait(refused) >= 1, readWait(refused) <= 61]).toEqual([true, true]);
    clock.set('2028-03-05T12:01:30Z');
    expect(gist(await complete(gateway, short, { key }))).toEqual([200, undefined, '0']);
    for (const back of ['2028-03-05T12:01:00Z', '2028-03-05T11:00:00Z', '2028-02-29T12:00:00Z']) {
      clock.set(back);
      const early = await complete(gateway, short, { key });
      expect(gist(early)).toEqual([429, 'rate_limit', '0']);
      expect(readWait(early)).toBeLessThanOrEqual(61);
    }
    expect((await readKey(id)).usage_minute).toBeGreaterThan(0);
    clock.set('2028-03-05T12:03:00Z');
    expect(gist(await complete(gateway, short, { key }))).toEqual([200, undefined, '0']);
  });

  test('a monthly limit counts the costs of that month, the leap day included', async () => {
    const { key, id } = await makeKey(gateway);
    await gateway.admin.setMonthlyLimit({ apiKeyId: id, limitNanoUsd: 2_000_000n });
    clock.set('2028-02-29T12:00:00Z');
    const bound = await complete(gateway, ask('Tolls\n!sim tokens=2000'), { key });
    expect([bound.status, bound.finish]).toEqual([200, 'length']);
    const refused = await complete(gateway, short, { key });
    expect(gist(refused)).toEqual([429, 'spending_limit', null]);
    expect(Math.abs(readWait(refused) - 12 * 3_600)).toBeLessThan(60);
    clock.set('2028-02-29T23:55:00Z');
    expect(gist(await complete(gateway, short, { key }))).toEqual([429, 'spending_limit', null]);
    clock.set('2028-03-01T00:00:00Z');
    expect(gist(await complete(gateway, short, { key }))).toEqual([200, undefined, null]);
    // What was spent on 29 February still counts when the clock returns to that month.
    clock.set('2028-02-29T12:30:00Z');
    expect(gist(await complete(gateway, short, { key }))).toEqual([429, 'spending_limit', null]);
  });

  test('a plan that began on the 31st is renewed on the leap day at the same time of day, once, whatever the clock does then', async () => {
    clock.set('2028-01-31T10:00:30Z');
    const before = await readBalance(gateway);
    const paid = async (): Promise<bigint> => (before - (await readBalance(gateway))) / dollar;
    const show = async () => {
      const { subscription } = await gateway.admin.getSubscription({ accountId: 1n });
      if (subscription === undefined) throw new Error('no plan in the answer');
      const { periodEndMs, tokens, tokensUsed, tokensHeld, freeLeftToday } = subscription;
      const minute = new Date(Number(periodEndMs)).toISOString().slice(0, 15);
      return { minute, tokensLeft: tokens - tokensUsed - tokensHeld, freeLeftToday };
    };
    const plan = { accountId: 1n, plan: Plan.CORE, period: PlanPeriod.MONTHLY };
    await gateway.admin.startSubscription(plan);
    expect(await show()).toEqual({ minute: '2028-02-29T10:0', tokensLeft: 3_000n, freeLeftToday: 1 });
    expect(await paid()).toBe(2n);
    // The free request of the day pays for the first one, the plan's tokens for the next.
    for (let count = 0; count < 2; count += 1) await complete(gateway, ask('Tolls\n!sim tokens=100'));
    const { tokensLeft, freeLeftToday } = await show();
    expect([freeLeftToday, tokensLeft < 2_900n]).toEqual([0, true]);
    clock.set('2028-02-29T09:55:00Z');
    expect(await show()).toEqual({ minute: '2028-02-29T10:0', tokensLeft, freeLeftToday: 1 });
    expect(await paid()).toBe(2n);
    clock.set('2028-02-29T10:05:00Z');
    expect(await show()).toEqual({ minute: '2028-03-31T10:0', tokensLeft: 3_000n, freeLeftToday: 1 });
    expect(await paid()).toBe(4n);
    // If the clock steps back into the first period, the current period continues, and nothing is paid again.
    for (const time of ['2028-02-10T12:00:00Z', '2028-02-29T10:10:00Z']) {
      clock.set(time);
      expect(await show()).toMatchObject({ minute: '2028-03-31T10:0', tokensLeft: 3_000n });
      expect(await paid()).toBe(4n);
    }
    await gateway.admin.cancelSubscription({ accountId: 1n });
    clock.set('2028-03-31T10:05:00Z');
    await expect(show()).rejects.toThrow(/not_found/);
    expect(await paid()).toBe(4n);
  });

  test('records have the wall-clock time of their admission and are found by it, in whatever order they were made', async () => {
    const { key, id } = await makeKey(gateway);
    const days = ['2028-04-03', '2028-04-01', '2028-04-02'];
    const made = new Map<string, string>();
    for (const day of days) {
      clock.set(`${day}T15:00:00Z`);
      made.set(day, (await complete(gateway, short, { key })).headers.get('x-request-id') ?? '');
    }
    const list = async (query: string) => {
      const { body } = await call<{ data: RecordJson[] }>(gateway, 'GET', `/activity?api_key_id=${id}&${query}`);
      return body.data.map(record => [record.request_id, record.created_at.slice(0, 13)]);
    };
    const record = (day: string): unknown[] => [made.get(day), `${day}T15`];
    expect(await list('')).toEqual([record('2028-04-03'), record('2028-04-02'), record('2028-04-01')]);
    expect(await list('start=2028-04-02T00:00:00Z&end=2028-04-03T00:00:00Z')).toEqual([record('2028-04-02')]);
    // Ids grow even if the clock steps back; their first digits encode a time.
    const digits = [...made.values()].map(requestId => requestId.slice('req_'.length, 'req_'.length + 10));
    expect(digits).toEqual(digits.toSorted());
  });

  test('an answer continues while the clock jumps, and its latency is the time that really passed', async () => {
    clock.set('2028-05-10T12:00:00Z');
    const running = stream(gateway, ask('Tolls\n!sim tokens=60 tps=60', { stream: true }));
    for (const jump of ['2028-05-11T12:00:00Z', '2028-05-01T12:00:00Z', '2028-05-10T12:00:00Z']) {
      await sleep(150);
      clock.set(jump);
    }
    const { done, headers, usage } = await running;
    expect([done, usage?.completion_tokens]).toEqual([true, 60]);
    const record = await readRecord(gateway, headers.get('x-request-id') ?? '');
    expect(Number(record.latencyMs)).toBeGreaterThan(300);
    expect(Number(record.latencyMs)).toBeLessThan(60_000);
  });

  test('a clock that has jumped more than a day ahead of the start refuses requests with 503, which is logged, until it is set back', async () => {
    clock.set('2028-05-14T00:00:00Z');
    const refused = await complete(gateway, short);
    expect([refused.status, refused.body.error.code]).toEqual([503, 'overloaded']);
    expect(refused.body.error.message).toContain('The gateway’s clock is wrong');
    await expect.poll(() => gateway.printed()).toContain('no request id can be made: set the clock right and restart');
    clock.set('2028-05-10T12:00:00Z');
    expect((await complete(gateway, short)).status).toBe(200);
  });
});
