/** Requests to Chat servers that deviate from the protocol, by the dialects of their presets. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, JsonObject } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { findDialect } from '../../src/upstreams/dialects.ts';

/** Returns the body that the preset's server gets for a request with an output limit of 7. */
function sent(preset: string, codec: ClientCodec, body: JsonObject, model = 'm'): JsonObject {
  const decoded = codec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const encoded = chatCodec.encodeRequest({
    request: decoded.request,
    model,
    maxOutputTokens: 7,
    stream: true,
    provider: preset,
    dialect: findDialect(preset),
  });
  return encoded.body;
}

const messages = [{ role: 'user', content: 'hi' }];
const requested: Readonly<Record<string, readonly [ClientCodec, JsonObject]>> = {
  'Chat, the new name': [chatCodec, { model: 'x', messages, max_completion_tokens: 9 }],
  'Chat, the old name': [chatCodec, { model: 'x', messages, max_tokens: 9 }],
  'Chat, none': [chatCodec, { model: 'x', messages }],
  'Chat, a stream': [chatCodec, { model: 'x', messages, stream: true, stream_options: { include_usage: false } }],
  Messages: [messagesCodec, { model: 'x', messages, max_tokens: 9 }],
  Responses: [responsesCodec, { model: 'x', input: 'hi', max_output_tokens: 16 }],
};
const limits = ({ max_tokens: old, max_completion_tokens: current }: JsonObject): unknown => [old, current];

describe.each(Object.entries(requested))('%s', (_, [codec, body]) => {
  test.each(['mistral', 'deepseek', 'together', 'fireworks', 'ollama', 'llama-cpp', 'lm-studio'])(
    '%s gets the output limit under the only name that it knows',
    preset => {
      expect(limits(sent(preset, codec, body))).toEqual([7, undefined]);
    },
  );

  test('OpenAI gets the output limit under one name: the client’s or the current one', () => {
    const expected = body['max_tokens'] !== undefined && codec === chatCodec ? [7, undefined] : [undefined, 7];
    expect(limits(sent('openai', codec, body))).toEqual(expected);
  });

  test('usage is requested, except from Mistral, which refuses the field', () => {
    expect(sent('mistral', codec, body)['stream_options']).toBeUndefined();
    expect(sent('groq', codec, body)['stream_options']).toEqual({ include_usage: true });
  });
});

/** Returns why a server refuses a body, as it words it; undefined if it takes it. */
type Server = (body: JsonObject) => string | undefined;

const list = (value: unknown): JsonObject[] => (Array.isArray(value) ? (value as JsonObject[]) : []);

/** Refuses members that are not in the list, in the body or in messages of the assistant. */
function unknownMember(body: JsonObject, known: readonly string[], ofAssistant: readonly string[]): string | undefined {
  const foreign = Object.keys(body).find(name => !known.includes(name));
  if (foreign !== undefined) return `property ${foreign} is unsupported`;
  const assistants = list(body['messages']).filter(({ role }) => role === 'assistant');
  return assistants.flatMap(each => Object.keys(each)).find(name => !ofAssistant.includes(name));
}

const common = ['model', 'messages', 'stream', 'temperature', 'top_p', 'tools', 'tool_choice', 'stop', 'n'];
const ofAll = ['role', 'content', 'tool_calls'];

/** Servers that refuse what the providers refuse, as the sources of their dialects say. */
const servers: Readonly<Record<string, Server>> = {
  mistral(body) {
    const members = [...common, 'max_tokens', 'random_seed', 'response_format', 'presence_penalty', 'prompt_cache_key'];
    const unknown = unknownMember(body, [...members, 'parallel_tool_calls', 'reasoning_effort'], [...ofAll, 'prefix']);
    if (unknown !== undefined) return unknown;
    const messages = list(body['messages']);
    const roles = messages.map(({ role }) => (typeof role === 'string' ? role : ''));
    if (roles.includes('developer')) return 'developer is no role';
    if (roles.some((role, index) => role === 'user' && roles[index - 1] === 'tool')) {
      return 'Unexpected role "user" after role "tool"';
    }
    const ids = messages.flatMap(each => [each['tool_call_id'], ...list(each['tool_calls']).map(({ id }) => id)]);
    const wrong = ids.find(id => id !== undefined && !(typeof id === 'string' && /^[a-zA-Z0-9]{9}$/.test(id)));
    return wrong === undefined ? undefined : `Tool call id was ${JSON.stringify(wrong)}`;
  },
  groq(body) {
    const known = [...common, 'max_completion_tokens', 'stream_options', 'seed', 'user', 'response_format'];
    const unknown = unknownMember(body, [...known, 'reasoning_effort', 'max_tokens'], [...ofAll, 'reasoning']);
    const model = typeof body['model'] === 'string' ? body['model'] : '';
    if (!/gpt-oss|qwen3/.test(model) && list(body['messages']).some(each => 'reasoning' in each)) {
      return 'reasoning is not supported with this model';
    }
    const named = list(body['messages']).some(each => 'name' in each && each['role'] !== 'tool');
    return unknown ?? (named ? 'name is unsupported' : undefined);
  },
  deepseek(body) {
    const messages = list(body['messages']);
    if (messages.some(({ role }) => role === 'developer')) return 'unknown variant developer';
    if (messages.some(each => 'reasoning' in each)) return 'unknown member reasoning';
    const { response_format: format } = body;
    return format !== undefined && (format as JsonObject)['type'] === 'json_schema' ? 'no json_schema' : undefined;
  },
  ollama: body => (list(body['messages']).some(each => 'reasoning_content' in each) ? 'not read' : undefined),
};

const call = { id: 'call_7f3aa0c1d2', type: 'function', function: { name: 'look', arguments: '{}' } };
const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
const format = { type: 'json_schema', json_schema: { name: 'place', schema: { type: 'object' } } };
const conversations: Readonly<Record<string, readonly [ClientCodec, JsonObject]>> = {
  'a Chat client with everything': [
    chatCodec,
    {
      model: 'x',
      messages: [
        { role: 'developer', content: 'Be short.' },
        { role: 'user', content: 'Where?', name: 'ann' },
        { role: 'assistant', content: null, reasoning_content: 'I look.', tool_calls: [call] },
        { role: 'tool', tool_call_id: call.id, content: 'Rome' },
        { role: 'user', content: 'And now?' },
      ],
      tools,
      response_format: format,
      seed: 3,
      logprobs: true,
      top_logprobs: 2,
      store: true,
      metadata: { a: 'b' },
      verbosity: 'low',
      prompt_cache_key: 'k',
      safety_identifier: 's',
    },
  ],
  'a Messages client that answers a call and asks on': [
    messagesCodec,
    {
      model: 'x',
      max_tokens: 9,
      messages: [
        { role: 'user', content: 'Where?' },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'I look.', signature: 's' },
            { type: 'tool_use', id: 'toolu_01', name: 'look', input: {} },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_01', content: 'Rome' },
            { type: 'text', text: 'And now?' },
          ],
        },
      ],
      tools: [{ name: 'look', input_schema: { type: 'object' } }],
    },
  ],
  'a Responses client': [
    responsesCodec,
    {
      model: 'x',
      input: [
        { role: 'developer', content: 'Be short.' },
        { role: 'user', content: 'Where?' },
        { type: 'function_call', call_id: 'call_7f3aa0c1d2', name: 'look', arguments: '{}' },
        { type: 'function_call_output', call_id: 'call_7f3aa0c1d2', output: 'Rome' },
        { role: 'user', content: 'And now?' },
      ],
      text: { format: { type: 'json_schema', name: 'place', schema: { type: 'object' } }, verbosity: 'low' },
      max_output_tokens: 16,
    },
  ],
};

describe.each(Object.entries(conversations))('%s', (_, [codec, body]) => {
  test.each(Object.entries(servers))('is understood by %s, which refuses what it does not know', (preset, refuse) => {
    expect(refuse(sent(preset, codec, structuredClone(body)))).toBeUndefined();
  });

  test('sends one id for a call and its result, the same in every turn, to Mistral', () => {
    const ids = (sentBody: JsonObject): unknown[] =>
      list(sentBody['messages']).flatMap(each => [
        ...list(each['tool_calls']).map(({ id }) => id),
        each['tool_call_id'],
      ]);
    const [id, ...rest] = ids(sent('mistral', codec, structuredClone(body))).filter(each => each !== undefined);
    expect(rest).toEqual([id]);
    expect(ids(sent('mistral', codec, structuredClone(body))).filter(each => each !== undefined)).toEqual([id, id]);
  });
});

test('earlier reasoning is where each server reads it', () => {
  const history = [...messages, { role: 'assistant', content: 'Rome.', reasoning_content: 'I look.' }, ...messages];
  const assistant = (preset: string, model?: string): unknown =>
    list(sent(preset, chatCodec, { model: 'x', messages: history }, model)['messages'])[1];
  const said = { role: 'assistant', content: 'Rome.' };
  expect(assistant('groq', 'openai/gpt-oss-120b')).toEqual({ ...said, reasoning: 'I look.' });
  // "reasoning is not supported with this model"
  expect(assistant('groq', 'llama-3.3-70b-versatile')).toEqual(said);
  expect(assistant('ollama')).toEqual({ ...said, reasoning: 'I look.' });
  expect(assistant('deepseek')).toEqual({ ...said, reasoning_content: 'I look.' });
  const parts = [
    { type: 'thinking', thinking: [{ type: 'text', text: 'I look.' }] },
    { type: 'text', text: 'Rome.' },
  ];
  expect(assistant('mistral')).toEqual({ role: 'assistant', content: parts });
});

test.each<[string, ClientCodec, JsonObject]>([
  ['Chat', chatCodec, { messages, reasoning_effort: 'none' }],
  ['Messages', messagesCodec, { messages, max_tokens: 9, thinking: { type: 'disabled' } }],
  ['Responses', responsesCodec, { input: 'hi', reasoning: { effort: 'none' } }],
])('DeepSeek is told in its own words that it must not reason, for a client of %s', (_, codec, fields) => {
  const body = sent('deepseek', codec, { model: 'x', ...fields });
  expect([body['thinking'], body['reasoning_effort']]).toEqual([{ type: 'disabled' }, undefined]);
});

test('DeepSeek gets a schema in the prompt, Mistral the seed under its name, and no provider store or metadata', () => {
  const body = { model: 'x', messages, response_format: format, seed: 3, store: true, metadata: { a: 'b' } };
  const schema = JSON.stringify(format.json_schema.schema);
  const told = sent('deepseek', chatCodec, body);
  expect(told['response_format']).toEqual({ type: 'json_object' });
  expect(list(told['messages'])).toEqual([
    { role: 'system', content: expect.stringContaining(schema) as unknown },
    ...messages,
  ]);
  expect(sent('mistral', chatCodec, body)).toMatchObject({ random_seed: 3 });
  expect(sent('openai', chatCodec, body)).not.toHaveProperty('store');
  expect(sent('openai', chatCodec, body)).not.toHaveProperty('metadata');
});

test.each<[string, string, string | undefined, string[]]>([
  ['openai/gpt-oss-20b', 'medium', 'medium', []],
  ['openai/gpt-oss-20b', 'xhigh', 'high', ['reasoning_effort']],
  ['openai/gpt-oss-20b', 'none', 'low', ['reasoning_effort']],
  ['qwen/qwen3-32b', 'none', 'none', []],
  ['qwen/qwen3-32b', 'high', 'default', ['reasoning_effort']],
  ['llama-3.3-70b-versatile', 'none', undefined, []],
  ['llama-3.3-70b-versatile', 'low', undefined, ['reasoning_effort']],
])('Groq’s %s gets for the effort %s the nearest one that it takes', (model, effort, expected, dropped) => {
  const body = { model: 'x', messages, reasoning_effort: effort };
  const { request } = chatCodec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const dialect = findDialect('groq');
  const encoded = chatCodec.encodeRequest({ request, model, maxOutputTokens: 7, stream: true, dialect });
  expect([encoded.body['reasoning_effort'], encoded.dropped]).toEqual([expected, dropped]);
});

test('what a server refuses is left out with a warning, but for values that change nothing', () => {
  const body = { model: 'm', messages, logprobs: true, top_logprobs: 2, verbosity: 'low', service_tier: 'auto' };
  const { request } = chatCodec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const dialect = findDialect('mistral');
  const encoded = chatCodec.encodeRequest({ request, model: 'm', maxOutputTokens: 7, stream: true, dialect });
  expect(encoded.dropped).toEqual(['logprobs', 'top_logprobs', 'verbosity']);
});

test('the name of a speaker that Groq refuses is left out with a warning; that of a tool’s result stays', () => {
  const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } };
  const body = {
    model: 'm',
    messages: [
      { role: 'user', name: 'ann', content: 'Where?' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', name: 'look', tool_call_id: 'call_1', content: 'Rome' },
    ],
  };
  const { request } = chatCodec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const encoded = chatCodec.encodeRequest({
    request,
    model: 'm',
    maxOutputTokens: 7,
    stream: true,
    dialect: findDialect('groq'),
  });
  expect(encoded.dropped).toEqual(['name']);
  expect(list(encoded.body['messages']).map(({ name }) => name)).toEqual([undefined, undefined, 'look']);
});
