import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type ErrorCode, errorTable } from '../../src/errors/error-table.ts';
import { type ErrorFacts, GatewayError } from '../../src/errors/gateway-error.ts';
import { toLimitState } from '../../src/rpc/errors.ts';
import {
  answering,
  apiKey,
  type Ask,
  ask,
  chat,
  chatBody,
  Connection,
  dayWindow,
  disabledKey,
  limitedKey,
  managementKey,
  minuteWindow,
  refusing,
  startListener,
} from './listener.ts';

const fields = ['message', 'type', 'param', 'code', 'status_code', 'id', 'tip', 'docs', 'support', 'community'];

test('a whole answer carries its cost, its warnings and the tightest window', async () => {
  const listener = await startListener({
    generate: answering(
      'Hello.',
      {
        limits: [dayWindow, minuteWindow].map(toLimitState),
        warnings: ['dropped=top_k,seed'],
        route: 'local/large-v1',
      },
      { costNanoUsd: 123n },
    ),
  });
  const reply = await chat(listener);
  expect(reply.json.choices[0].message.content).toBe('Hello.');
  expect(reply.headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'x-request-id': listener.requestIds[1],
    'x-tollgate-cost': '0.000000123',
    'x-tollgate-warnings': 'dropped=top_k,seed',
    'x-tollgate-route': 'local/large-v1',
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '7',
  });
});

test('a whole answer has no headers for windows, warnings and route if there are none', async () => {
  const { headers } = await chat(await startListener());
  const names = Object.keys(headers).filter(name => name.startsWith('x-'));
  expect(names.toSorted()).toEqual(['x-content-type-options', 'x-request-id', 'x-tollgate-cost']);
});

test('if there are more warnings than a header can hold, the list is cut and marked as cut', async () => {
  const names = Array.from({ length: 2000 }, (_, index) => `field_${index}`).join(',');
  const listener = await startListener({ generate: answering('x', { warnings: [`dropped=${names}`] }) });
  const warnings = String((await chat(listener)).headers['x-tollgate-warnings']);
  expect(warnings).toMatch(/^dropped=field_0,field_1,.*,field_\d+,%E2%80%A6$/);
  expect(warnings.length).toBeLessThan(4200);
});

test('the core gets the endpoint and the delivery that the client requested, whole or streamed', async () => {
  const listener = await startListener();
  await chat(listener);
  await chat(listener, { stream: true });
  expect(listener.requests.map(({ endpoint, delivery }) => [endpoint, delivery])).toEqual([
    [1, 2],
    [1, 1],
  ]);
});

const refusals: readonly [string, string, Ask & { draining?: boolean }, number, string][] = [
  ['an unknown path', '/v1/nothing', {}, 404, 'not_found'],
  ['an unknown path without a key', '/nothing', { key: null }, 404, 'not_found'],
  ['an unknown path with a body', '/v1/nothing', { body: '{' }, 404, 'not_found'],
  ['an invalid path', '/v1/models/%E0%A4%A', {}, 404, 'not_found'],
  ['a wrong method', '/v1/chat/completions', { method: 'GET' }, 404, 'not_found'],
  ['another wrong method', '/v1/models', { method: 'DELETE' }, 404, 'not_found'],
  ['OPTIONS that is not a preflight', '/v1/models', { method: 'OPTIONS' }, 404, 'not_found'],
  ['an unknown model in the path', '/v1/models/acme/none', {}, 404, 'not_found'],
  ['no key', '/v1/models', { key: null }, 401, 'invalid_api_key'],
  ['a disabled key', '/v1/models', { key: disabledKey }, 403, 'key_disabled'],
  ['a wrong kind of key', '/v1/chat/completions', { key: managementKey, body: chatBody() }, 403, 'permission_denied'],
  ['a bad query', '/v1/models?limit=0', {}, 400, 'invalid_request'],
  ['malformed JSON', '/v1/chat/completions', { body: '{' }, 400, 'invalid_request'],
  ['a bad field', '/v1/chat/completions', { body: '{}' }, 422, 'validation_error'],
  ['a stopping gateway', '/v1/models', { draining: true }, 503, 'overloaded'],
  ['a gateway that is not ready', '/readyz', { draining: true, key: null }, 503, 'overloaded'],
];

test.each(refusals)(
  '%s is refused with the error envelope, which has all ten fields and the request id',
  async (...[, path, how, status, code]) => {
    const listener = await startListener({ draining: () => how.draining === true });
    const reply = await ask(listener, path, how);
    expect(reply.status).toBe(status);
    expect(Object.keys(reply.json)).toEqual(['error']);
    expect(Object.keys(reply.json.error)).toEqual(fields);
    expect(reply.json.error).toMatchObject({
      code,
      status_code: status,
      id: reply.headers['x-request-id'],
      docs: `https://docs.example/errors#${code}`,
      support: 'mailto:help@example.org',
      community: { forum: 'https://forum.example' },
    });
    expect(reply.headers['x-request-id']).toMatch(/^req_[0-9A-Za-z]{21}$/);
    expect(reply.headers['retry-after']).toBe(status === 503 ? '1' : undefined);
  },
);

test('texts that the operator has not configured are null, and a configured tip replaces that of the error table', async () => {
  const listener = await startListener({
    texts: { docs: null, support: null, community: null, tips: { not_found: 'Ask us.' } },
  });
  expect((await ask(listener, '/nothing')).json.error).toMatchObject({
    docs: null,
    support: null,
    community: null,
    param: null,
    tip: 'Ask us.',
  });
});

test('a configured tip also replaces the tip of a single error', async () => {
  const listener = await startListener({
    generate: refusing(new GatewayError('insufficient_balance', 'No.', { tip: 'Ask the operator.' })),
    texts: { docs: null, support: null, community: null, tips: { insufficient_balance: 'Top up.' } },
  });
  expect((await chat(listener)).json.error).toMatchObject({ code: 'insufficient_balance', tip: 'Top up.' });
});

const row = { id: 1, scope: 'key', scopeId: 1, window: 'minute' } as const;
const minute = { limit: 'minute_limit', unit: 'requests', used: 60, max: 60, row } as const;
const retries: readonly [GatewayError['code'], ErrorFacts, number, string | undefined, string | undefined][] = [
  ['rate_limit', { denial: minute, retryAfterMs: 12_100, retry: true }, 429, 'true', '13'],
  ['rate_limit', { denial: minute, retryAfterMs: 12_100 }, 429, 'true', '13'],
  ['rate_limit', { denial: { ...minute, limit: 'free_minute' }, retryAfterMs: 1 }, 429, 'true', '1'],
  [
    'rate_limit',
    { denial: { ...minute, limit: 'free_day', row: { ...row, window: 'day' } }, retryAfterMs: 3_600_000 },
    429,
    'false',
    '3600',
  ],
  [
    'spending_limit',
    { denial: { ...minute, limit: 'monthly_limit', unit: 'nano_usd', row: { ...row, window: 'month' } } },
    429,
    'false',
    undefined,
  ],
  ['insufficient_balance', {}, 429, 'false', undefined],
  ['subscription_exhausted', {}, 429, 'false', undefined],
  ['upstream_error', { retryAfterMs: 5000 }, 502, undefined, '5'],
  ['upstream_timeout', {}, 502, undefined, undefined],
  ['internal', {}, 500, undefined, undefined],
  ['overloaded', {}, 503, undefined, '1'],
  ['model_not_found', { param: 'model' }, 400, 'false', undefined],
  ['idempotency_in_progress', { retryAfterMs: 900 }, 409, undefined, '1'],
];

test.each(retries)('%s %j: whether and when to try again', async (code, facts, ...[status, retry, after]) => {
  for (const stream of [false, true]) {
    const listener = await startListener({ generate: refusing(new GatewayError(code, 'No.', facts)) });
    const reply = await chat(listener, { stream });
    expect([reply.status, reply.headers['x-should-retry'], reply.headers['retry-after']]).toEqual([
      status,
      retry,
      after,
    ]);
    expect(reply.json.error).toMatchObject({
      code,
      message: 'No.',
      param: facts.param ?? null,
      tip: expect.any(String),
    });
  }
});

test.each([
  ['of the admission', { limits: [{ ...minuteWindow, remaining: 0 }] }, '0'],
  ['as the core returns them, if the error has none', {}, '7'],
])('a refusal has the windows %s', async (_name, facts, remaining) => {
  const listener = await startListener({ generate: refusing(new GatewayError('rate_limit', 'Slow down.', facts)) });
  const reply = await chat(listener, {}, { key: limitedKey });
  expect(reply.headers['x-ratelimit-remaining-requests']).toBe(remaining);
});

test('an unexpected exception is 500 without its cause, which is only in the log', async () => {
  const listener = await startListener({ generate: refusing(new TypeError('secret detail of a bug')) });
  const reply = await chat(listener);
  expect([reply.status, reply.json.error.code]).toEqual([500, 'internal']);
  expect(reply.text).not.toContain('secret detail');
  expect(listener.log.at(-1)).toMatchObject({
    level: 'error',
    code: 'internal',
    error: { name: 'TypeError', message: 'secret detail of a bug' },
  });
});

test('every answer has a new request id, whatever the client sends', async () => {
  const listener = await startListener();
  const replies = await Promise.all([
    ask(listener, '/healthz', { key: null }),
    ask(listener, '/readyz', { key: null }),
    ask(listener, '/v1/models'),
    ask(listener, '/v1/models', { method: 'HEAD' }),
    chat(listener, {}, { headers: { 'x-request-id': 'mine', 'x-tollgate-request-id': 'mine' } }),
  ]);
  const ids = replies.map(reply => reply.headers['x-request-id']);
  expect(replies.map(reply => reply.status)).toEqual([200, 200, 200, 200, 200]);
  expect(ids.every(id => /^req_[0-9A-Za-z]{21}$/.test(String(id)))).toBe(true);
  expect(new Set(ids).size).toBe(5);
  expect(listener.requestIds).not.toContain('mine');
});

test('HEAD is GET without its body', async () => {
  const listener = await startListener();
  const [head, get] = await Promise.all([ask(listener, '/v1/models', { method: 'HEAD' }), ask(listener, '/v1/models')]);
  expect(head.text).toBe('');
  expect(head.headers['content-length']).toBe(String(get.text.length));
});

test.each([
  ['bytes that are not HTTP', 'GET / SMTP/9\r\n\r\n', /not valid HTTP/],
  [
    'two lengths',
    'POST /v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    /not valid HTTP/,
  ],
  [
    'a length beside chunks',
    'POST /v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
    /not valid HTTP/,
  ],
  [
    'headers that are too large',
    `GET / HTTP/1.1\r\nhost: x\r\na: ${'b'.repeat(20_000)}\r\n\r\n`,
    /headers are too large/,
  ],
])('%s is 400 with the envelope and closes the connection', async (_name, bytes, message) => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send(bytes);
  const [head = '', body = ''] = (await connection.until(/\}$/)).split('\r\n\r\n');
  expect(head).toMatch(/^HTTP\/1\.1 400 Bad Request\r\nx-request-id: req_\w+\r\n/);
  expect(Object.keys(JSON.parse(body).error)).toEqual(fields);
  expect(JSON.parse(body).error.message).toMatch(message);
});

test.each([
  ['no Host', 'GET /nothing HTTP/1.1\r\n\r\n'],
  ['HTTP/1.0', 'GET /nothing HTTP/1.0\r\n\r\n'],
  ['an unknown expectation', 'GET /nothing HTTP/1.1\r\nhost: x\r\nexpect: wonders\r\n\r\n'],
  ['an upgrade', 'GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n'],
])('a request with %s is answered like any other', async (_name, bytes) => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send(bytes);
  expect(await connection.until(/\}$/)).toMatch(/^HTTP\/1\.1 404 Not Found\r\nx-request-id: req_/);
});

test('garbage after a request on the same connection does not affect its answer', async () => {
  const listener = await startListener({
    generate: async function* generate(request, context) {
      await sleep(50);
      yield* answering()(request, context);
    },
  });
  const connection = new Connection(listener.port);
  const body = chatBody();
  connection.send(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}GARBAGE\r\n\r\n`,
  );
  await expect.poll(() => connection.closed).toBe(true);
  expect(connection.text).toBe('');
});

test('only pages of configured origins may call', async () => {
  const listener = await startListener({ corsOrigins: ['https://app.example'] });
  const from = (origin: string): Ask => ({ headers: { origin } });
  const allowed = await ask(listener, '/v1/models', from('https://app.example'));
  expect(allowed.headers).toMatchObject({ 'access-control-allow-origin': 'https://app.example', vary: 'origin' });
  expect(allowed.headers['access-control-expose-headers']).toContain('x-request-id');
  expect(
    (await ask(listener, '/v1/models', from('https://evil.example'))).headers['access-control-allow-origin'],
  ).toBeUndefined();
  expect((await ask(listener, '/nothing', from('https://app.example'))).headers['access-control-allow-origin']).toBe(
    'https://app.example',
  );
});

test('a browser’s preflight is answered for configured origins only', async () => {
  const preflight = (origin: string): Ask => ({
    method: 'OPTIONS',
    key: null,
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,x-stainless-os',
    },
  });
  const listener = await startListener({ corsOrigins: ['https://app.example'] });
  const allowed = await ask(listener, '/v1/chat/completions', preflight('https://app.example'));
  expect([allowed.status, allowed.text]).toEqual([204, '']);
  expect(allowed.headers).toMatchObject({
    'access-control-allow-origin': 'https://app.example',
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE',
    'access-control-allow-headers': 'authorization,content-type,x-stainless-os',
    'access-control-max-age': '600',
  });
  expect((await ask(listener, '/v1/chat/completions', preflight('https://evil.example'))).status).toBe(404);
  const everyone = await startListener({ corsOrigins: ['*'] });
  const any = await ask(everyone, '/v1/chat/completions', preflight('https://evil.example'));
  expect(any.headers['access-control-allow-origin']).toBe('*');
  expect((await ask(await startListener(), '/v1/models', preflight('https://app.example'))).status).toBe(404);
});

test('metrics are public only where configured', async () => {
  expect((await ask(await startListener(), '/metrics')).status).toBe(404);
  const listener = await startListener({ publicMetrics: true });
  await chat(listener);
  const reply = await ask(listener, '/metrics', { key: null });
  expect(reply.headers['content-type']).toMatch(/^text\/plain/);
  expect(reply.text).toContain(
    'tollgate_requests_total{model="acme/large",endpoint="/v1/chat/completions",route="",status="200",code=""} 1',
  );
  expect(reply.text).toContain(
    'tollgate_tokens_total{endpoint="/v1/chat/completions",model="acme/large",kind="output"} 3',
  );
  expect(reply.text).toContain(
    'tollgate_cost_dollars_total{endpoint="/v1/chat/completions",model="acme/large"} 0.000024',
  );
});

test('public paths also work without /v1, and /health is /healthz', async () => {
  const listener = await startListener();
  for (const path of [
    '/chat/completions',
    '/messages',
    '/messages/count_tokens',
    '/responses',
    '/models',
    '/models/x/y',
  ]) {
    const [short, whole] = [
      await ask(listener, path, { body: '{}' }),
      await ask(listener, `/v1${path}`, { body: '{}' }),
    ];
    expect([path, short.status, short.headers['content-type']]).toEqual([
      path,
      whole.status,
      whole.headers['content-type'],
    ]);
    expect([path, short.status === 404]).toEqual([path, path === '/models/x/y' || path === '/models']);
  }
  expect((await ask(listener, '/models?limit=1')).status).toBe(200);
  expect((await ask(listener, '/health', { key: null })).status).toBe(200);
  expect((await ask(listener, '/healthy', { key: null })).status).toBe(404);
});

test('every refusal for which a retry can’t help says so', async () => {
  const codes = Object.entries(errorTable).filter(([, { http }]) => [400, 401, 403, 404, 413, 422].includes(http));
  expect(codes.length).toBeGreaterThan(12);
  for (const [code, { http }] of codes) {
    const listener = await startListener({ generate: refusing(new GatewayError(code as ErrorCode, 'No.')) });
    const answer = await chat(listener);
    expect([code, answer.status, answer.headers['x-should-retry']]).toEqual([code, http, 'false']);
  }
});

test('a client that sends `anthropic-version` gets the error envelope of Messages on every path except account endpoints', async () => {
  const listener = await startListener();
  const headers = { 'anthropic-version': '2023-06-01' };
  for (const path of ['/v1/files', '/v1/skills', '/nothing', '/v1/messages/nothing']) {
    expect((await ask(listener, path, { headers })).json).toMatchObject({
      type: 'error',
      error: { type: 'not_found_error' },
    });
  }
  expect((await ask(listener, '/v1/nothing')).json).not.toHaveProperty('type');
});
