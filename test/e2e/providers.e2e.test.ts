/** What the command line shows about providers and routes, and how strategies choose among routes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { type Behaviour, RawUpstream, whole } from '../upstreams/raw-upstream.ts';

const bad = 'sk-bad-key-000000000001';

const answer = (socket: Parameters<Behaviour>[0]): void => {
  const message = { role: 'assistant', content: 'Hello.' };
  const body = {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
  };
  socket.write(whole(200, JSON.stringify(body)));
};

/** How long each model of the upstream takes, in ms; a test may change it. */
const delays: Record<string, number> = { slow: 60, fast: 2 };

const upstream = await RawUpstream.start(async (socket, { body, headers, line }) => {
  if (line.startsWith('GET ')) {
    return void socket.write(whole(200, JSON.stringify({ object: 'list', data: [{ id: 'fast' }, { id: 'slow' }] })));
  }
  if (headers['authorization'] === `Bearer ${bad}`) {
    return void socket.write(whole(401, JSON.stringify({ error: { message: `Invalid key ${bad}.` } })));
  }
  const sent = JSON.parse(body) as { model: string; tools?: unknown; messages: { content: unknown }[] };
  const refuse = (message: string): void => void socket.write(whole(400, JSON.stringify({ error: { message } })));
  if (sent.messages.some(({ content }) => Array.isArray(content))) return refuse('image input is not supported');
  await sleep(delays[sent.model] ?? 0);
  return answer(socket);
});

const provider = (...keys: string[]): string =>
  `{ protocol: chat, base_url: "${upstream.baseUrl}", api_key: [${keys.map(key => `"${key}"`).join(', ')}] }`;

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    config: `
retries: 0
providers:
  mixed: ${provider(bad, 'sk-good-key-0000000002')}
  refused: ${provider(bad)}
  slow: ${provider('sk-slow-key-0000000003')}
  unused: ${provider('sk-unused-key-0000000004')}
models:
  - id: acme/mixed
    pricing: { input: 1, output: 10 }
    routes: [{ provider: mixed, model: fast }]
  - id: acme/refused
    pricing: { input: 1, output: 10 }
    routes: [{ provider: refused, model: fast }]
  - id: acme/fastest
    strategy: fastest
    pricing: { input: 1, output: 10 }
    routes: [{ provider: slow, model: slow, priority: 1 }, { provider: slow, model: fast, priority: 2 }]
  - id: acme/cheapest
    strategy: cheapest
    pricing: { input: 1, output: 10 }
    routes:
      - { provider: slow, model: dear, priority: 1, cost: { input: 0.5, output: 2 } }
      - { provider: slow, model: cheap, priority: 2, cost: { input: 0.6, output: 1 } }
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

async function ask(model: string): Promise<number> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi.' }] }),
  });
  await response.arrayBuffer();
  return response.status;
}

/** Returns the models that were requested from the upstream since the last call. */
const requested = (): string[] =>
  upstream.requests
    .splice(0)
    .flatMap(({ body }) => (body === '' ? [] : [(JSON.parse(body) as { model: string }).model]));

type Row = Record<string, unknown>;
async function list(command: string): Promise<Row[]> {
  const { json, code, stderr } = await gateway.cli([command, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return (json as { data: Row[] }).data;
}
const named = (rows: readonly Row[], name: string): Row => rows.find(row => row['name'] === name) ?? expect.fail(name);

describe('after one request', () => {
  beforeAll(async () => {
    expect(await ask('acme/mixed')).toBe(200);
    expect(await ask('acme/refused')).toBe(502);
  });

  test('`tollgate providers` shows which key was refused, why, and until when it is not used', async () => {
    const rows = await list('providers');
    expect(rows.map(({ name, state }) => [name, state])).toEqual([
      ['mixed', 'available'],
      ['refused', 'no_key'],
      ['slow', 'available'],
      ['unused', 'unused'],
    ]);
    const [first, second] = named(rows, 'mixed')['keys'] as Row[];
    expect(first).toMatchObject({
      number: 1,
      state: 'resting',
      refusals: 1,
      last_refusal: { status: 401, message: 'Invalid key [credential].' },
    });
    expect(Date.parse(String(first?.['rests_until'])) - Date.now()).toSatisfy((ms: number) => ms > 0 && ms <= 30_000);
    expect(second).toMatchObject({ number: 2, state: 'working', refusals: 0, last_refusal: null });
    expect(named(rows, 'refused')['last_error']).toMatchObject({ result: 'status', status: 401 });
    const table = (await gateway.cli(['providers'])).stdout;
    expect(table).toMatch(/^NAME +PROTOCOL +STATE +MODELS +KEYS +LAST_ERROR\n/);
    expect(table).toMatch(/mixed +chat +available +1 +1 resting until \d\d:\d\d:\d\d \(401\), 2 working/);
    expect(JSON.stringify(rows) + table).not.toContain(bad);
  });

  test('a refused key counts as an attempt of its own, in the log line, the record and its timeline', async () => {
    const listed = (await gateway.cli(['requests', 'list', '--account', '1', '--json'])).json as { data: Row[] };
    const made = listed.data.find(({ model }) => model === 'acme/mixed') ?? expect.fail('no record');
    const id = String(made['request_id']);
    const shown = (await gateway.cli(['requests', 'show', id, '--json'])).json as Row;
    const attempts = [
      { provider: 'mixed', result: 'status', status: 401 },
      { provider: 'mixed', result: 'completed' },
    ];
    expect(shown).toMatchObject({ timeline: { attempt_count: 2, attempts } });
    const line = gateway
      .printed()
      .split('\n')
      .find(each => each.includes(`"request_id":"${id}"`) && each.includes('"msg":"request"'));
    expect(JSON.parse(line ?? '{}')).toMatchObject({ attempts: 2, status: 200 });
  });

  test('`tollgate routes` shows state, last error and times of each route', async () => {
    const rows = await list('routes');
    const route = (model: string): Row => rows.find(row => row['model'] === model) ?? expect.fail(model);
    expect(route('acme/mixed')).toMatchObject({
      provider: 'mixed',
      upstream_model: 'fast',
      strategy: 'priority',
      state: 'available',
      attempts: 1,
      failures: 0,
      last_error: null,
      duration: { count: 1, p50_ms: expect.any(Number), p99_ms: expect.any(Number) },
    });
    expect(route('acme/refused')).toMatchObject({
      state: 'no_key',
      attempts: 1,
      failures: 1,
      last_error: { result: 'status', status: 401, message: 'Invalid key [credential].' },
    });
    expect((await gateway.cli(['routes'])).stdout).toMatch(/^MODEL +PROVIDER +UPSTREAM_MODEL +STATE/);
  });
});

describe('`tollgate provider test`', () => {
  test('requests one token, the list of models, and the model’s capabilities', async () => {
    requested();
    const { json, code } = await gateway.cli(['provider', 'test', 'slow', '--model', 'fast', '--json']);
    expect(code).toBe(0);
    expect(json).toMatchObject({
      name: 'slow',
      ok: true,
      error: null,
      model: 'fast',
      reports_usage: true,
      models: ['fast', 'slow'],
      abilities: { tools: true, json_schema: true, images: 'status 400: image input is not supported' },
      keys: [{ number: 1, state: 'working' }],
    });
    const bodies = upstream.requests.splice(0).flatMap(({ body }) => (body === '' ? [] : [JSON.parse(body) as Row]));
    expect(bodies.map(body => body['max_completion_tokens'])).toEqual([1, 1, 1, 1]);
  });

  test('reports the failing step, and names the existing providers', async () => {
    const refused = await gateway.cli(['provider', 'test', 'refused', '--json']);
    expect([refused.code, refused.json]).toMatchObject([
      1,
      { ok: false, error: expect.stringContaining('status 401') },
    ]);
    expect(refused.stderr).toMatch(/^Provider refused does not answer: .*status 401/);
    const { code, stdout } = await gateway.cli(['provider', 'test', 'slow', '--model', 'fast']);
    expect(code).toBe(0);
    expect(stdout.split('\n').map(line => line.replace(/ {2,}/, ': '))).toMatchObject([
      'provider: slow',
      'model: fast',
      'answer: yes',
      expect.stringMatching(/^first_event: \d+ ms$/),
      expect.stringMatching(/^whole_answer: \d+ ms$/),
      'reports_usage: yes',
      'tools: yes',
      'json_schema: yes',
      'images: no: status 400: image input is not supported',
      'models: 2: fast, slow',
      'keys: 1 working',
      '',
    ]);
    const unknown = await gateway.cli(['provider', 'test', 'nobody']);
    expect([unknown.code, unknown.stderr]).toEqual([
      1,
      expect.stringContaining('There is no provider nobody: there are mixed, refused, slow, unused.'),
    ]);
  });
});

describe('a model’s strategy', () => {
  test('`cheapest` takes the route that costs least, whatever its priority', async () => {
    requested();
    for (let time = 0; time < 3; time += 1) expect(await ask('acme/cheapest')).toBe(200);
    expect(requested()).toEqual(['cheap', 'cheap', 'cheap']);
  });

  test('`fastest` measures its routes, takes the faster one, and stays with it', async () => {
    requested();
    for (let time = 0; time < 200; time += 1) expect(await ask('acme/fastest')).toBe(200);
    const order = requested();
    expect(order.slice(0, 3)).toEqual(['slow', 'slow', 'slow']);
    const settled = order.findLastIndex(model => model === 'slow');
    expect(order.length - settled).toBeGreaterThan(10);
    await expect.poll(() => gateway.printed(), { timeout: 10_000 }).toContain('"route_reason":"fastest"');
    expect(gateway.printed()).toContain('"route_reason":"measured"');
  });

  test('`cheapest` needs the cost of every route', async () => {
    const home = gateway.home.folder;
    const { writeFileSync } = await import('node:fs');
    const file = `${home}/cheap.yaml`;
    writeFileSync(
      file,
      `providers:\n  a: ${provider('sk-a-key-0000000000')}\nmodels:\n  - { id: x/y, strategy: cheapest, pricing: { input: 1, output: 1 }, routes: [{ provider: a, model: m, cost: { input: 1 } }] }\n`,
    );
    const { code, stderr } = await gateway.cli(['config', 'check', file]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('models[0].routes[0].cost.output: is missing')]);
  });
});
