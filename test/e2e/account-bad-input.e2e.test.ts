/** What the account endpoints refuse, and how: status, envelope, and the field that is named (docs/interfaces/account.md "Errors"). A refused request changes nothing. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, readDollars, type KeyJson, newKey } from './account-client.ts';

const gateway = await startGateway();
afterAll(() => endGateway(gateway));

let id = 0;
let before: KeyJson;
const keys = async () => (await call<{ data: KeyJson[] }>(gateway, 'GET', '/keys')).body.data;
beforeAll(async () => {
  ({ api_key_id: id } = await newKey(gateway, { label: 'kept', balance: 1, minute_limit: 3 }));
  before = (await call<{ data: KeyJson }>(gateway, 'GET', `/keys/${id}`)).body.data;
});
afterAll(async () => {
  expect(await keys()).toHaveLength(2);
  expect((await call<{ data: KeyJson }>(gateway, 'GET', `/keys/${id}`)).body.data).toEqual(before);
  expect(await readDollars(gateway)).toBe(9);
});

const longLabel = 'l'.repeat(201);
/** Bodies, each with its wrong fields. */
const wrongBodies: readonly (readonly [body: unknown, ...fields: string[]])[] = [
  [[], ''],
  ['null', ''],
  ['"label"', ''],
  ['7', ''],
  ['true', ''],
  [[{ label: 'x' }], ''],
  [{ label: 7 }, 'label'],
  [{ label: null }, 'label'],
  [{ label: ['x'] }, 'label'],
  [{ label: {} }, 'label'],
  [{ label: true }, 'label'],
  [{ label: longLabel }, 'label'],
  [{ daily_limit: -1 }, 'daily_limit'],
  [{ daily_limit: 1.5 }, 'daily_limit'],
  [{ daily_limit: '10' }, 'daily_limit'],
  [{ daily_limit: true }, 'daily_limit'],
  [{ daily_limit: [] }, 'daily_limit'],
  [{ daily_limit: 9_000_000_001 }, 'daily_limit'],
  ['{"daily_limit":1e400}', 'daily_limit'],
  [{ minute_limit: -1 }, 'minute_limit'],
  [{ minute_limit: 0.5 }, 'minute_limit'],
  [{ minute_limit: '60' }, 'minute_limit'],
  [{ minute_limit: {} }, 'minute_limit'],
  [{ minute_limit: 9_000_000_001 }, 'minute_limit'],
  [{ balance: -1 }, 'balance'],
  [{ balance: -1e-9 }, 'balance'],
  [{ balance: '5' }, 'balance'],
  [{ balance: true }, 'balance'],
  [{ balance: {} }, 'balance'],
  [{ balance: 9_000_000_001 }, 'balance'],
  ['{"balance":1e400}', 'balance'],
  ['{"balance":-1e400}', 'balance'],
  [{ allowed_models: 'sim/large' }, 'allowed_models'],
  [{ allowed_models: {} }, 'allowed_models'],
  [{ allowed_models: 7 }, 'allowed_models'],
  [{ allowed_models: [7] }, 'allowed_models.0'],
  [{ allowed_models: ['sim/large', null] }, 'allowed_models.1'],
  [{ allowed_models: [['sim/large']] }, 'allowed_models.0'],
  [{ allowed_models: [''] }, 'allowed_models.0'],
  [{ allowed_models: ['sim/large', 'sim/nothing'] }, 'allowed_models.1'],
  [{ allowed_models: Array.from({ length: 1001 }, () => 'sim/large') }, 'allowed_models'],
  [{ use_subs_first: 'true' }, 'use_subs_first'],
  [{ use_subs_first: 1 }, 'use_subs_first'],
  [{ use_subs_first: null }, 'use_subs_first'],
  [{ fallback_to_payg: 'no' }, 'fallback_to_payg'],
  [{ fallback_to_payg: 0 }, 'fallback_to_payg'],
  [{ fallback_to_payg: null }, 'fallback_to_payg'],
  [{ group_id: 0 }, 'group_id'],
  [{ group_id: -1 }, 'group_id'],
  [{ group_id: 1.5 }, 'group_id'],
  [{ group_id: '1' }, 'group_id'],
  [{ expires_at: 1_900_000_000 }, 'expires_at'],
  [{ expires_at: 'tomorrow' }, 'expires_at'],
  [{ expires_at: '2026-02-30' }, 'expires_at'],
  [{ expires_at: '1969-12-31T23:59:59Z' }, 'expires_at'],
  [{ unknown: 1 }, 'unknown'],
  [{ api_key_id: 7 }, 'api_key_id'],
  [{ key: 'sk-tg-mine' }, 'key'],
  [{ disabled: false }, 'disabled'],
  [{ monthly_limit: 5 }, 'monthly_limit'],
  [{ usage_today: 0 }, 'usage_today'],
  [{ account_id: 1 }, 'account_id'],
  [{ Label: 'x' }, 'Label'],
  ['{"__proto__":{"label":"x"}}', '__proto__'],
  ['{"constructor":1}', 'constructor'],
  [{ label: 7, daily_limit: -1, more: {}, evermore: [] }, 'label', 'daily_limit', 'more', 'evermore'],
];

describe.each([
  ['POST', (): string => '/keys'],
  ['PATCH', (): string => `/keys/${id}`],
] as const)('%s of a key', (method, path) => {
  test.each(wrongBodies)('%j is refused with 422, and the error names its wrong fields', async (body, ...fields) => {
    const reply = await call(gateway, method, path(), { body });
    expect(reply.status).toBe(422);
    expect(Object.keys(reply.body)).toEqual(['detail']);
    expect(reply.body.detail.map(({ loc }) => loc.slice(1).join('.'))).toEqual(fields);
    for (const detail of reply.body.detail) {
      expect(Object.keys(detail)).toEqual(['loc', 'msg', 'type', 'input', 'ctx']);
      expect([detail.loc[0], typeof detail.msg, typeof detail.type, detail.ctx]).toEqual([
        'body',
        'string',
        'string',
        {},
      ]);
      expect(detail.msg).not.toBe('');
    }
    expect(reply.headers.get('x-request-id')).toMatch(/^req_/);
  });

  test.each([
    ['', 'application/json'],
    ['{', 'application/json'],
    ['{"label":}', 'application/json'],
    ['{"label":"x"', 'application/json'],
    ["{'label':'x'}", 'application/json'],
    ['{"label":"x"} x', 'application/json'],
    ['{"balance":01}', 'application/json'],
    ['{"balance":NaN}', 'application/json'],
    ['{"label":"x",}', 'application/json'],
    ['\ufeff{}', 'application/json'],
    ['{"label":"\u0000"}', 'application/json'],
    ['[1,2', 'application/json'],
    [`${'['.repeat(600)}${']'.repeat(600)}`, 'application/json'],
    ['label=x', 'application/x-www-form-urlencoded'],
    ['{"label":"x"}', 'text/plain'],
    ['{"label":"x"}', ''],
    ['{"label":"x"}', 'application/json; charset=utf-16'],
  ])('the body %j as “%s” is refused with 400 and the error envelope', async (body, contentType) => {
    const reply = await call(gateway, method, path(), { body, headers: { 'content-type': contentType } });
    expect([reply.status, reply.body.error?.code]).toEqual([400, 'invalid_request']);
  });

  test('a body of two megabytes is too large', async () => {
    const reply = await call(gateway, method, path(), { body: { label: 'l'.repeat(2_000_000) } });
    expect([reply.status, reply.body.error.code]).toEqual([413, 'body_too_large']);
  });

  test('errors repeat the wrong value, shortened', async () => {
    const wrong = { label: 5, balance: '7', nothing: { a: [1] }, long: 'x'.repeat(5_000), list: Array(500).fill(1) };
    const reply = await call(gateway, method, path(), { body: wrong });
    const inputs = Object.fromEntries(reply.body.detail.map(({ loc, input }) => [loc.at(-1), input]));
    expect(inputs).toEqual({ label: 5, balance: '7', nothing: { a: [1] }, long: 'x'.repeat(200), list: null });
  });
});

const time = '2026-11-21T10:00:00Z';
const wrongQueries: readonly (readonly [path: string, parameter: string])[] = [
  ...['0', '-1', '1001', '1.5', 'ten', '', '1e2', '0x10', ' 5', '99999999999999999999'].map(
    value => [`/activity?limit=${value}`, 'limit'] as const,
  ),
  ...['-1', '1.5', 'x', '', '4294967296', '1e1'].map(value => [`/activity?offset=${value}`, 'offset'] as const),
  ...['0', '-4', 'x', '', '1.0', 'null'].map(value => [`/activity?api_key_id=${value}`, 'api_key_id'] as const),
  ['/activity?limit=5&limit=6', 'limit'],
  ['/activity?model=a&model=b', 'model'],
  ...['/activity', '/analytics'].flatMap(path => [
    ...['yesterday', '', '1795262400', '2026-13-01', '2026-02-30', '2026-11-21T25:00:00Z', 'null'].flatMap(
      value =>
        [
          [`${path}?start=${value}`, 'start'],
          [`${path}?end=${value}`, 'end'],
        ] as const,
    ),
    [`${path}?start=${time}&start=${time}`, 'start'] as const,
    [`${path}?start=${time}&end=2026-11-21T09:59:59.999Z`, 'end'] as const,
    [`${path}?end=2026-11-20&start=2026-11-21`, 'end'] as const,
  ]),
  ...['minute', 'week', 'HOUR', '', 'toString', '1'].map(
    value => [`/analytics?granularity=${value}`, 'granularity'] as const,
  ),
  ...['user', 'key', 'Model', '', '__proto__', 'constructor'].map(
    value => [`/analytics?group_by=${value}`, 'group_by'] as const,
  ),
];

test.each(wrongQueries)(
  'GET %s is refused with 400, and the error has the form of a validation error and names the parameter',
  async (path, parameter) => {
    const reply = await call(gateway, 'GET', path);
    expect(reply.status).toBe(400);
    expect(Object.keys(reply.body)).toEqual(['detail']);
    expect(reply.body.detail.map(({ loc }) => loc)).toEqual([['query', parameter]]);
  },
);

test.each([
  '/activity?limit=1',
  '/activity?limit=1000',
  '/activity?offset=4294967295',
  '/activity?api_key_id=99999999999999999999',
  '/activity?model=',
  '/activity?unknown=1',
  `/activity?start=${time}&end=${time}`,
  '/activity?start=2026-11-21',
  '/activity?start=0001-01-01&end=9999-12-31',
  '/analytics?granularity=hour&group_by=none&start=0001-01-01&end=9999-12-31',
  '/analytics?start=2026-11-21T12:00:00%2B02:00',
  '/analytics?start=2026-11-21T12:00:00.123456Z&unknown=',
])('GET %s is answered', async path => {
  expect((await call(gateway, 'GET', path)).status).toBe(200);
});

describe.each(['GET', 'PATCH', 'DELETE'])('%s of a key', method => {
  const body = method === 'PATCH' ? { body: { label: 'x' } } : {};
  test.each(['x', '1x', '1.0', '1e3', '+1', 'null', '%20', '0x1', '1%2C2', '٣', '--1'])(
    'the id %s is not an integer: 400 with the error envelope',
    async text => {
      const reply = await call(gateway, method, `/keys/${encodeURI(decodeURI(text))}`, body);
      expect([reply.status, reply.body.error?.code, reply.body.error?.param]).toEqual([
        400,
        'invalid_request',
        'key_id',
      ]);
    },
  );
  test.each(['0', '-1', '3', '9007199254740993', '18446744073709551617', '99999999999999999999999999999'])(
    'the id %s belongs to no key: 404',
    async text => {
      const reply = await call(gateway, method, `/keys/${text}`, body);
      expect([reply.status, reply.body.error?.code]).toEqual([404, 'not_found']);
    },
  );
});

test.each([
  ['PUT', '/keys/1'],
  ['DELETE', '/keys'],
  ['PATCH', '/keys'],
  ['POST', '/keys/1'],
  ['GET', '/keys/'],
  ['GET', '/keys/1/more'],
  ['POST', '/balance'],
  ['POST', '/activity'],
  ['DELETE', '/activity/req_x'],
  ['GET', '/activity/'],
  ['GET', '/nothing'],
  ['GET', '/'],
  ['GET', ''],
])('%s /v1/account%s is no endpoint: 404 with the error envelope', async (method, path) => {
  const reply = await call(gateway, method, path, method === 'GET' ? {} : { body: {} });
  expect([reply.status, reply.body.error?.code]).toEqual([404, 'not_found']);
});
