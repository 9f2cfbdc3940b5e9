/** The presets of hosted providers: their addresses, and requests to servers that refuse what these providers refuse. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { parseConfig } from '../../src/config/config.ts';
import type { Variables } from '../../src/config/env.ts';
import { RerankRequestSchema } from '../../src/gen/tollgate/v1/rerank_pb.ts';
import { Hold } from '../../src/generation/hold.ts';
import { findDialect } from '../../src/upstreams/dialects.ts';
import { chatUpstream } from '../upstreams/call-upstream.ts';

const load = (variables: Variables) => parseConfig('', '', { variables, builtInIds: [] }).providers;

test.each([
  ['cerebras', { CEREBRAS_API_KEY: 'k' }, 'https://api.cerebras.ai/v1'],
  ['perplexity', { PERPLEXITY_API_KEY: 'k' }, 'https://api.perplexity.ai'],
  ['cohere', { CO_API_KEY: 'k' }, 'https://api.cohere.ai/compatibility/v1'],
  ['deepinfra', { DEEPINFRA_TOKEN: 'k' }, 'https://api.deepinfra.com/v1/openai'],
  ['huggingface', { HF_TOKEN: 'k' }, 'https://router.huggingface.co/v1'],
  ['moonshotai', { MOONSHOT_API_KEY: 'k' }, 'https://api.moonshot.ai/v1'],
  ['zai', { ZAI_API_KEY: 'k' }, 'https://api.z.ai/api/paas/v4'],
  ['minimax', { MINIMAX_API_KEY: 'k' }, 'https://api.minimax.io/v1'],
  ['alibaba', { DASHSCOPE_API_KEY: 'k' }, 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1'],
  ['nvidia', { NVIDIA_API_KEY: 'k' }, 'https://integrate.api.nvidia.com/v1'],
  ['siliconflow', { SILICONFLOW_API_KEY: 'k' }, 'https://api.siliconflow.com/v1'],
  ['sambanova', { SAMBANOVA_API_KEY: 'k' }, 'https://api.sambanova.ai/v1'],
  [
    'databricks',
    { DATABRICKS_HOST: 'adb-1.azuredatabricks.net', DATABRICKS_TOKEN: 'k' },
    'https://adb-1.azuredatabricks.net/serving-endpoints',
  ],
  [
    'cloudflare',
    { CLOUDFLARE_ACCOUNT_ID: 'abc', CLOUDFLARE_API_TOKEN: 'k' },
    'https://api.cloudflare.com/client/v4/accounts/abc/ai/v1',
  ],
  ['github', { GITHUB_MODELS_TOKEN: 'k' }, 'https://models.github.ai/inference'],
  ['baseten', { BASETEN_API_KEY: 'k' }, 'https://inference.baseten.co/v1'],
  ['novita', { NOVITA_API_KEY: 'k' }, 'https://api.novita.ai/openai/v1'],
])('%s is enabled by its variable, at its address, in Chat', (name, variables, baseUrl) => {
  const providers = load(variables);
  expect(providers).toMatchObject([{ name, baseUrl, protocol: 'chat', dialect: name }]);
  expect(providers[0]?.apiKeys.map(key => key.reveal())).toEqual(['k']);
});

test('variables that other tools set enable nothing', () => {
  expect(load({ GITHUB_TOKEN: 'k', CLOUDFLARE_API_TOKEN: 'k', DATABRICKS_TOKEN: 'k' })).toEqual([]);
});

/** Returns the body that the preset's server gets. */
function sent(preset: string, body: JsonObject): JsonObject {
  const codec = body['thinking'] === undefined ? chatCodec : messagesCodec;
  const { request } = codec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const { body: encoded } = chatCodec.encodeRequest({
    request,
    model: 'm',
    maxOutputTokens: 7,
    stream: true,
    provider: preset,
    dialect: findDialect(preset),
  });
  return encoded;
}

const request: JsonObject = {
  model: 'x',
  max_completion_tokens: 9,
  messages: [
    { role: 'developer', content: 'Be brief.' },
    { role: 'user', content: 'hi' },
  ],
  frequency_penalty: 0.5,
  presence_penalty: 0.5,
  logit_bias: { 1: 5 },
  parallel_tool_calls: false,
  tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }],
};

/** What each server refuses: members of the body, and the role `developer`. */
const refused: Readonly<Record<string, readonly string[]>> = {
  cerebras: ['frequency_penalty', 'presence_penalty', 'logit_bias', 'parallel_tool_calls'],
  cohere: ['max_completion_tokens', 'logit_bias', 'parallel_tool_calls'],
  zai: ['max_completion_tokens', 'frequency_penalty', 'presence_penalty'],
  moonshotai: ['max_tokens'],
  minimax: ['logit_bias'],
  nvidia: ['max_completion_tokens', 'stream_options'],
};

test.each(Object.entries(refused))('%s gets nothing that it refuses', (preset, members) => {
  const body = sent(preset, request);
  expect(members.filter(member => Object.hasOwn(body, member))).toEqual([]);
  expect((body['messages'] as JsonObject[]).map(({ role }) => role)).toEqual(['system', 'user']);
});

test.each(['zai', 'moonshotai', 'minimax'])('%s is told in its own words not to think', preset => {
  const body = {
    model: 'x',
    max_tokens: 9,
    thinking: { type: 'disabled' },
    messages: [{ role: 'user', content: 'hi' }],
  };
  expect(sent(preset, body)['thinking']).toEqual({ type: 'disabled' });
});

test('databricks is not sent stream_options', () => {
  expect(sent('databricks', request)).not.toHaveProperty('stream_options');
});

describe('Cohere', () => {
  const paths: string[] = [];
  let server: Server;
  beforeAll(async () => {
    server = createServer((message, response) => {
      paths.push(message.url ?? '');
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        '{"id":"r","results":[{"index":0,"relevance_score":0.5}],"meta":{"billed_units":{"search_units":1}}}',
      );
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
  });
  afterAll(() => void server.close());

  test('reranks below another address than it chats', async () => {
    expect(load({ COHERE_API_KEY: 'k' })).toMatchObject([{ rerankUrl: 'https://api.cohere.com/v2' }]);
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const upstream = chatUpstream(`${origin}/compatibility/v1`, { rerankUrl: `${origin}/v2` });
    const call = {
      hold: Hold.of({ kind: 'admitted', id: 1 }),
      request: create(RerankRequestSchema, { model: 'x', query: 'q', documents: ['a'] }),
      model: 'rerank-v4',
      attempt: 1,
      signal: AbortSignal.timeout(10_000),
    };
    await upstream.rerank(call);
    expect(paths).toEqual(['/v2/rerank']);
    await upstream.close();
  });
});
