/** What an operator sees of a running gateway: the log lines of requests and of the start, and keys that providers refuse. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, streamHead, whole } from '../upstreams/raw-upstream.ts';

type Line = Readonly<Record<string, unknown>>;

const keys = { bad: 'sk-bad-key-000000000001', good: 'sk-good-key-00000000002', broke: 'sk-broke-key-0000000003' };
const usage = { prompt_tokens: 11, completion_tokens: 2, total_tokens: 13 };
const quota = 'You exceeded your current quota, please check your plan and billing details.';

const answer = (socket: Parameters<Behaviour>[0]): void => {
  const choice = (delta: object, finish: string | null) => [{ index: 0, delta, finish_reason: finish }];
  const frame = (more: object): string =>
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', ...more })}\n\n`;
  const frames = [
    frame({ choices: choice({ role: 'assistant', content: 'Hello.' }, null) }),
    frame({ choices: choice({}, 'stop') }),
    frame({ choices: [], usage }),
    'data: [DONE]\n\n',
  ];
  const head = streamHead.replace('\r\n\r\n', '\r\nx-request-id: up-4711\r\n\r\n');
  socket.write(Buffer.concat([Buffer.from(head), chunk(frames.join('')), Buffer.from(lastChunk)]));
};

const refuse =
  (status: number, message: string, headers: Record<string, string> = {}) =>
  (socket: Parameters<Behaviour>[0]): void =>
    void socket.write(
      whole(status, JSON.stringify({ error: { message, type: 'x' } }), { 'x-request-id': 'up-1', ...headers }),
    );

/** What the upstream does, by its model names. */
const behaviours: Record<string, Behaviour> = {
  keyed: (socket, { headers }) =>
    headers['authorization'] === `Bearer ${keys.bad}`
      ? refuse(401, `Incorrect API key provided: ${keys.bad}.`)(socket)
      : answer(socket),
  broke: refuse(429, quota, { 'retry-after': '60' }),
  fails: refuse(503, 'The engine is overloaded.'),
  rejects: refuse(400, 'The image is too small: 3 pixels.'),
  works: answer,
};

const upstream = await RawUpstream.start((socket, request) => {
  const { model } = JSON.parse(request.body) as { model: string };
  return behaviours[model]?.(socket, request);
});

const provider = (...of: readonly string[]): string =>
  `{ protocol: chat, base_url: "${upstream.baseUrl}", api_key: [${of.map(key => `"${key}"`).join(', ')}] }`;
const model = (id: string, ...routes: readonly (readonly [provider: string, model: string])[]): string => `
  - id: ${id}
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 10 }
    max_output_tokens: 100
    routes: [${routes.map(([at, name], index) => `{ provider: ${at}, model: ${name}, priority: ${index + 1} }`).join(', ')}]`;

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    config: `
retries: 0
providers:
  keyed: ${provider(keys.bad, keys.good)}
  broke: ${provider(keys.broke)}
  one: ${provider('sk-one-key-00000000004')}
models:${model('acme/keyed', ['keyed', 'keyed'])}${model('acme/broke', ['broke', 'broke'])}${model('acme/two', ['one', 'fails'], ['keyed', 'works'])}${model('acme/rejects', ['one', 'rejects'])}
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

/** Returns the requests to the upstream since the last call. */
const sent = () => upstream.requests.splice(0);

async function ask(id: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: id, stream: true, messages: [{ role: 'user', content: 'Say hello to everybody.' }] }),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

const lines = (): Line[] =>
  gateway
    .printed()
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line) as Line);

/** Waits for the log line of a request; returns all log lines with its id. */
async function findLines(requestId: string | null): Promise<Line[]> {
  const read = () => lines().filter(line => line['request_id'] === requestId);
  await expect.poll(() => read().some(line => line['msg'] === 'request'), { timeout: 10_000 }).toBe(true);
  return read();
}

async function metric(name: string): Promise<string[]> {
  const page = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
  return page.split('\n').filter(line => line.startsWith(`${name}{`));
}

test('the first log line has the version, the paths, the listeners, and the providers with their models', async () => {
  await expect.poll(() => lines().length, { timeout: 10_000 }).toBeGreaterThan(0);
  expect(lines()[0]).toMatchObject({
    level: 'info',
    msg: 'started',
    version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    data_dir: gateway.dataDir,
    config_file: expect.stringMatching(/^\/.*gateway\.yaml$/),
    public_url: gateway.url,
    rpc_url: gateway.rpcUrl,
    providers: expect.arrayContaining([
      { name: 'keyed', protocol: 'chat', keys: 2, from: 'file', models: ['acme/keyed', 'acme/two'] },
    ]),
    warnings: expect.any(Array),
  });
});

test('a refused key can be seen after one request: the next key answers, and the refused one is not used for a while', async () => {
  const reply = await ask('acme/keyed');
  expect([reply.status, sent().map(({ headers }) => headers['authorization'])]).toEqual([
    200,
    [`Bearer ${keys.bad}`, `Bearer ${keys.good}`],
  ]);
  await expect.poll(() => lines().some(line => line['endpoint'] !== undefined), { timeout: 10_000 }).toBe(true);
  const refused = lines().filter(line => line['msg'] === 'a provider’s key was refused');
  expect(refused).toEqual([
    {
      level: 'warn',
      time: expect.any(String),
      provider: 'keyed',
      key: 1,
      state: 'resting',
      status: 401,
      rests_until: expect.stringMatching(/^\d{4}-/),
      upstream_message: 'Incorrect API key provided: [credential].',
      msg: 'a provider’s key was refused',
    },
  ]);
  expect(await metric('tollgate_provider_keys')).toContain(
    'tollgate_provider_keys{provider="keyed",state="resting"} 1',
  );
  expect(await metric('tollgate_provider_key_refusals_total')).toContain(
    'tollgate_provider_key_refusals_total{provider="keyed",status="401"} 1',
  );
  for (let time = 0; time < 8; time += 1) expect((await ask('acme/keyed')).status).toBe(200);
  expect(new Set(sent().map(({ headers }) => headers['authorization']))).toEqual(new Set([`Bearer ${keys.good}`]));
});

describe('a provider whose only key is at a rate limit for longer than requests wait', () => {
  test('is called once; its message about billing is logged but not sent to clients; its model is unavailable', async () => {
    const first = await ask('acme/broke');
    expect([first.status, first.text.includes('quota'), first.text.includes('billing')]).toEqual([502, false, false]);
    const later = await ask('acme/broke');
    expect([later.status, sent().length]).toEqual([502, 1]);
    expect(JSON.parse(later.text).error.code).toBe('model_unavailable');
    expect(Number(later.headers.get('retry-after'))).toSatisfy((seconds: number) => seconds > 50 && seconds <= 60);
    const listed = (await (
      await fetch(`${gateway.url}/v1/models/acme/broke`, { headers: { authorization: `Bearer ${gateway.apiKey}` } })
    ).json()) as { available: boolean };
    expect(listed.available).toBe(false);
    const [failure, line] = await findLines(first.headers.get('x-request-id'));
    expect(failure).toMatchObject({ msg: 'a provider failed', status: 429, upstream_message: quota });
    expect(line).toMatchObject({ status: 502, code: 'upstream_error', upstream_message: quota, cost: 0 });
  });
});

test('a provider’s message about the request reaches the client', async () => {
  const reply = await ask('acme/rejects');
  expect([reply.status, JSON.parse(reply.text).error.message]).toEqual([400, 'The image is too small: 3 pixels.']);
});

test('the log line of a request has all fields, also after a failed attempt', async () => {
  sent();
  const clientId = `order ${randomBytes(4).toString('hex')}`;
  const trace = randomBytes(16).toString('hex');
  const traceparent = `00-${trace}-${randomBytes(8).toString('hex')}-01`;
  const reply = await ask('acme/two', { 'x-request-id': clientId, traceparent });
  expect(reply.status).toBe(200);
  for (const { headers } of sent()) {
    expect([headers['x-request-id'], headers['traceparent']]).toEqual([clientId, traceparent]);
  }
  const requestId = reply.headers.get('x-request-id');
  expect(requestId).toMatch(/^req_\w{21}$/);
  const [failure, line, ...others] = await findLines(requestId);
  expect(others).toEqual([]);
  expect(failure).toMatchObject({
    level: 'warn',
    provider: 'one',
    model: 'acme/two',
    attempt: 1,
    status: 503,
    upstream_message: 'The engine is overloaded.',
  });
  expect(line).toEqual({
    level: 'info',
    time: expect.any(String),
    request_id: requestId,
    client_request_id: clientId,
    account_id: 1,
    key_id: 1,
    model: 'acme/two',
    endpoint: '/v1/chat/completions',
    provider: 'keyed',
    route: 'keyed/works',
    route_reason: 'fallback',
    attempts: 2,
    status: 200,
    finish: 'stop',
    tokens: { input: 11, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, output: 2 },
    cost: 0.000031,
    held: expect.any(Number),
    latency_ms: expect.any(Number),
    ttft_ms: expect.any(Number),
    upstream_request_id: 'up-4711',
    trace_id: trace,
    msg: 'request',
  });
  expect(Number(line?.['held'])).toBeGreaterThan(0.000031);
  expect(await metric('tollgate_requests_total')).toContain(
    'tollgate_requests_total{model="acme/two",endpoint="/v1/chat/completions",route="keyed/works",status="200",code=""} 1',
  );
});

test('an unknown model is counted as `other`', async () => {
  expect((await ask('acme/nothing-like-it')).status).toBe(400);
  const counted = await metric('tollgate_requests_total');
  expect(counted.filter(line => line.includes('nothing-like-it'))).toEqual([]);
  expect(counted).toContain(
    'tollgate_requests_total{model="other",endpoint="/v1/chat/completions",route="",status="400",code="model_not_found"} 1',
  );
});
