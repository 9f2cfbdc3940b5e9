/** Limits, groups, tags, and what the holder of a key sees, over REST (docs/interfaces/account.md). */
import { afterAll, expect, test } from 'vitest';
import { endGateway, makeKey, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import {
  type AnalyticsJson,
  call,
  type GroupJson,
  type KeyJson,
  type LimitJson,
  newKey,
  type RecordJson,
} from './account-client.ts';
import { ask, complete, post } from './chat-client.ts';

const gateway = await startShared({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '100' });
afterAll(() => endGateway(gateway));

const hello = ask('Hello\n!sim tokens=3');

async function made(body: object): Promise<LimitJson> {
  const reply = await call<{ data: LimitJson }>(gateway, 'POST', '/limits', { body });
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)]);
  return reply.body.data;
}

const read = async (limitId: number): Promise<LimitJson> =>
  (await call<{ data: LimitJson }>(gateway, 'GET', `/limits/${limitId}`)).body.data;
const newGroup = async (body: object): Promise<GroupJson> =>
  (await call<{ data: GroupJson }>(gateway, 'POST', '/groups', { body })).body.data;

test('a limit is created, read, changed and deleted; the list also has the windows of free models', async () => {
  const { api_key_id: id } = await newKey(gateway);
  const scope = { type: 'key', id };
  const limit = await made({ scope, unit: 'usd', window: 'day', max: 0.25, time_zone: 'Europe/Berlin' });
  expect(limit).toMatchObject({
    scope,
    unit: 'usd',
    window: 'day',
    time_zone: 'Europe/Berlin',
    max: 0.25,
    models: null,
    end_users: 'all',
    action: 'refuse',
    locked: false,
    raised: null,
    used: 0,
    held: 0,
    remaining: 0.25,
  });
  const until = '2999-01-01T00:00:00.000Z';
  const changed = await call<{ data: LimitJson }>(gateway, 'PATCH', `/limits/${limit.limit_id}`, {
    body: { max: 0.5, raised: { max: 2, until }, models: ['sim/*'] },
  });
  expect(changed.body.data).toMatchObject({ max: 0.5, raised: { max: 2, until }, models: ['sim/*'], remaining: 2 });
  const { body } = await call<{ data: LimitJson[] }>(gateway, 'GET', '/limits?scope=account');
  expect(body.data.map(({ unit, window, max, models, locked }) => [unit, window, max, models, locked])).toEqual([
    ['requests', 'minute', 20, ['*:free'], true],
    ['requests', 'day', 200, ['*:free'], true],
  ]);
  for (const [method, locked] of [
    ['PATCH', body.data[0]],
    ['DELETE', body.data[1]],
  ] as const) {
    const options = method === 'PATCH' ? { body: { max: 1000 } } : {};
    expect((await call(gateway, method, `/limits/${locked?.limit_id ?? 0}`, options)).status).toBe(403);
    const { code, stderr } = await gateway.cli(['limits', 'update', String(locked?.limit_id), '--max', '1000']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('can’t be changed')]);
  }
  const gone = await call(gateway, 'DELETE', `/limits/${limit.limit_id}`);
  expect([gone.status, gone.body]).toEqual([200, { message: 'Limit successfully deleted.' }]);
  expect((await call(gateway, 'GET', `/limits/${limit.limit_id}`)).status).toBe(404);
});

test.each([
  [{ scope: { type: 'account' }, unit: 'usd', max: 1 }, 'window'],
  [{ scope: { type: 'account' }, unit: 'concurrent', window: 'day', max: 1 }, 'window'],
  [{ scope: { type: 'account' }, unit: 'parsecs', window: 'day', max: 1 }, 'unit'],
  [{ scope: { type: 'account' }, unit: 'usd', window: 'day' }, 'max'],
  [{ scope: { type: 'account' }, unit: 'requests', window: 'day', max: 1.5 }, 'max'],
  [{ scope: { type: 'account' }, unit: 'requests', window: 'day', max: -1 }, 'max'],
  [{ scope: { type: 'account' }, unit: 'usd', window: 'day', max: 1, time_zone: 'Mars/Olympus' }, 'time_zone'],
  [{ scope: { type: 'account' }, unit: 'usd', window: 'day', max: 1, time_zone: '+02:00' }, 'time_zone'],
  [{ scope: { type: 'key' }, unit: 'usd', window: 'day', max: 1 }, 'scope.id'],
  [{ scope: { type: 'account' }, unit: 'usd', window: 'day', max: 1, models: ['no/such'] }, 'models.0'],
  [{ scope: { type: 'account' }, unit: 'usd', window: 'day', max: 1, models: ['sim/*', '*a'.repeat(17)] }, 'models.1'],
  [{ scope: { type: 'account' }, unit: 'usd', window: 'day', max: 1, colour: 'red' }, 'colour'],
])('a bad limit is refused with 422, and the error names its field: %j', async (body, field) => {
  const reply = await call(gateway, 'POST', '/limits', { body });
  expect([reply.status, reply.body.detail.map(({ loc }) => loc.slice(1).join('.'))]).toEqual([422, [field]]);
});

test('a pattern of many asterisks counts as it says, and holds nobody up', async () => {
  const body = {
    scope: { type: 'account' },
    unit: 'requests',
    window: 'day',
    max: 0,
    models: [`${'*'.repeat(30)}X`],
  };
  const { limit_id: id } = await made(body);
  expect((await complete(gateway, hello)).status).toBe(200);
  await call(gateway, 'DELETE', `/limits/${id}`);
});

test('a refusal names the limit and when to retry', async () => {
  const { key, id } = await makeKey(gateway);
  const limit = await made({ scope: { type: 'key', id: Number(id) }, unit: 'requests', window: 'hour', max: 1 });
  expect((await complete(gateway, hello, { key })).status).toBe(200);
  const { status, body, headers } = await complete(gateway, hello, { key });
  expect([status, body.error.code]).toEqual([429, 'rate_limit']);
  expect((body.error as unknown as { limit: object }).limit).toEqual({
    limit_id: limit.limit_id,
    scope: { type: 'key', id: Number(id) },
    unit: 'requests',
    window: 'hour',
    used: 1,
    max: 1,
    resets_at: limit.resets_at,
  });
  expect(body.error.message).toContain(`limit ${limit.limit_id} of key ${id}`);
  expect(headers.get('x-should-retry')).toBe('false');
  expect(headers.get('x-ratelimit-remaining-requests')).toBe('0');
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
});

test('a limit of unit `usd` has amounts in dollars, a total never resets, and Messages has its own error envelope', async () => {
  const { key, id } = await makeKey(gateway);
  const scope = { type: 'key', id: Number(id) };
  const limit = await made({ scope, unit: 'usd', window: 'total', max: 0.000001 });
  const { status, text, headers } = await call(gateway, 'POST', '/v1/messages', {
    key,
    body: { model: 'sim/large', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
  });
  const body = JSON.parse(text) as { type: string; error: { type: string; code: string; limit: object } };
  expect([status, body.type, body.error.type, body.error.code]).toEqual([
    429,
    'error',
    'rate_limit_error',
    'spending_limit',
  ]);
  const { limit_id } = limit;
  const amounts = { used: 0, max: 0.000001, resets_at: null };
  expect(body.error.limit).toEqual({ limit_id, scope, unit: 'usd', window: 'total', ...amounts });
  expect([headers.get('retry-after'), headers.get('x-should-retry')]).toEqual([null, 'false']);
});

test('with a limit for each end user, one who has used it up stops neither the others nor requests without an end user', async () => {
  const { key, id } = await makeKey(gateway);
  const scope = { type: 'key', id: Number(id) };
  const limit = await made({ scope, unit: 'requests', window: 'day', max: 1, end_users: 'each' });
  const send = async (headers: Record<string, string>): Promise<number> =>
    (await complete(gateway, hello, { key, headers })).status;
  expect([await send({}), await send({})]).toEqual([200, 429]);
  const ann = { 'x-tollgate-end-user': 'ann' };
  expect([await send(ann), await send(ann)]).toEqual([200, 429]);
  const message = { model: 'sim/large', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] };
  const ask = (user_id: string) =>
    call(gateway, 'POST', '/v1/messages', { key, body: { ...message, metadata: { user_id } } });
  expect([(await ask('ben')).status, (await ask('ann')).status]).toEqual([200, 429]);
  expect(await read(limit.limit_id)).toMatchObject({ used: 1, remaining: 0 });
});

test('an answer that reaches a token limit ends with finish reason length, and the limit is never exceeded', async () => {
  const { key, id } = await makeKey(gateway);
  const limit = await made({ scope: { type: 'key', id: Number(id) }, unit: 'tokens', window: 'total', max: 400 });
  const long = ask('Hello\n!sim tokens=2000');
  const { status, body, headers } = await complete(gateway, long, { key });
  expect([status, body.choices[0]?.finish_reason]).toEqual([200, 'length']);
  expect(headers.get('x-ratelimit-limit-tokens')).toBe('400');
  expect(body.usage.total_tokens).toBeLessThanOrEqual(400);
  const { used, held } = await read(limit.limit_id);
  expect([used, held]).toEqual([body.usage.total_tokens, 0]);
  const refused = await complete(gateway, ask(`${'word '.repeat(400)}\n!sim tokens=3`), { key });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limit']);
});

test('no more requests run at once than the limit allows, and each one that ends makes room for another', async () => {
  const { key, id } = await makeKey(gateway);
  const limit = await made({ scope: { type: 'key', id: Number(id) }, unit: 'concurrent', max: 3 });
  const slow = ask('Hello\n!sim tokens=3 delay_ms=1500');
  const replies = await Promise.all(Array.from({ length: 30 }, () => complete(gateway, slow, { key })));
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(3);
  const refused = replies.find(({ status }) => status === 429);
  expect([refused?.headers.get('retry-after'), refused?.headers.get('x-should-retry')]).toEqual(['1', 'true']);
  expect(await read(limit.limit_id)).toMatchObject({ used: 0, remaining: 3, resets_at: null });
  expect((await complete(gateway, hello, { key })).status).toBe(200);
});

test('all keys of a group share its limit and money, and the record has who paid', async () => {
  const top = await newGroup({ name: 'top', balance: 0.001, tags: { team: 'top', env: 'test' } });
  const group = await newGroup({ name: 'inner', parent_group_id: top.group_id, tags: { team: 'inner' } });
  const keys = [
    await newKey(gateway, { group_id: group.group_id, tags: { job: 'x' } }),
    await newKey(gateway, { group_id: top.group_id }),
  ];
  const limit = await made({ scope: { type: 'group', id: top.group_id }, unit: 'requests', window: 'day', max: 2 });
  const first = await complete(gateway, hello, { key: keys[0]?.key ?? '' });
  expect(first.status).toBe(200);
  expect((await complete(gateway, hello, { key: keys[1]?.key ?? '' })).status).toBe(200);
  expect((await complete(gateway, hello, { key: keys[0]?.key ?? '' })).body.error.code).toBe('rate_limit');
  expect(await read(limit.limit_id)).toMatchObject({ used: 2 });
  const id = first.headers.get('x-request-id') ?? '';
  const record = (await call<{ buckets: { paid_by: string }[]; tags: object }>(gateway, 'GET', `/activity/${id}`)).body;
  expect(new Set(record.buckets.map(({ paid_by }) => paid_by))).toEqual(new Set(['group_balance']));
  expect(record.tags).toEqual({ team: 'inner', env: 'test', job: 'x' });
  expect((await call(gateway, 'DELETE', `/groups/${top.group_id}`)).status).toBe(409);
  const listed = await call<{ data: KeyJson[] }>(gateway, 'GET', `/keys?group_id=${group.group_id}`);
  expect(listed.body.data.map(({ api_key_id }) => api_key_id)).toEqual([keys[0]?.api_key_id]);
});

test('tags and end users are in records, filters and sums', async () => {
  const key = await newKey(gateway, { tags: { env: 'dev', team: 'of the key' } });
  const send = (headers: Record<string, string>, more: object = {}) =>
    complete(gateway, { ...hello, ...more }, { key: key.key, headers });
  const one = await send({ 'x-tollgate-tags': 'team=search, env=prod', 'x-tollgate-end-user': 'ann' }, { user: 'ben' });
  await send({ 'x-tollgate-tags': 'team=search' }, { user: 'ben' });
  await send({}, { safety_identifier: 'c'.repeat(200), user: 'ben' });
  const filter = `api_key_id=${key.api_key_id}`;
  const list = async (query: string): Promise<RecordJson[]> =>
    (await call<{ data: RecordJson[] }>(gateway, 'GET', `/activity?${filter}&${query}`)).body.data;
  expect((await list('')).map(({ end_user, tags }) => [end_user, tags])).toEqual([
    [expect.stringMatching(/^sha256:[0-9a-f]{64}$/), { env: 'dev', team: 'of the key' }],
    ['ben', { env: 'dev', team: 'search' }],
    ['ann', { env: 'prod', team: 'search' }],
  ]);
  expect(await list('end_user=ann')).toMatchObject([{ request_id: one.headers.get('x-request-id') }]);
  expect(await list(`end_user=${'c'.repeat(200)}`)).toHaveLength(1);
  expect(await list('tag=team:search')).toHaveLength(2);
  expect(await list('tag=env:dev&end_user=ben')).toHaveLength(1);
  expect(await list('provider=nobody')).toHaveLength(0);
  const sums = async (by: string): Promise<Map<unknown, number>> => {
    const { body } = await call<AnalyticsJson>(gateway, 'GET', `/v1/key/analytics?group_by=${by}`, { key: key.key });
    return new Map(body.series.map(({ group, requests }) => [group, requests]));
  };
  expect(await sums('tag:team')).toEqual(
    new Map([
      ['of the key', 1],
      ['search', 2],
    ]),
  );
  expect((await sums('end_user')).get('ann')).toBe(1);
  expect(await sums('endpoint')).toEqual(new Map([['/v1/chat/completions', 3]]));
  const most = await call<AnalyticsJson>(
    gateway,
    'GET',
    '/v1/key/analytics?group_by=tag:team&groups_max=1&most=requests',
    { key: key.key },
  );
  expect(most.body.series.map(({ group, rest, requests }) => [group, rest, requests])).toEqual([
    ['search', undefined, 2],
    [null, true, 1],
  ]);
  expect(most.body.metrics.requests).toBe(3);
  const { body } = await call<AnalyticsJson>(gateway, 'GET', '/analytics?group_by=tag:team');
  const ofTeam = body.series.find(({ group }) => group === 'search');
  expect(ofTeam?.requests).toBe(2);
  expect(body.series.reduce((sum, { requests }) => sum + requests, 0)).toBe(body.metrics.requests);
  for (const bad of ['Team=x', 'team', `team=${'x'.repeat(65)}`, 'a=1,a=2', 'a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8,i=9']) {
    const reply = await send({ 'x-tollgate-tags': bad });
    expect([bad, reply.status, reply.body.error.param]).toEqual([bad, 400, 'x-tollgate-tags']);
  }
});

test('the holder of a key sees the limits that apply to it, who pays, and the costs', async () => {
  const group = await newGroup({ name: 'seen', balance: 1 });
  const key = await newKey(gateway, { label: 'mine', group_id: group.group_id, minute_limit: 9 });
  await made({ scope: { type: 'group', id: group.group_id }, unit: 'usd', window: 'month', max: 5 });
  await complete(gateway, hello, { key: key.key });
  const { status, body } = await call<{ data: Record<string, unknown> & { limits: LimitJson[] } }>(
    gateway,
    'GET',
    '/v1/key',
    {
      key: key.key,
    },
  );
  expect(status).toBe(200);
  const { limits, spend_today, spend_month, ...rest } = body.data;
  expect(rest).toEqual({
    api_key_id: key.api_key_id,
    key: `${key.key.slice(0, 10)}…${key.key.slice(-4)}`,
    label: 'mine',
    group: 'seen',
    expires_at: null,
    allowed_models: null,
    pays_from: 'group_balance',
  });
  expect(spend_today).toBeGreaterThan(0);
  expect(spend_month).toBe(spend_today);
  const own = limits.filter(({ scope }) => scope.type !== 'account');
  expect(own.map(({ scope, unit, used }) => [scope.type, unit, used])).toEqual([
    ['key', 'requests', 1],
    ['group', 'usd', spend_today],
  ]);
  expect((await call(gateway, 'GET', '/v1/key')).status).toBe(403);
});

test('while a running request holds all of a key’s own balance, nothing pays for its next request, which is refused', async () => {
  // The price of one image.
  const { key, id } = await makeKey(gateway, { balanceNanoUsd: 20_000_000n });
  const readPayer = async (): Promise<unknown> =>
    (await call<{ data: { pays_from: unknown } }>(gateway, 'GET', '/v1/key', { key })).body.data.pays_from;
  expect(await readPayer()).toBe('key_balance');
  const leaving = new AbortController();
  const image = { model: 'sim/image', prompt: 'Hello\n!sim delay_ms=60000' };
  const running = post(gateway, '/v1/images/generations', image, { key, signal: leaving.signal });
  await expect.poll(readPayer).toBe(null);
  const refused = await complete(gateway, hello, { key });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'insufficient_balance']);
  leaving.abort();
  await expect(running).rejects.toThrow();
  // The image was not drawn, so it is free.
  await expect.poll(readPayer).toBe('key_balance');
  expect((await complete(gateway, hello, { key })).status).toBe(200);
  const records = (await call<{ data: RecordJson[] }>(gateway, 'GET', `/activity?api_key_id=${id}`)).body.data;
  expect(records.map(({ model }) => model)).toEqual(['sim/large', 'sim/image']);
});

test('keys are listed in pages and searched, and the old secret of a rotated key works for the overlap', async () => {
  const labels = ['Build Alpha', 'build beta', 'deploy'];
  for (const label of labels) await newKey(gateway, { label, metadata: { for: label } });
  const list = async (query: string): Promise<KeyJson[]> =>
    (await call<{ data: KeyJson[] }>(gateway, 'GET', `/keys?${query}`)).body.data;
  expect((await list('q=BUILD')).map(({ label }) => label)).toEqual(['Build Alpha', 'build beta']);
  expect((await list('q=build&limit=1&offset=1')).map(({ metadata }) => metadata)).toEqual([{ for: 'build beta' }]);
  expect((await call(gateway, 'GET', '/keys?limit=1001')).status).toBe(400);
  const key = await newKey(gateway, { label: 'rotating' });
  const rotate = (body?: object) =>
    call<{ data: KeyJson }>(gateway, 'POST', `/keys/${key.api_key_id}/rotate`, body === undefined ? {} : { body });
  const second = (await rotate({ overlap_seconds: 3600 })).body.data;
  const third = (await rotate()).body.data;
  expect([second.api_key_id, third.label]).toEqual([key.api_key_id, 'rotating']);
  const statuses = await Promise.all(
    [key.key, second.key, third.key].map(async secret => (await complete(gateway, hello, { key: secret })).status),
  );
  expect(statuses).toEqual([200, 401, 200]);
  expect((await rotate({ overlap_seconds: 31 * 86_400 })).status).toBe(422);
  expect(
    (await call(gateway, 'PATCH', `/keys/${key.api_key_id}`, { body: { metadata: { x: 'y'.repeat(5000) } } })).status,
  ).toBe(422);
});

test('the account sees the operator’s limits and can’t change them; the limits of a deleted key are gone', async () => {
  const key = await newKey(gateway, { label: 'limited' });
  const keyId = String(key.api_key_id);
  const create = ['limits', 'create', '--account', '1', '--scope', 'key', '--id', keyId, '--unit', 'tokens'];
  await gateway.cli([...create, '--window', 'week', '--max', '500', '--time-zone', 'Asia/Kathmandu', '--locked']);
  await gateway.cli(['keys', 'monthly-limit', keyId, '12.5']);
  const list = async (): Promise<LimitJson[]> =>
    (await call<{ data: LimitJson[] }>(gateway, 'GET', `/limits?scope=key&id=${keyId}`)).body.data;
  const limits = await list();
  expect(limits.map(({ unit, window, max, time_zone, locked }) => [unit, window, max, time_zone, locked])).toEqual([
    ['tokens', 'week', 500, 'Asia/Kathmandu', true],
    ['usd', 'month', 12.5, 'UTC', true],
  ]);
  for (const { limit_id } of limits) {
    expect((await call(gateway, 'PATCH', `/limits/${limit_id}`, { body: { max: 9 } })).status).toBe(403);
    expect((await call(gateway, 'DELETE', `/limits/${limit_id}`)).status).toBe(403);
  }
  await gateway.cli(['limits', 'update', String(limits[0]?.limit_id), '--max', '600']);
  expect((await list()).map(({ max }) => max)).toEqual([600, 12.5]);
  await call(gateway, 'DELETE', `/keys/${keyId}`);
  expect(await list()).toEqual([]);
  expect((await call(gateway, 'GET', `/limits/${limits[0]?.limit_id ?? 0}`)).status).toBe(404);
});

test('after a kill, interrupted requests no longer count against limits, and completed ones still do', async () => {
  let killed = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
  const scope = { type: 'account' };
  const ids: number[] = [];
  for (const body of [
    { scope, unit: 'concurrent', max: 3 },
    { scope, unit: 'requests', window: 'day', max: 6 },
    { scope, unit: 'tokens', window: 'hour', max: 1_000_000 },
  ]) {
    const { limit_id } = (await call<{ data: LimitJson }>(killed, 'POST', '/limits', { body })).body.data;
    ids.push(limit_id);
  }
  const shown = async () => {
    const limits = (await call<{ data: LimitJson[] }>(killed, 'GET', '/limits')).body.data;
    return ids.map(id => limits.find(({ limit_id }) => limit_id === id)).map(limit => [limit?.used, limit?.held]);
  };
  const first = await complete(killed, hello);
  const slow = ask('Hello\n!sim tokens=3 delay_ms=20000');
  const lost = Array.from({ length: 3 }, () => complete(killed, slow).catch(() => 'lost'));
  await expect.poll(async () => (await shown())[0]).toEqual([3, 0]);
  expect((await complete(killed, hello)).status).toBe(429);
  await killed.kill();
  expect(await Promise.all(lost)).toEqual(['lost', 'lost', 'lost']);
  killed = await startShared({ home: killed.home, config: 'simulator: { tokens_per_second: 0 }\n' });
  // Requests count once they are admitted; the amounts that they held are released.
  expect(await shown()).toEqual([
    [0, 0],
    [4, 0],
    [first.body.usage.total_tokens, 0],
  ]);
  const statuses: number[] = [];
  for (let n = 0; n < 3; n++) statuses.push((await complete(killed, hello)).status);
  expect(statuses).toEqual([200, 200, 429]);
  await endGateway(killed);
});
