/** Local servers that answer like llama.cpp b10434 and Ollama 0.17: which requests they get, which models are listed, and how their errors are reported. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { endGateway, type Gateway, heldBy, startGateway } from '../gateway.ts';

type Json = Readonly<Record<string, unknown>>;
type Reply = readonly [status: number, body: Json];

const error = (code: number, message: string, type: string): Reply => [code, { error: { code, message, type } }];
const completion = (model: string, usage: Json): Reply => [
  200,
  {
    choices: [{ finish_reason: 'stop', index: 0, message: { role: 'assistant', content: 'Hello there' } }],
    created: 1_795_375_132,
    model,
    object: 'chat.completion',
    usage,
    id: 'chatcmpl-1',
  },
];
const usage = { completion_tokens: 3, prompt_tokens: 31, total_tokens: 34 };

/** The errors of llama.cpp, by the word in the prompt that requests them. */
const faults: Readonly<Record<string, Reply>> = {
  image: error(
    500,
    'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj',
    'server_error',
  ),
  template: error(
    500,
    'Error: Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...',
    'server_error',
  ),
  schema: error(500, 'JSON schema conversion failed: Unrecognized schema: {"type":"nonsense"}', 'server_error'),
  context: [
    500,
    {
      error: {
        code: 500,
        message: 'request (6031 tokens) exceeds the available context size (2048 tokens), try increasing it',
        type: 'exceed_context_size_error',
      },
    },
  ],
  broken: error(500, 'Compute error.', 'server_error'),
};

const file = '/models/SmolLM2-135M-Instruct.Q4_1.gguf';
/** The requests that the servers received. */
const seen: { url: string; body: string }[] = [];
/** How many of the next requests are answered "Loading model". */
let loading = 0;
let listRefused = false;
/** The context that Ollama reports; undefined: none. */
let cutsAt: number | undefined = 4_096;

function llama(path: string, body: string): Reply {
  if (loading > 0) {
    loading -= 1;
    return [503, { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } }];
  }
  if (path === '/props') {
    return [
      200,
      {
        default_generation_settings: { n_ctx: 2_048 },
        modalities: { vision: false },
        chat_template: '{{ messages }}',
        chat_template_caps: { supports_tools: true },
      },
    ];
  }
  if (path === '/v1/models') {
    return [
      200,
      {
        models: [{ name: file, model: file, type: 'model', capabilities: ['completion'] }],
        object: 'list',
        data: [
          {
            id: file,
            object: 'model',
            created: Math.floor(Date.now() / 1000),
            owned_by: 'llamacpp',
            meta: { n_ctx: 2_048, n_ctx_train: 8_192 },
          },
        ],
      },
    ];
  }
  if (path === '/apply-template' && body.includes('provoke image')) return [404, {}];
  if (path === '/apply-template') return [200, { prompt: '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n' }];
  if (path === '/tokenize') return [200, { tokens: body.includes('<|im_start|>') ? [1, 4093, 198, 19556, 2] : [] }];
  const fault = Object.entries(faults).find(([name]) => body.includes(`provoke ${name}`));
  return fault?.[1] ?? completion(file, usage);
}

function ollama(path: string, body: string): Reply {
  if (path === '/v1/models') {
    const ids = ['llama3.2:latest', 'nomic-embed-text:latest'];
    return [200, { object: 'list', data: ids.map(id => ({ id, object: 'model', created: 1_760_000_000 })) }];
  }
  if (path === '/api/ps') return [200, { models: [] }];
  if (path === '/api/show') {
    const { model } = JSON.parse(body) as { model: string };
    const capabilities = model.startsWith('nomic') ? ['embedding'] : ['completion', 'tools'];
    const parameters = cutsAt === undefined ? '' : `num_ctx    ${cutsAt}`;
    return [200, { parameters, model_info: {}, capabilities }];
  }
  // Ollama with a context of 4,096 tokens: it keeps the end of a longer prompt.
  const tokens = Math.min(body.length / 5, 4_000);
  const answeredBy = body.includes('provoke another') ? 'tinyllama:1.1b' : 'llama3.2:latest';
  return completion(answeredBy, tokens > 100 ? { ...usage, prompt_tokens: Math.round(tokens) } : usage);
}

const servers: Record<string, (path: string, body: string) => Reply> = {
  llama,
  ollama,
  empty: () => [200, { object: 'list', data: [] }],
  locked: () => (listRefused ? error(401, 'Invalid API Key', 'authentication_error') : [200, { data: [{ id: 'x' }] }]),
};
const server: Server = createServer((request, response) => {
  void (async () => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    const [, name = '', ...path] = (request.url ?? '').split('/');
    seen.push({ url: request.url ?? '', body });
    const [status, answer] = servers[name]?.(`/${path.join('/')}`, body) ?? [404, {}];
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer));
  })();
});

let gateway: Gateway;
beforeAll(async () => {
  listRefused = true;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway = await startGateway({
    config: `
simulator: { tokens_per_second: 0 }
log_level: info
retries: 2
timeouts: { first_event: 4s }
discovered: [{ models: ["ollama/*"], pricing: { input: 1, output: 2 } }]
`,
    environment: {
      LLAMA_CPP_BASE_URL: `${at}/llama/v1`,
      OLLAMA_HOST: `${at}/ollama/v1`,
      LM_STUDIO_BASE_URL: `${at}/empty/v1`,
      VLLM_BASE_URL: `${at}/locked/v1`,
      VLLM_API_KEY: 'canary-of-vllm',
    },
  });
});
afterAll(async () => {
  await endGateway(gateway);
  server.close();
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json & { readonly error?: Json; readonly choices?: readonly { message: { content: string } }[] };
}

async function ask(model: string, content: unknown): Promise<Answer> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: 20, messages: [{ role: 'user', content }] }),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] };
}
async function model(id: string): Promise<Json & { readonly available: boolean }> {
  const headers = { authorization: `Bearer ${gateway.apiKey}` };
  return (await (await fetch(`${gateway.url}/v1/models/${id}`, { headers })).json()) as Json & { available: boolean };
}
const calls = (): number => seen.filter(({ url }) => url === '/llama/v1/chat/completions').length;
const llamaId = 'llama-cpp/SmolLM2-135M-Instruct.Q4_1.gguf';

describe('discovered models', () => {
  test('are in the banner: each provider with its models, or with the reason why it has none', () => {
    const banner = gateway.printed();
    expect(banner).toMatch(/^ {2}llama-cpp +llama-cpp\/SmolLM2-135M-Instruct\.Q4_1\.gguf$/m);
    expect(banner).toMatch(/^ {2}ollama +ollama\/llama3\.2:latest$/m);
    expect(banner).toMatch(/^ {2}lm-studio +lists no usable model/m);
    expect(banner).toMatch(/^ {2}vllm +refuses its key/m);
  });

  test('that are missing are logged at once: an empty list, and a refused key, which is not in the log', async () => {
    await expect.poll(() => gateway.printed()).toMatch(/a server refused its key/);
    await expect.poll(() => gateway.printed()).toMatch(/a server lists no usable model/);
    const lines = gateway.printed();
    expect(lines).toMatch(/"provider":"lm-studio".*a server lists no usable model/);
    expect(lines).toMatch(/"provider":"vllm","status":401.*a server refused its key/);
    expect(lines).not.toContain('canary');
  });

  test('of llama.cpp have the file’s name, the context of one request and no images, and are as old as their discovery', async () => {
    const found = await model(llamaId);
    expect(found).toMatchObject({
      context_length: 2_048,
      capabilities: { vision: false, function_call: true, reasoning: false },
      pricing: { input: 0, output: 0 },
    });
    expect(Math.abs(Date.parse(String(found['created_at'])) - Date.now())).toBeLessThan(600_000);
  });

  test('of Ollama do not include embedding models; they have tools and the price of their pattern, and a name without a tag finds the latest', async () => {
    expect(await model('ollama/nomic-embed-text:latest')).toMatchObject({ error: { code: 'not_found' } });
    expect(await model('ollama/llama3.2')).toMatchObject({
      id: 'ollama/llama3.2:latest',
      created: 1_760_000_000,
      context_length: 4_096,
      capabilities: { vision: false, function_call: true, reasoning: false },
      pricing: { input: 1, output: 2 },
    });
    const answer = await ask('llama3.2', 'hi');
    expect([answer.status, answer.body['model']]).toEqual([200, 'ollama/llama3.2:latest']);
    expect(answer.headers.get('x-tollgate-cost')).toBe('0.000037');
    const sent = seen.findLast(({ url }) => url === '/ollama/v1/chat/completions');
    expect(JSON.parse(sent?.body ?? '{}')).toMatchObject({ model: 'llama3.2:latest' });
  });

  test('images to a text model are refused before the server is called', async () => {
    const before = calls();
    const url =
      'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    const refused = await ask(llamaId, [{ type: 'image_url', image_url: { url } }]);
    expect([refused.status, refused.body.error?.['code']]).toEqual([400, 'unsupported_feature']);
    expect(calls()).toBe(before);
  });
});

describe('errors that a request causes', () => {
  test.each(['image', 'template', 'schema'])(
    'an error about the %s is reported as the client’s mistake, and is not retried',
    async name => {
      const before = calls();
      const refused = await ask(llamaId, `provoke ${name}`);
      expect([refused.status, refused.body.error?.['code']]).toEqual([400, 'upstream_rejected']);
      expect(refused.body.error?.['message']).toBe((faults[name]?.[1]?.['error'] as Json | undefined)?.['message']);
      expect(refused.headers.get('x-should-retry')).not.toBe('true');
      expect(calls()).toBe(before + 1);
    },
  );

  test('have the code context_length_exceeded if the context is too small', async () => {
    expect((await ask(llamaId, 'provoke context')).body.error).toMatchObject({ code: 'context_length_exceeded' });
  });

  test('do not open the circuit breaker, however many there are; failures of the server are retried', async () => {
    for (let n = 0; n < 6; n += 1) expect((await ask(llamaId, 'provoke image')).status).toBe(400);
    expect((await model(llamaId)).available).toBe(true);
    expect((await ask(llamaId, 'hi')).status).toBe(200);
    const before = calls();
    expect((await ask(llamaId, 'provoke broken')).status).toBe(502);
    expect(calls()).toBe(before + 3);
  });
});

test.each<readonly [member: string, value: unknown]>([
  [
    'logit_bias',
    [
      ['Hello', -5],
      [15_496, false],
    ],
  ],
  ['response_format', { type: 'json_schema', json_schema: { schema: { type: 'object' } } }],
  ['reasoning_effort', 'ultra'],
  ['verbosity', 'huge'],
])('%s in a form that is not in the specification reaches the server unchanged', async (member, value) => {
  seen.length = 0;
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.apiKey}` },
    body: JSON.stringify({ model: llamaId, messages: [{ role: 'user', content: 'Hi' }], [member]: value }),
  });
  expect(response.status).toBe(200);
  expect(JSON.parse(seen.find(({ url }) => url.endsWith('/chat/completions'))?.body ?? '{}')).toMatchObject({
    [member]: value,
  });
});

test('the server counts tokens, with the template that it applies; if it can’t, the gateway counts', async () => {
  const count = async (text: string): Promise<unknown> => {
    const response = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': gateway.apiKey },
      body: JSON.stringify({ model: llamaId, messages: [{ role: 'user', content: text }] }),
    });
    return response.json();
  };
  seen.length = 0;
  expect(await count('Hi')).toMatchObject({ input_tokens: 5 });
  expect(seen.map(({ url }) => url)).toEqual(['/llama/apply-template', '/llama/tokenize']);
  expect(JSON.parse(seen[0]?.body ?? '')).toMatchObject({ messages: [{ role: 'user', content: 'Hi' }] });
  expect(await count('provoke image')).toMatchObject({ input_tokens: expect.any(Number) as unknown });
});

describe('silent changes of a request by a server', () => {
  const logged = (text: string): number => gateway.printed().split(text).length - 1;
  // Ollama does not report its context if none was set, so the prompt is sent.
  const long = 'The quick brown fox jumps over the lazy dog. '.repeat(1_500);

  test('if the server cuts the prompt, the client gets a warning, and one line is logged', async () => {
    cutsAt = undefined;
    await gateway.admin.reloadConfiguration({});
    await expect.poll(async () => (await model('ollama/llama3.2'))['context_length'], { timeout: 10_000 }).toBe(null);
    const whole = await ask('ollama/llama3.2', long.slice(0, 9_000));
    expect([whole.status, whole.headers.get('x-tollgate-warnings')]).toEqual([200, null]);
    for (let n = 0; n < 2; n += 1) {
      const cut = await ask('ollama/llama3.2', long);
      expect([cut.status, cut.headers.get('x-tollgate-warnings')]).toEqual([200, 'upstream_truncated']);
    }
    await expect.poll(() => logged('a provider cuts prompts')).toBe(1);
  });

  test('if another model answers, its name is logged once', async () => {
    for (let n = 0; n < 3; n += 1) {
      const { body } = await ask('ollama/llama3.2', 'provoke another');
      expect(body['model']).toBe('ollama/llama3.2:latest');
    }
    await expect
      .poll(() =>
        logged('"answers_as":"tinyllama:1.1b","msg":"a provider answered with another model than the requested one"'),
      )
      .toBe(1);
    expect(logged('a provider answered with another model than the requested one')).toBe(1);
    const { routes } = await gateway.admin.listRoutes({});
    const route = routes.find(each => each.model === 'ollama/llama3.2:latest');
    expect(route).toMatchObject({ answersAs: 'tinyllama:1.1b', cutsInput: true });
    expect(routes.find(each => each.model === llamaId)).toMatchObject({ answersAs: '', cutsInput: false });
  });
});

describe('a model that is being loaded', () => {
  test('is waited for: the answer comes once the model is loaded', async () => {
    loading = 3;
    const before = calls();
    const answer = await ask(llamaId, 'hi');
    expect([answer.status, answer.body.choices?.[0]?.message.content]).toEqual([200, 'Hello there']);
    expect(calls()).toBe(before + 4);
  });

  test('is waited for until the timeout of the first event: then 502 with retry-after, nothing is held, and no circuit breaker opens', async () => {
    for (let n = 0; n < 2; n += 1) {
      loading = 1_000;
      const started = performance.now();
      const late = await Promise.all(Array.from({ length: 4 }, () => ask(llamaId, 'hi')));
      expect(performance.now() - started).toBeGreaterThan(3_000);
      for (const { status, body, headers } of late) {
        expect([status, body.error?.['code'], headers.get('retry-after')]).toEqual([502, 'upstream_error', '5']);
        expect(body.error?.['message']).toBe('The model’s provider is still loading the model.');
      }
    }
    loading = 0;
    expect((await model(llamaId)).available).toBe(true);
    expect((await ask(llamaId, 'hi')).status).toBe(200);
    expect(await heldBy(gateway)).toBe(0n);
  }, 30_000);
});
