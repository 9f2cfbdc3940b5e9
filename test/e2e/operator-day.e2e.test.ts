/**
 * A day of an operator who has read only docs/operations.md "Logs, metrics and traces": a provider with a bad key, a slow provider, a provider that answers with another model, and a complaint that is traced with only its `x-request-id`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { RawUpstream, whole } from '../upstreams/raw-upstream.ts';
import { readPage } from './exposition.ts';

const keys = { bad: 'sk-bad-key-000000000001', good: 'sk-good-key-00000000002' };
const usage = { prompt_tokens: 1200, completion_tokens: 300, total_tokens: 1500 };

const upstream = await RawUpstream.start(async (socket, { body, headers }) => {
  if (headers['authorization'] === `Bearer ${keys.bad}`) {
    return void socket.write(whole(401, JSON.stringify({ error: { message: `Incorrect API key ${keys.bad}.` } })));
  }
  const { model } = JSON.parse(body) as { model: string };
  if (model === 'slow') await sleep(2_000);
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }];
  const answer = { id: 'c', object: 'chat.completion', created: 1, choices, usage };
  socket.write(whole(200, JSON.stringify({ ...answer, model: model === 'large-9' ? 'tiny-1' : model })));
});

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    config: `
retries: 0
providers:
  keyed: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: [${keys.bad}, ${keys.good}] }
  slow: { protocol: chat, base_url: "${upstream.baseUrl}", timeouts: { first_event: 300ms } }
  cheat: { protocol: chat, base_url: "${upstream.baseUrl}" }
models:
  - { id: acme/keyed, max_output_tokens: 1000, pricing: { input: 1, output: 10 }, routes: [{ provider: keyed, model: m }] }
  - { id: acme/cheat, max_output_tokens: 1000, pricing: { input: 1, output: 10 }, routes: [{ provider: cheat, model: large-9 }] }
  - id: acme/both
    max_output_tokens: 1000
    pricing: { input: 1, output: 10 }
    routes:
      - { provider: slow, model: slow, priority: 1, cost: { input: 0.1, output: 1 } }
      - { provider: keyed, model: m, priority: 2, cost: { input: 0.5, output: 4 } }
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

async function ask(model: string, content = 'Say hello.'): Promise<Response> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
  });
  await response.arrayBuffer();
  return response;
}

type Row = Readonly<Record<string, unknown>>;

async function command(...args: string[]): Promise<Row> {
  const { code, stderr, json } = await runInside(gateway, [...args, '--json']);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return json as Row;
}

const rows = async (name: string): Promise<Row[]> => (await command(name))['data'] as Row[];

/** Returns the lines of the log that contain this text. */
const grep = (text: string): Row[] =>
  gateway
    .printed()
    .split('\n')
    .filter(line => line.startsWith('{') && line.includes(text))
    .map(line => JSON.parse(line) as Row);

async function readSamples(name: string) {
  const page = readPage(await (await fetch(`${gateway.rpcUrl}/metrics`)).text());
  return page.get(name)?.samples.map(({ labels, value }) => ({ ...labels, value })) ?? [];
}

test('a bad key can be seen: in the log, in a metric and with `tollgate providers`', async () => {
  // A conversation stays at its key: of twelve, some begin at the bad one.
  for (let index = 0; index < 12; index += 1) {
    expect((await ask('acme/keyed', `Say hello to ${index}.`)).status).toBe(200);
  }
  await expect
    .poll(() => grep('a provider’s key was refused'))
    .toMatchObject([{ level: 'warn', provider: 'keyed', status: 401 }]);
  expect(await readSamples('tollgate_provider_keys')).toEqual(
    expect.arrayContaining([
      { provider: 'keyed', state: 'resting', value: 1 },
      { provider: 'keyed', state: 'working', value: 1 },
    ]),
  );
  expect(await readSamples('tollgate_provider_key_refusals_total')).toEqual([
    { provider: 'keyed', status: '401', value: 1 },
  ]);
  const keyed = (await rows('providers')).find(({ name }) => name === 'keyed');
  expect(keyed?.['keys']).toMatchObject([
    { state: 'resting', last_refusal: { status: 401, message: 'Incorrect API key [credential].' } },
    { state: 'working' },
  ]);
});

test('a provider that answers with another model can be seen in the log and with `tollgate routes`', async () => {
  expect((await ask('acme/cheat')).status).toBe(200);
  await expect
    .poll(() => grep('a provider answered with another model than the requested one'))
    .toMatchObject([
      { level: 'warn', provider: 'cheat', model: 'acme/cheat', upstream_model: 'large-9', answers_as: 'tiny-1' },
    ]);
  const route = (await rows('routes')).find(({ model }) => model === 'acme/cheat');
  expect(route).toMatchObject({ provider: 'cheat', answers_as: 'tiny-1' });
});

test('for a complaint, the x-request-id is enough to find what was tried, what was slow, and how the cost came about', async () => {
  const response = await ask('acme/both');
  expect(response.status).toBe(200);
  const id = response.headers.get('x-request-id') ?? '';
  await expect.poll(() => grep(id).length).toBe(2);
  const [failed, line] = grep(id);
  expect(failed).toMatchObject({ level: 'warn', msg: 'a provider failed', provider: 'slow', attempt: 1 });
  expect(line).toMatchObject({
    request_id: id,
    route: 'keyed/m',
    route_reason: 'fallback',
    attempts: 2,
    status: 200,
    tokens: { input: 1200, output: 300 },
    cost: 0.0042,
  });

  const shown = await command('requests', 'show', id);
  expect(shown).toMatchObject({
    request_id: id,
    model: 'acme/both',
    state: 'completed',
    cost: 0.0042,
    // 1,200 tokens at $1 and 300 at $10 per million.
    buckets: [
      { kind: 'input', tokens: 1200, price: 1, cost: 0.0012, paid_by: 'account' },
      { kind: 'output', tokens: 300, price: 10, cost: 0.003, paid_by: 'account' },
    ],
    provider_cost: 0.0018,
    margin: 0.0024,
    timeline: {
      provider: 'keyed',
      attempt_count: 2,
      attempts: [
        { provider: 'slow', model: 'slow', reason: 'priority', result: 'first_event_timeout' },
        { provider: 'keyed', model: 'm', reason: 'fallback', result: 'completed' },
      ],
    },
  });
  const [slow] = (shown['timeline'] as { attempts: { duration_ms: number }[] }).attempts;
  expect(slow?.duration_ms).toBeGreaterThanOrEqual(300);
  expect(Number(shown['latency_ms'])).toBeGreaterThanOrEqual(300);
  const route = (await rows('routes')).find(({ provider, model }) => model === 'acme/both' && provider === 'slow');
  expect(route).toMatchObject({ failures: 1, last_error: { result: 'first_event_timeout' } });
});
