/** Members that cost more than tokens, and members that the gateway does not know: on every path they are charged, counted as input or refused. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, newAccount, newKey, type RecordDetailJson } from './account-client.ts';
import { type Json, ScriptedUpstream } from './scripted-upstream.ts';

const pixel = Buffer.from('89504e470d0a1a0a', 'hex').toString('base64');
const said = { index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' };
const answers: Readonly<Record<string, Json>> = {
  'of chat': { id: 'c', object: 'chat.completion', choices: [said] },
  'of completions': {
    id: 't',
    object: 'text_completion',
    choices: [{ index: 0, text: 'Yes.', finish_reason: 'stop' }],
  },
  'of messages': {
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'Yes.' }],
    stop_reason: 'end_turn',
  },
  'of embeddings': {
    object: 'list',
    data: [{ index: 0, embedding: [1] }],
    usage: { prompt_tokens: 3, total_tokens: 3 },
  },
  'of rerank': { results: [{ index: 0, relevance_score: 1 }] },
  'of gemini': { candidates: [{ content: { parts: [{ text: 'Yes.' }] }, finishReason: 'STOP' }] },
  'of images': { created: 1, data: [{ b64_json: pixel }] },
};

interface Path {
  readonly path: string;
  readonly body: Json;
}
const paths = {
  chat: { path: '/v1/chat/completions', body: { messages: [{ role: 'user', content: 'of chat' }] } },
  completions: { path: '/v1/completions', body: { prompt: 'of completions' } },
  responses: { path: '/v1/responses', body: { input: 'of responses' } },
  messages: { path: '/v1/messages', body: { max_tokens: 16, messages: [{ role: 'user', content: 'of messages' }] } },
  embeddings: { path: '/v1/embeddings', body: { input: 'of embeddings' } },
  rerank: { path: '/v1/rerank', body: { query: 'of rerank', documents: ['one'] } },
  gemini: {
    path: '/v1beta/models/gemini:generateContent',
    body: { model: undefined, contents: [{ role: 'user', parts: [{ text: 'of gemini' }] }] },
  },
  images: { path: '/v1/images/generations', body: { prompt: 'of images' } },
} as const satisfies Readonly<Record<string, Path>>;
type PathName = keyof typeof paths;

let upstream: ScriptedUpstream;
let gateway: Gateway;

beforeAll(async () => {
  const scripts = Object.entries(answers).map(([word, whole]) => [word, { frames: [], whole }]);
  upstream = await ScriptedUpstream.start(Object.fromEntries(scripts) as never);
  const base = upstream.url;
  const priced = (id: string, price: string, more = ''): string =>
    `  - { id: ${id}, ${more} pricing: { ${price} }, routes: [{ provider: ${id}, model: m }] }`;
  const text = 'context_length: 100000, max_output_tokens: 100, capabilities: { function_call: true },';
  gateway = await startGateway({
    config: [
      'simulator: { enabled: false }',
      'providers:',
      `  chat: { protocol: chat, base_url: "${base}/v1", api_key: k }`,
      `  responses: { protocol: responses, base_url: "${base}/v1", api_key: k }`,
      `  messages: { protocol: messages, base_url: "${base}", api_key: k }`,
      `  gemini: { protocol: gemini, base_url: "${base}", api_key: k }`,
      `  open: { protocol: chat, base_url: "${base}/v1", api_key: k, passthrough: all }`,
      `  open-messages: { protocol: messages, base_url: "${base}", api_key: k, passthrough: all }`,
      `  images: { protocol: images, base_url: "${base}/v1", api_key: k }`,
      'models:',
      priced('chat', 'input: 1, output: 1', `${text} endpoints: [/v1/chat/completions, /v1/completions],`),
      ...['responses', 'messages', 'gemini', 'open', 'open-messages'].map(id =>
        priced(id, 'input: 1, output: 1', text),
      ),
      '  - { id: embeddings, endpoints: [/v1/embeddings], pricing: { input: 1 }, routes: [{ provider: chat, model: m }] }',
      '  - { id: rerank, endpoints: [/v1/rerank], pricing: { input: 1 }, routes: [{ provider: chat, model: m }] }',
      '  - { id: images, endpoints: [/v1/images/generations], pricing: { image: 0.01 }, routes: [{ provider: images, model: m }] }',
      '',
    ].join('\n'),
  });
});
afterAll(async () => {
  upstream.stop();
  await endGateway(gateway);
});

const models: Partial<Record<PathName, string>> = { completions: 'chat' };

/** Sends a request of an account with `dollars`. Returns the status and the error. */
async function send(name: PathName, members: Json, dollars = 1): Promise<{ status: number; error: Json }> {
  const { managementKey } = await newAccount(gateway, dollars);
  const { key } = await newKey(gateway, {}, managementKey);
  const { path, body } = paths[name];
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: models[name] ?? name, ...body, ...members }),
  });
  const json = (await response.json()) as Json;
  return { status: response.status, error: (json['error'] ?? {}) as Json };
}

describe.each(Object.keys(paths) as PathName[])('%s', name => {
  test.each<readonly [string, Json]>([
    ['best_of', { best_of: 20 }],
    ['use_beam_search', { use_beam_search: true }],
    ['num_return_sequences', { num_return_sequences: 4 }],
    ['generation_config.num_beams', { generation_config: { num_beams: 8 } }],
    ['speed', { speed: 'warp' }],
    ['inference_geo', { inference_geo: 'us' }],
    ['billing_policy', { billing_policy: { type: 'billing_policy', bill_to: 'user_profile' } }],
    ['background_options', { background_options: { completion_window: '24h' } }],
    ['completion_window', { completion_window: '24h' }],
  ])('%s would cost what nobody pays, and is refused', async (param, members) => {
    const before = upstream.bodies.length;
    const { status, error } = await send(name, members);
    expect(status).toBe(400);
    expect(JSON.stringify(error)).toContain(`\`${param}\``);
    expect(upstream.bodies).toHaveLength(before);
  });

  test.runIf(name !== 'images')('an unknown member of 500 kB is input that the balance must pay for', async () => {
    const before = upstream.bodies.length;
    const { status } = await send(name, { chat_template_kwargs: { documents: ['word '.repeat(100_000)] } }, 0.005);
    expect([400, 429]).toContain(status);
    expect(upstream.bodies).toHaveLength(before);
  });
});

describe('gemini', () => {
  const config = (members: Json): Json[] => [{ generationConfig: members }, { generation_config: members }];
  test.each<readonly [string, Json]>([
    ...config({ responseModalities: ['TEXT', 'IMAGE'] }).map(body => ['responseModalities', body] as const),
    ...config({ response_modalities: ['AUDIO'] }).map(body => ['responseModalities', body] as const),
    ...config({ speechConfig: { languageCode: 'de-DE' } }).map(body => ['speechConfig', body] as const),
    ...config({ image_config: { image_size: '4K' } }).map(body => ['image_config', body] as const),
    ...config({ imageConfig: { imageSize: '4K' } }).map(body => ['imageConfig', body] as const),
    ...config({ routing_config: { auto_mode: {} } }).map(body => ['routing_config', body] as const),
    ...config({ modelSelectionConfig: {} }).map(body => ['modelSelectionConfig', body] as const),
    ['cachedContent', { cachedContent: 'cachedContents/x' }],
    ['cached', { cached_content: 'cachedContents/x' }],
    ['modelArmorConfig', { model_armor_config: { prompt_template_name: 't' } }],
    ['serviceTier', { serviceTier: 'turbo' }],
    ['serviceTier', { service_tier: 'ULTRA' }],
  ])('%s of %o would cost what nobody pays, and is refused', async (param, members) => {
    const before = upstream.bodies.length;
    const { status, error } = await send('gemini', members);
    expect(status).toBe(400);
    expect(JSON.stringify(error)).toContain(param);
    expect(upstream.bodies).toHaveLength(before);
  });

  test('members with the values that cost nothing are sent, and tools without a price are left out', async () => {
    const before = upstream.bodies.length;
    const search = [{ google_search: {}, code_execution: {}, url_context: {} }, { enterpriseWebSearch: {} }];
    const { error } = await send('gemini', {
      generation_config: { response_modalities: ['TEXT'] },
      cachedContent: '',
      serviceTier: 'STANDARD',
      tools: search,
    });
    expect(error).toEqual({});
    expect(upstream.bodies[before]).toMatchObject({
      generation_config: { response_modalities: ['TEXT'] },
      tools: [{ url_context: {} }],
    });
  });
});

test.each<readonly [PathName, string]>([
  ['embeddings', 'priority'],
  ['embeddings', 'turbo'],
  ['rerank', 'flex'],
  ['images', 'fast'],
])('%s at the tier %s would cost what nobody pays, and is refused', async (name, tier) => {
  const before = upstream.bodies.length;
  const { status, error } = await send(name, { service_tier: tier });
  expect([status, error['param']]).toEqual([400, 'service_tier']);
  expect(upstream.bodies).toHaveLength(before);
  await send(name, { service_tier: 'auto' });
  expect(upstream.bodies).toHaveLength(before + 1);
});

test.each<readonly [PathName, string, Json, Record<string, string>, readonly string[]]>([
  ['chat', 'open', { messages: [{ role: 'user', content: 'of chat' }] }, {}, []],
  [
    'chat',
    'open',
    { speed: 'warp', tools: [{ type: 'web_search' }], generation_config: { num_beams: 8 } },
    {},
    ['speed', 'generation_config.num_beams', 'tools.web_search'],
  ],
  [
    'messages',
    'open-messages',
    { inference_geo: 'us' },
    { 'anthropic-beta': 'context-1m-2025-08-07,other' },
    ['inference_geo', 'anthropic-beta:context-1m-2025-08-07'],
  ],
])(
  'with passthrough: all, the record of %s at %s names what costs and has no price: %o',
  async (name, model, members, ...rest) => {
    const [headers, unpriced] = rest;
    const { managementKey } = await newAccount(gateway, 1);
    const { key } = await newKey(gateway, {}, managementKey);
    const before = upstream.bodies.length;
    const response = await fetch(gateway.url + paths[name].path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
      body: JSON.stringify({ ...paths[name].body, model, ...members }),
    });
    await response.text();
    expect(upstream.bodies[before]).toMatchObject(members);
    const id = response.headers.get('x-request-id') ?? '';
    const { body } = await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, { key: managementKey });
    expect(body.unpriced).toEqual(unpriced);
  },
);

test.each<readonly [PathName, Json]>([
  ['chat', { n: 1, best_of: 1, use_beam_search: false, generation_config: { num_beams: 1 } }],
  ['completions', { best_of: 1, use_beam_search: null }],
  ['embeddings', { n: 1 }],
])('%s takes %o, which asks for one sample', async (name, members) => {
  const before = upstream.bodies.length;
  await send(name, members);
  expect(upstream.bodies[before]).toMatchObject(members);
});

test.each<readonly [PathName, Json]>([
  ['chat', { messages: [{ role: 'user', content: 'of chat' }], tools: [], reasoning: { x: 'word '.repeat(100_000) } }],
  ['responses', { input: 'hi', reasoning: { x: 'word '.repeat(100_000) } }],
  ['messages', { thinking: { type: 'disabled', x: 'word '.repeat(100_000) } }],
])('an unknown member of 500 kB inside a known one of %s is input too', async (name, members) => {
  const before = upstream.bodies.length;
  expect([400, 429]).toContain((await send(name, members, 0.005)).status);
  expect(upstream.bodies).toHaveLength(before);
});
