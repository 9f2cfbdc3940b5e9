/** What a request writes to a provider's cache is held and charged at the price of the lifetime that it asks for. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, newAccount, newKey, type RecordDetailJson } from './account-client.ts';
import { type Json, ScriptedUpstream } from './scripted-upstream.ts';

/** Answers for 1,000 tokens, of which 900 were written to a cache. */
const scripts = {
  'of responses': {
    frames: [],
    whole: {
      id: 'r',
      object: 'response',
      status: 'completed',
      output: [{ id: 'm', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.' }] }],
      usage: { input_tokens: 1000, output_tokens: 0, input_tokens_details: { cache_write_tokens: 900 } },
    },
  },
  'of chat': {
    frames: [],
    whole: {
      id: 'c',
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1000, completion_tokens: 0, prompt_tokens_details: { cache_write_tokens: 900 } },
    },
  },
  'of messages': {
    frames: [],
    whole: {
      id: 'm',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'Yes.' }],
      stop_reason: 'end_turn',
      usage: {
        input_tokens: 100,
        output_tokens: 0,
        cache_creation_input_tokens: 900,
        cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 900 },
      },
    },
  },
};

let upstream: ScriptedUpstream;
let gateway: Gateway;
let managementKey: string;
let key: string;

beforeAll(async () => {
  upstream = await ScriptedUpstream.start(scripts);
  const { url } = upstream;
  const model = (id: string, provider: string, caching: string): string =>
    `  - { id: ${id}, context_length: 2000, max_output_tokens: 100, pricing: { input: 1, output: 1, caching: ${caching} }, routes: [{ provider: ${provider}, model: m }] }`;
  gateway = await startGateway({
    config: [
      'simulator: { enabled: false }',
      'providers:',
      `  chat: { protocol: chat, base_url: "${url}/v1", api_key: k }`,
      `  responses: { protocol: responses, base_url: "${url}/v1", api_key: k }`,
      `  messages: { protocol: messages, base_url: "${url}", api_key: k }`,
      'models:',
      ...['chat', 'responses'].flatMap(provider => [
        model(`${provider}-all`, provider, '{ write_5m: 2, write_30m: 3, write_12h: 5 }'),
        model(`${provider}-half`, provider, '{ write_30m: 3 }'),
        model(`${provider}-none`, provider, '{ read: 0.1 }'),
      ]),
      model('messages-short', 'messages', '{ write_5m: 2 }'),
      model('messages-all', 'messages', '{ write_5m: 2, write_1h: 4, write_12h: 5 }'),
      '',
    ].join('\n'),
  });
  ({ managementKey } = await newAccount(gateway, 100));
  ({ key } = await newKey(gateway, {}, managementKey));
});
afterAll(async () => {
  upstream.stop();
  await endGateway(gateway);
});

const breakpoint = (protocol: string, ttl?: string): Json => {
  const type = protocol === 'chat' ? 'text' : 'input_text';
  const marked = { type, text: `of ${protocol}`, prompt_cache_breakpoint: { mode: 'explicit', ...(ttl && { ttl }) } };
  const turns = [{ role: 'user', content: [marked] }];
  return protocol === 'chat' ? { messages: turns } : { input: turns };
};
const option = (ttl: string): Json => ({ prompt_cache_options: { mode: 'implicit', ttl } });

async function ask(model: string, members: Json, own = key): Promise<Response> {
  const [protocol = ''] = model.split('-');
  const paths: Json = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages' };
  const turns = [{ role: 'user', content: `of ${protocol}` }];
  const input = protocol === 'responses' ? { input: turns } : { messages: turns };
  return fetch(`${gateway.url}${String(paths[protocol])}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${own}` },
    body: JSON.stringify({ model, ...(protocol === 'messages' ? { max_tokens: 20 } : {}), ...input, ...members }),
  });
}

test.each<readonly [model: string, members: Json, dollars: number]>([
  ...['chat', 'responses'].flatMap((protocol): [string, Json, number][] => [
    [`${protocol}-all`, {}, 2],
    [`${protocol}-all`, option('30m'), 3],
    [`${protocol}-all`, option('12h'), 5],
    [`${protocol}-all`, breakpoint(protocol, '12h'), 5],
    [`${protocol}-all`, breakpoint(protocol, '30m'), 3],
    [`${protocol}-all`, { ...breakpoint(protocol), ...option('12h') }, 5],
    [`${protocol}-half`, {}, 3],
    [`${protocol}-half`, option('12h'), 3],
    [`${protocol}-none`, option('12h'), 1],
  ]),
  ['messages-short', { cache_control: { type: 'ephemeral', ttl: '1h' } }, 2],
  ['messages-all', { cache_control: { type: 'ephemeral', ttl: '1h' } }, 4],
])('%s with %o is charged at $%d per million', async (model, members, dollars) => {
  const response = await ask(model, members);
  const id = response.headers.get('x-request-id') ?? '';
  const record = (await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, { key: managementKey })).body;
  const written = record.buckets.find(({ kind }) => kind.startsWith('cache_write'));
  expect([response.status, written?.tokens, written?.price]).toEqual([200, 900, dollars]);
});

test('the price of the lifetime is held', async () => {
  const text = 'word '.repeat(1500);
  const tries = [
    [{}, 0.01, false],
    [option('12h'), 0.01, true],
    [option('12h'), 0.05, false],
  ] as const;
  for (const [members, dollars, isRefused] of tries) {
    const poor = await newAccount(gateway, dollars);
    const own = (await newKey(gateway, {}, poor.managementKey)).key;
    const turns = [{ role: 'user', content: `${text} of responses` }];
    const { status } = await ask('responses-all', { input: turns, ...members }, own);
    expect([members, dollars, status === 429]).toEqual([members, dollars, isRefused]);
  }
});
