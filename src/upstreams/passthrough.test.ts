import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../codecs/chat/index.ts';
import type { JsonObject } from '../codecs/codec.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { Protocol } from '../gen/tollgate/v1/content_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { filterBody, filterHeaders, type Passthrough } from './passthrough.ts';

function filtered(
  policy: Passthrough,
  body: JsonObject,
  {
    protocol = Protocol.CHAT,
    unknown = [],
    paidTools,
  }: { protocol?: Protocol; unknown?: string[]; paidTools?: string[] } = {},
): unknown {
  const request = create(GenerateRequestSchema, { source: { protocol, unknownFields: unknown } });
  try {
    const sent = filterBody(policy, {
      protocol,
      request,
      encoded: { body: structuredClone(body), dropped: [] },
      accountId: 7,
      paidTools,
    });
    return sent.dropped.length === 0 ? sent.body : sent;
  } catch (thrown) {
    if (thrown instanceof GatewayError) return [thrown.code, thrown.facts.param];
    throw thrown;
  }
}

describe('by default', () => {
  test.each<readonly [string, JsonObject]>([
    ['web_search_options', { web_search_options: {} }],
    ['modalities', { modalities: ['text', 'audio'] }],
    ['speed', { speed: 'fast' }],
    ['inference_geo', { inference_geo: 'us' }],
    ['plugins', { plugins: [{ id: 'web' }] }],
    [
      'tools.1',
      { tools: [{ type: 'function' }, { type: 'image_generation' }], tool_choice: { type: 'image_generation' } },
    ],
    [
      'tools.0',
      {
        tools: [{ type: 'web_search_20260209', name: 'web_search' }],
        tool_choice: { type: 'tool', name: 'web_search' },
      },
    ],
    ['tools.0', { tools: [{ type: 'code_execution_20260120' }], tool_choice: { type: 'any' } }],
    ['tools.0', { tools: [{ type: 'web_search' }], tool_choice: 'required' }],
  ])('%s is refused if it costs extra', (param, body) => {
    expect(filtered('unpriced', body)).toEqual(['unsupported_feature', param]);
    expect(filtered('known', body)).toEqual(['unsupported_feature', param]);
    expect(filtered('all', body)).toEqual(body);
  });

  test.each<readonly [string, JsonObject, JsonObject]>([
    [
      'tools.image_generation',
      { tools: [{ type: 'function' }, { type: 'image_generation' }], tool_choice: 'required' },
      { tools: [{ type: 'function' }], tool_choice: 'required' },
    ],
    [
      'tools.web_search_20260209',
      { tools: [{ type: 'web_search_20260209', name: 'web_search' }], tool_choice: { type: 'auto' } },
      {},
    ],
    ['tools.googleSearch', { tools: [{ googleSearch: {} }] }, {}],
  ])('%s is left out and listed if the request can be answered without it', (field, body, left) => {
    for (const policy of ['unpriced', 'known'] as const) {
      expect(filtered(policy, body)).toEqual({ body: left, dropped: [field] });
    }
    expect(filtered('all', body)).toEqual(body);
  });

  test.each<readonly [string, JsonObject]>([
    ['best_of', { best_of: 2 }],
    ['n', { n: 2 }],
    ['use_beam_search', { use_beam_search: true }],
    ['generation_config.num_return_sequences', { generation_config: { num_return_sequences: 3 } }],
    ['parameters.best_of', { parameters: { best_of: '2' } }],
    ['container', { container: { skills: [{ type: 'anthropic', skill_id: 'pdf' }] } }],
    ['safety_model', { safety_model: 'guard' }],
    [
      'messages.0.content.1.tool.0',
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'Hi' },
              {
                type: 'tool_addition',
                tool: { type: 'tool_definition', definition: { type: 'web_search_20250305', name: 'web_search' } },
              },
            ],
          },
        ],
      },
    ],
  ])('%s is refused at any depth', (param, body) => {
    expect(filtered('unpriced', body)).toEqual(['unsupported_feature', param]);
    expect(filtered('all', body)).toEqual(body);
  });

  test('tools that cost extra are left out of items of the input and of namespaces too', () => {
    const search = { type: 'web_search' };
    const local = { type: 'function', name: 'f' };
    const group = (...tools: JsonObject[]): JsonObject => ({ type: 'namespace', name: 'g', tools });
    const body = {
      tools: [group(local, search)],
      input: [{ type: 'additional_tools', role: 'developer', tools: [search, local, group(search)] }],
    };
    expect(filtered('unpriced', body)).toEqual({
      body: {
        tools: [group(local)],
        input: [{ type: 'additional_tools', role: 'developer', tools: [local, group()] }],
      },
      dropped: ['tools.web_search', 'tools.web_search', 'tools.web_search'],
    });
  });

  test('a container with more memory, or of a shell, is not at the price of a call', () => {
    const paid = { type: 'code_interpreter', container: { type: 'auto', memory_limit: '16g' } };
    expect(filtered('unpriced', { tools: [paid] }, { paidTools: ['code_interpreter'] })).toEqual([
      'unsupported_feature',
      'tools.0.container.memory_limit',
    ]);
    expect(filtered('unpriced', { tools: [paid] })).toEqual({ body: {}, dropped: ['tools.code_interpreter'] });
    const shell = (type: string): JsonObject => ({ tools: [{ type: 'shell', environment: { type } }] });
    expect(filtered('unpriced', shell('container_auto'))).toEqual({ body: {}, dropped: ['tools.shell'] });
    expect(filtered('unpriced', shell('local'))).toEqual(shell('local'));
  });

  test('fields that cost nothing extra pass unchanged, known or not', () => {
    const body = {
      model: 'm',
      modalities: ['text'],
      speed: 'standard',
      web_search_options: null,
      x_new: { models: ['a'] },
      tools: [{ type: 'function', function: { name: 'web_search' } }, { type: 'mcp' }],
    };
    expect(filtered('unpriced', body)).toEqual(body);
  });
});

test.each([
  'models',
  'fallbacks',
  'api_base',
  'provider',
  'aws_region_name',
  'litellm_params',
  'billing_policy',
  'background_options',
])('%s selects another model, payer or window and is refused under every policy', param => {
  for (const policy of ['all', 'unpriced', 'known'] as const) {
    expect(filtered(policy, { model: 'm', [param]: ['x'] })).toEqual(['unsupported_feature', param]);
    expect(filtered(policy, { model: 'm', [param]: null })).toEqual({ model: 'm', [param]: null });
  }
});

test('`known` removes fields that the gateway does not know, and lists them', () => {
  const body = { model: 'm', x_new: 1, messages: [{ role: 'user', content: 'Hi', y: 2 }], stop: ['a'] };
  const unknown = ['x_new', 'messages.0.y', 'messages.3.z', 'stop.0'];
  expect(filtered('known', body, { unknown })).toEqual({
    body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stop: ['a'] },
    dropped: ['x_new', 'messages.0.y'],
  });
  expect(filtered('unpriced', body, { unknown })).toEqual(body);
});

test('`known` refuses content that a model would have read and that the gateway does not know', () => {
  const raw = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'critic', content: 'Hm.' }] }));
  const body = JSON.parse(raw.toString()) as JsonObject;
  const { request } = chatCodec.decodeRequest({ body, raw, headers: {} });
  const outgoing = { protocol: Protocol.CHAT, request, encoded: { body, dropped: [] }, accountId: undefined };
  expect(() => filterBody('known', outgoing)).toThrow(expect.objectContaining({ code: 'unsupported_feature' }));
  expect(filterBody('unpriced', outgoing).body).toBe(body);
});

test('`known` removes a member whatever its name', () => {
  const raw = Buffer.from('{"model":"m","messages":[{"role":"user","content":"Hi"}],"10":1,"9":12345678901234567890}');
  const { request } = chatCodec.decodeRequest({ body: JSON.parse(raw.toString()) as JsonObject, raw, headers: {} });
  const encoded = chatCodec.encodeRequest({ request, model: 'up', maxOutputTokens: undefined, stream: false });
  const sent = filterBody('known', { protocol: Protocol.CHAT, request, encoded, accountId: undefined });
  expect(sent).toEqual({ body: { model: 'up', messages: [{ role: 'user', content: 'Hi' }] }, dropped: ['9', '10'] });
});

test('identifiers of users and caches get a prefix for their account', () => {
  const long = 'k'.repeat(64);
  const sent = filtered('unpriced', {
    user: 'ann',
    safety_identifier: 'a',
    prompt_cache_key: long,
    metadata: { user_id: 'b' },
  });
  expect(sent).toMatchObject({ user: '7:ann', safety_identifier: '7:a', metadata: { user_id: 'b' } });
  const { prompt_cache_key: key } = sent as { prompt_cache_key: string };
  expect(key).toMatch(/^7:[\w-]{43}$/);
  const messages = filtered('all', { metadata: { user_id: 'ann', x: 1 } }, { protocol: Protocol.MESSAGES });
  expect(messages).toEqual({ metadata: { user_id: '7:ann', x: 1 } });
});

test('betas that cost extra are withheld; with `known`, all betas are', () => {
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'new-2026-11-01, context-1m-2025-08-07' };
  expect(filterHeaders('all', headers)).toEqual({
    headers,
    withheld: [],
    unpriced: ['anthropic-beta:context-1m-2025-08-07'],
  });
  expect(filterHeaders('unpriced', headers)).toEqual({
    headers: { ...headers, 'anthropic-beta': 'new-2026-11-01' },
    withheld: ['anthropic-beta:context-1m-2025-08-07'],
  });
  expect(filterHeaders('known', headers).headers).toEqual({ 'anthropic-version': '2023-06-01' });
});
