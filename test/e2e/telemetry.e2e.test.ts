/** A request as an OpenTelemetry collector sees it: one that failed at one provider and was answered by another. */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { endGateway, type Gateway, makeHome, startGateway } from '../gateway.ts';
import { RawUpstream, whole } from '../upstreams/raw-upstream.ts';
import { type CollectedSpan, Collector } from './otlp-collector.ts';

const secrets = {
  key: `sk-${randomBytes(20).toString('hex')}`,
  prompt: `prompt${randomBytes(20).toString('hex')}`,
  output: `output${randomBytes(20).toString('hex')}`,
  collector: `collector${randomBytes(20).toString('hex')}`,
};

const upstream = await RawUpstream.start((socket, { body, headers }) => {
  const { model } = JSON.parse(body) as { model: string };
  if (model === 'down') {
    const message = `The engine is overloaded: ${body} ${headers['authorization']}`;
    return void socket.write(whole(503, JSON.stringify({ error: { message } }), { 'x-request-id': 'up-down' }));
  }
  const answer = {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: secrets.output }, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 20,
      total_tokens: 1020,
      prompt_tokens_details: { cached_tokens: 400 },
    },
  };
  return void socket.write(whole(200, JSON.stringify(answer), { 'x-request-id': 'up-good' }));
});

const config = `
retries: 0
providers:
  first: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: "${secrets.key}" }
  second: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: "${secrets.key}x" }
models:
  - id: acme/two
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 10, caching: { read: 0.5 } }
    max_output_tokens: 100
    routes: [{ provider: first, model: down, priority: 1 }, { provider: second, model: good, priority: 2 }]
`;

let collector: Collector;
let gateway: Gateway;
beforeAll(async () => {
  collector = await Collector.start();
  const home = makeHome();
  const path = join(home.folder, 'collector-headers');
  writeFileSync(path, `authorization=Bearer%20${secrets.collector}\n`);
  gateway = await startGateway({
    home,
    config,
    environment: {
      OTEL_EXPORTER_OTLP_HEADERS_FILE: path,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_SERVICE_NAME: 'gate',
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_METRIC_EXPORT_INTERVAL: '500',
    },
  });
});
afterAll(async () => {
  await endGateway(gateway);
  await collector.stop();
  await upstream.stop();
});

async function ask(of: Gateway, headers: Record<string, string> = {}): Promise<Response> {
  const response = await fetch(`${of.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${of.apiKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'acme/two', messages: [{ role: 'user', content: secrets.prompt }] }),
  });
  await response.arrayBuffer();
  return response;
}

describe('one request with a failed attempt', () => {
  const clientTrace = randomBytes(16).toString('hex');
  const clientSpan = randomBytes(8).toString('hex');
  let response: Response;
  let spans: CollectedSpan[];
  beforeAll(async () => {
    response = await ask(gateway, { traceparent: `00-${clientTrace}-${clientSpan}-01` });
    const hasSpans = (): void => {
      if (collector.spans.filter(({ traceId }) => traceId === clientTrace).length < 7) throw new Error('no trace');
    };
    await vi.waitFor(hasSpans, { timeout: 10_000 });
    spans = collector.spans.filter(({ traceId }) => traceId === clientTrace);
  });
  const named = (name: string): CollectedSpan => spans.find(span => span.name === name) ?? expect.fail(name);

  test('is one trace below the client’s span: request, admission, both attempts with their translation, settle', () => {
    const root = named('POST /v1/chat/completions');
    expect([root.parentId, root.kind]).toEqual([clientSpan, 2]);
    const tree = spans.map(({ name, parentId }) => [name, spans.find(({ spanId }) => spanId === parentId)?.name]);
    expect(tree.toSorted(([one = ''], [other = '']) => (one < other ? -1 : 1)).slice(0, -2)).toEqual([
      ['POST /v1/chat/completions', undefined],
      ['admission', root.name],
      ['chat down', root.name],
      ['chat good', root.name],
      ['settle', root.name],
    ]);
    const translations = spans.filter(({ name }) => name === 'translation').map(({ parentId }) => parentId);
    expect(new Set(translations)).toEqual(new Set([named('chat down').spanId, named('chat good').spanId]));
    expect(root.resource).toMatchObject({ 'service.name': 'gate', 'service.version': expect.stringMatching(/^\d/) });
  });

  test('has dollars and tokens under the names of the conventions', () => {
    const usage = {
      'gen_ai.usage.input_tokens': 1000,
      'gen_ai.usage.output_tokens': 20,
      'gen_ai.usage.cache_read.input_tokens': 400,
      'tollgate.cost_usd': 0.001,
    };
    expect(named('POST /v1/chat/completions').attributes).toMatchObject({
      ...usage,
      'http.route': '/v1/chat/completions',
      'http.response.status_code': 200,
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'acme/two',
      'gen_ai.provider.name': 'second',
      'gen_ai.response.finish_reasons': ['stop'],
      'tollgate.request_id': response.headers.get('x-request-id'),
      'tollgate.account_id': 1,
      'tollgate.attempts': 2,
    });
    expect(named('settle').attributes).toMatchObject({ ...usage, 'tollgate.state': 'completed' });
    expect(Number(named('admission').attributes['tollgate.held_usd'])).toBeGreaterThan(0.001);
  });

  test('has the error on the span of the failed attempt, and none on the other', () => {
    const failed = named('chat down');
    expect([failed.isError, failed.kind]).toEqual([true, 3]);
    expect(failed.attributes).toMatchObject({
      'gen_ai.provider.name': 'first',
      'gen_ai.request.model': 'down',
      'http.response.status_code': 503,
      'error.type': '503',
      'tollgate.attempt': 1,
      'tollgate.route_reason': 'priority',
      'tollgate.upstream.request_id': 'up-down',
      'tollgate.upstream.message': expect.stringMatching(/^The engine is overloaded/),
    });
    expect(named('chat good')).toMatchObject({
      isError: false,
      attributes: { 'tollgate.result': 'completed', 'tollgate.route_reason': 'fallback', 'tollgate.attempt': 2 },
    });
  });

  test('goes upstream under the attempt’s own span, and into the log', async () => {
    const ids = upstream.requests.slice(0, 2).map(({ headers }) => headers['traceparent']);
    expect(ids).toEqual(['chat down', 'chat good'].map(name => `00-${clientTrace}-${named(name).spanId}-01`));
    await expect.poll(() => gateway.printed(), { timeout: 10_000 }).toContain(`"trace_id":"${clientTrace}"`);
  });
});

test('a trace that the client has not sampled is not exported, and goes upstream as it is', async () => {
  const traceId = randomBytes(16).toString('hex');
  upstream.requests.splice(0);
  expect((await ask(gateway, { traceparent: `00-${traceId}-00f067aa0ba902b7-00` })).status).toBe(200);
  expect(upstream.requests.at(-1)?.headers['traceparent']).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  const later = randomBytes(16).toString('hex');
  await ask(gateway, { traceparent: `00-${later}-00f067aa0ba902b7-01` });
  await expect.poll(() => collector.spans.some(span => span.traceId === later), { timeout: 10_000 }).toBe(true);
  expect(collector.spans.filter(span => span.traceId === traceId)).toEqual([]);
});

test('metrics arrive under the names of the conventions, with dollars', async () => {
  const point = (name: string, attributes: object) =>
    collector.points.find(
      each => each.name === name && Object.entries(attributes).every(([key, value]) => each.attributes[key] === value),
    );
  await expect.poll(() => point('tollgate.cost', {})?.sum, { timeout: 10_000 }).toBeGreaterThan(0);
  expect(
    point('gen_ai.client.operation.duration', { 'gen_ai.request.model': 'down', 'error.type': 'status' }),
  ).toMatchObject({
    unit: 's',
    count: expect.any(Number),
  });
  expect(
    point('gen_ai.client.token.usage', { 'gen_ai.token.type': 'output', 'gen_ai.provider.name': 'second' }),
  ).toMatchObject({
    unit: '{token}',
  });
  expect(point('http.server.request.duration', { 'http.route': '/v1/chat/completions' })).toBeDefined();
});

test('the credential for the collector is read from a file, and is not in the log', () => {
  expect([...collector.credentials]).toEqual([`Bearer ${secrets.collector}`]);
  expect(gateway.printed()).not.toContain(secrets.collector);
});

test('neither traces nor metrics have credentials, prompts or outputs', () => {
  expect(collector.exports).toBeGreaterThan(2);
  for (const secret of [...Object.values(secrets), gateway.apiKey]) expect(collector.heard).not.toContain(secret);
});

test('a collector that can’t be reached delays no request', async () => {
  const lonely = await startGateway({
    config,
    environment: {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
      OTEL_EXPORTER_OTLP_TIMEOUT: '200',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    },
  });
  for (let time = 0; time < 5; time += 1) expect((await ask(lonely)).status).toBe(200);
  const began = performance.now();
  const { code, stderr } = await endGateway(lonely).then(() => lonely.ended);
  expect([code, performance.now() - began < 8_000]).toEqual([0, true]);
  expect(stderr).toContain('telemetry could not be exported');
});
