/** Two accounts, on every account route with the ids of both: neither can see or change anything of the other. Each scope opens its routes and no others (docs/security.md "Credentials"). */
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import {
  type AnalyticsJson,
  call,
  type GroupJson,
  type KeyJson,
  type LimitJson,
  newAccount,
  newKey,
  newManagementKey,
  type RecordJson,
} from './account-client.ts';
import { ask, complete } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));

const scopes = [
  'keys:create',
  'keys:read',
  'keys:update',
  'keys:delete',
  'account:read',
  'account:activity',
  'account:balance',
  'account:bodies',
  'limits:read',
  'limits:write',
  'groups:read',
  'groups:write',
  'audit:read',
  'webhooks:read',
  'webhooks:write',
] as const;

/** Makes an account with a key that has spent something, a group, a limit and a webhook. */
async function makeAccount(name: string) {
  const { accountId, managementKey } = await newAccount(gateway, 5);
  const apiKey = await newKey(gateway, { label: name, balance: 1 }, managementKey);
  const answer = await complete(gateway, ask(`${name}\n!sim tokens=5`), { key: apiKey.key });
  const post = <T>(path: string, body: object) =>
    call<{ data: T }>(gateway, 'POST', path, { key: managementKey, body });
  const group = (await post<GroupJson>('/groups', { name, tags: { of: name } })).body.data;
  const scope = { type: 'group', id: group.group_id };
  const limit = (await post<LimitJson>('/limits', { scope, unit: 'requests', window: 'day', max: 7 })).body.data;
  const hook = { url: 'https://hooks.example/', events: ['limit.threshold'], disabled: true };
  const webhook = (await post<{ webhook_id: number }>('/webhooks', hook)).body.data;
  return {
    accountId,
    managementKey,
    apiKey,
    group,
    limit,
    webhook,
    requestId: answer.headers.get('x-request-id') ?? '',
  };
}
type OwnedAccount = Awaited<ReturnType<typeof makeAccount>>;

const [mine, other] = [await makeAccount('mine'), await makeAccount('other')];

/** Returns every account route with the ids of an account, and the scope that it needs. */
const listRoutes = ({ apiKey, requestId, group, limit, webhook }: OwnedAccount) =>
  [
    ['GET', '/keys', 'keys:read'],
    ['POST', '/keys', 'keys:create'],
    ['GET', `/keys/${apiKey.api_key_id}`, 'keys:read'],
    ['PATCH', `/keys/${apiKey.api_key_id}`, 'keys:update'],
    ['DELETE', `/keys/${apiKey.api_key_id}`, 'keys:delete'],
    ['GET', `/keys/${apiKey.api_key_id}/next?model=sim/large`, 'limits:read'],
    ['GET', '/balance', 'account:balance'],
    ['GET', '/activity', 'account:activity'],
    ['GET', `/activity?api_key_id=${apiKey.api_key_id}`, 'account:activity'],
    ['GET', `/activity/${requestId}`, 'account:activity'],
    ['GET', `/activity/${requestId}/bodies`, 'account:bodies'],
    ['GET', '/analytics', 'account:read'],
    ['GET', '/entries', 'account:read'],
    ['GET', '/audit', 'audit:read'],
    ['GET', '/analytics?group_by=api_key', 'account:read'],
    ['POST', `/keys/${apiKey.api_key_id}/rotate`, 'keys:update'],
    ['GET', '/limits', 'limits:read'],
    ['POST', '/limits', 'limits:write'],
    ['GET', `/limits/${limit.limit_id}`, 'limits:read'],
    ['PATCH', `/limits/${limit.limit_id}`, 'limits:write'],
    ['DELETE', `/limits/${limit.limit_id}`, 'limits:write'],
    ['GET', '/groups', 'groups:read'],
    ['POST', '/groups', 'groups:write'],
    ['GET', `/groups/${group.group_id}`, 'groups:read'],
    ['PATCH', `/groups/${group.group_id}`, 'groups:write'],
    ['DELETE', `/groups/${group.group_id}`, 'groups:write'],
    ['GET', '/webhooks', 'webhooks:read'],
    ['POST', '/webhooks', 'webhooks:write'],
    ['GET', `/webhooks/${webhook.webhook_id}`, 'webhooks:read'],
    ['PATCH', `/webhooks/${webhook.webhook_id}`, 'webhooks:write'],
    ['DELETE', `/webhooks/${webhook.webhook_id}`, 'webhooks:write'],
    ['GET', `/webhooks/${webhook.webhook_id}/events`, 'webhooks:read'],
    ['POST', `/webhooks/${webhook.webhook_id}/events/1/replay`, 'webhooks:write'],
    ['GET', '/settings', 'account:read'],
    ['PATCH', '/settings', 'webhooks:write'],
  ] as const;

const makeBody = (method: string, path = '/keys') => {
  if (method !== 'POST' && method !== 'PATCH') return {};
  if (path.startsWith('/limits')) return { body: { max: 1 } };
  if (path.endsWith('/rotate')) return { body: {} };
  return { body: path.startsWith('/groups') ? { name: 'changed' } : { label: 'changed' } };
};

test('an id of another account gets the same 404 as an id that does not exist', async () => {
  const absent = { api_key_id: 4_000_000, request_id: `${mine.requestId.slice(0, 14)}${'0'.repeat(11)}` };
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    const options = { key: mine.managementKey, ...makeBody(method) };
    const foreign = await call(gateway, method, `/keys/${other.apiKey.api_key_id}`, options);
    const none = await call(gateway, method, `/keys/${absent.api_key_id}`, options);
    const shown = ({ status, text }: typeof foreign) => [status, text.replaceAll(/req_\w+|API key \d+/g, '')];
    expect(shown(foreign)).toEqual(shown(none));
    expect(foreign.status).toBe(404);
  }
  const key = mine.managementKey;
  const foreignGroup = other.group.group_id;
  for (const [method, path, body] of [
    ['GET', `/groups/${foreignGroup}`],
    ['PATCH', `/groups/${foreignGroup}`, { name: 'changed' }],
    ['DELETE', `/groups/${foreignGroup}`],
    ['POST', '/groups', { name: 'in another’s', parent_group_id: foreignGroup }],
    ['PATCH', `/groups/${mine.group.group_id}`, { parent_group_id: foreignGroup }],
    ['POST', '/keys', { group_id: foreignGroup }],
    ['PATCH', `/keys/${mine.apiKey.api_key_id}`, { group_id: foreignGroup }],
    ['POST', `/keys/${other.apiKey.api_key_id}/rotate`, {}],
    ['GET', `/limits/${other.limit.limit_id}`],
    ['PATCH', `/limits/${other.limit.limit_id}`, { max: 1000 }],
    ['DELETE', `/limits/${other.limit.limit_id}`],
    ['GET', `/webhooks/${other.webhook.webhook_id}`],
    ['PATCH', `/webhooks/${other.webhook.webhook_id}`, { disabled: false }],
    ['DELETE', `/webhooks/${other.webhook.webhook_id}`],
    ['GET', `/webhooks/${other.webhook.webhook_id}/events`],
    ...(['account', 'group', 'key'] as const).map(type => {
      const id = { account: Number(other.accountId), group: foreignGroup, key: other.apiKey.api_key_id }[type];
      return ['POST', '/limits', { scope: { type, id }, unit: 'requests', window: 'day', max: 0 }] as const;
    }),
  ] as const) {
    const options = body === undefined ? { key } : { key, body };
    expect([method, path, (await call(gateway, method, path, options)).status]).toEqual([method, path, 404]);
  }
  for (const id of [other.requestId, absent.request_id]) {
    expect((await call(gateway, 'GET', `/activity/${id}`, { key: mine.managementKey })).status).toBe(404);
  }
});

test('lists, filters and sums show only the account’s own data', async () => {
  for (const [own, foreign] of [
    [mine, other],
    [other, mine],
  ] as const) {
    const key = own.managementKey;
    const read = async <T>(path: string) => (await call<T>(gateway, 'GET', path, { key })).body;
    const keys = await read<{ data: KeyJson[] }>('/keys');
    expect(keys.data.map(({ api_key_id }) => api_key_id)).toEqual([own.apiKey.api_key_id]);
    const records = await read<{ data: RecordJson[] }>('/activity');
    expect(records.data.map(({ request_id }) => request_id)).toEqual([own.requestId]);
    expect((await read<{ data: RecordJson[] }>(`/activity?api_key_id=${foreign.apiKey.api_key_id}`)).data).toEqual([]);
    const { series, metrics } = await read<AnalyticsJson>('/analytics?group_by=api_key');
    expect([metrics.requests, series.map(({ group }) => group)]).toEqual([1, [own.apiKey.api_key_id]]);
    expect(await read('/balance')).toEqual({ balance: 4 });
    const groups = await read<{ data: GroupJson[] }>('/groups');
    expect(groups.data.map(({ group_id }) => group_id)).toEqual([own.group.group_id]);
    const limits = await read<{ data: LimitJson[] }>('/limits');
    expect(limits.data.filter(({ scope }) => scope.type !== 'account')).toEqual([own.limit]);
    for (const path of [`/keys?group_id=${foreign.group.group_id}`, `/activity?group_id=${foreign.group.group_id}`]) {
      expect((await read<{ data: unknown[] }>(path)).data).toEqual([]);
    }
    const foreignLimits = `/limits?scope=group&id=${foreign.group.group_id}`;
    expect((await read<{ data: unknown[] }>(foreignLimits)).data).toEqual([]);
  }
});

describe.each(scopes)('the scope %s', tested => {
  test('a management key without it gets 403 on the routes that need it, even if the request is also invalid, and on no others', async () => {
    const others = scopes.filter(scope => scope !== tested);
    const key = await newManagementKey(gateway, mine.accountId, others);
    for (const [method, path, scope] of listRoutes(other)) {
      const reply = await call(gateway, method, path, { key, ...makeBody(method, path) });
      expect([method, path, reply.status === 403]).toEqual([method, path, scope === tested]);
      if (scope !== tested) continue;
      expect(reply.body.error).toMatchObject({ code: 'permission_denied' });
      expect((await call(gateway, method, path, { key, ...(method === 'GET' ? {} : { body: '{' }) })).status).toBe(403);
    }
  });

  test('a management key with no other scope can use all routes that need it, and no others', async () => {
    const key = await newManagementKey(gateway, mine.accountId, [tested]);
    for (const [method, path, scope] of listRoutes(other)) {
      const reply = await call(gateway, method, path, { key, ...makeBody(method, path) });
      expect([method, path, reply.status !== 403]).toEqual([method, path, scope === tested]);
    }
  });
});

test('with an API key, `/v1/key` shows only that key: its records and sums, and nothing of other keys or accounts', async () => {
  const second = await newKey(gateway, { label: 'second' }, mine.managementKey);
  const read = async <T>(path: string, key: string) => call<T>(gateway, 'GET', `/v1/key${path}`, { key });
  expect((await read<{ data: object }>('', mine.apiKey.key)).body.data).toMatchObject({
    api_key_id: mine.apiKey.api_key_id,
    label: 'mine',
  });
  const records = await read<{ data: RecordJson[] }>('/activity', mine.apiKey.key);
  expect(records.body.data.map(({ request_id }) => request_id)).toEqual([mine.requestId]);
  expect((await read<{ data: RecordJson[] }>('/activity', second.key)).body.data).toEqual([]);
  expect((await read<AnalyticsJson>('/analytics?group_by=model', second.key)).body.metrics.requests).toBe(0);
  for (const key of [second.key, other.apiKey.key]) {
    expect((await read(`/activity/${mine.requestId}`, key)).status).toBe(404);
  }
  for (const path of ['', '/activity', '/analytics', `/activity/${mine.requestId}`]) {
    expect((await read(path, mine.managementKey)).status).toBe(403);
  }
  await call(gateway, 'DELETE', `/keys/${second.api_key_id}`, { key: mine.managementKey });
});

test('account endpoints refuse API keys and a disabled management key with 403, and no, an unknown or a revoked key with 401', async () => {
  const revoked = await newManagementKey(gateway, mine.accountId, ['all']);
  const disabled = await newManagementKey(gateway, mine.accountId, ['all']);
  const { data } = (await gateway.cli(['management-keys', 'list', '--account', String(mine.accountId), '--json']))
    .json as { data: readonly { management_key_id: number; key: string }[] };
  const findId = (key: string): string =>
    String(data.find(each => each.key.endsWith(key.slice(-4)))?.management_key_id ?? '');
  await gateway.cli(['management-keys', 'revoke', findId(revoked)]);
  await gateway.cli(['management-keys', 'disable', findId(disabled)]);
  const expected = [
    [mine.apiKey.key, 403, 'permission_denied'],
    [null, 401, 'invalid_api_key'],
    [`mk-tg-${'0'.repeat(43)}`, 401, 'invalid_api_key'],
    [revoked, 401, 'invalid_api_key'],
    [disabled, 403, 'key_disabled'],
  ] as const;
  for (const [key, status, code] of expected) {
    for (const [method, path] of listRoutes(mine)) {
      const reply = await call(gateway, method, path, { key, ...makeBody(method, path) });
      expect([path, reply.status, reply.body.error.code]).toEqual([path, status, code]);
    }
  }
});

test('a scope that is removed from a management key no longer opens its routes, from the next request on', async () => {
  const key = await newManagementKey(gateway, mine.accountId, ['account:balance']);
  expect((await call(gateway, 'GET', '/balance', { key })).status).toBe(200);
  const { data } = (await gateway.cli(['management-keys', 'list', '--account', String(mine.accountId), '--json']))
    .json as { data: readonly { management_key_id: number }[] };
  await gateway.cli(['management-keys', 'set-scopes', String(data.at(-1)?.management_key_id), 'keys:read']);
  expect((await call(gateway, 'GET', '/balance', { key })).status).toBe(403);
  expect((await call(gateway, 'GET', '/keys', { key })).status).toBe(200);
});

test('at the end the other account is unchanged', async () => {
  const { data } = (
    await call<{ data: KeyJson }>(gateway, 'GET', `/keys/${other.apiKey.api_key_id}`, { key: other.managementKey })
  ).body;
  expect(data).toMatchObject({ label: 'other', disabled: false });
  expect((await call(gateway, 'GET', '/balance', { key: other.managementKey })).body).toEqual({ balance: 4 });
  const key = other.managementKey;
  expect((await call(gateway, 'GET', `/groups/${other.group.group_id}`, { key })).body).toEqual({ data: other.group });
  expect((await call(gateway, 'GET', `/limits/${other.limit.limit_id}`, { key })).body).toEqual({ data: other.limit });
});
