import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ModelSchema } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { ask, startListener } from './listener.ts';

const large = {
  id: 'acme/large',
  object: 'model',
  created: 1_780_000_000,
  owned_by: 'acme',
  type: 'model',
  display_name: 'Acme Large',
  created_at: '2026-05-28T20:26:40.000Z',
  name: 'Acme Large',
  description: 'The large one.',
  context_length: 128_000,
  max_output_tokens: 8192,
  endpoints: ['/v1/chat/completions', '/v1/responses', '/v1/messages'],
  capabilities: { vision: true, function_call: true, reasoning: false, service_tiers: ['flex', 'priority'] },
  available: true,
  pricing: {
    input: 0.1,
    output: 4,
    image: null,
    caching: { read: 0.01, write_5m: 1.250001, write_1h: null },
    above: [{ input_tokens: 200_000, input: 2, output: 8, caching: null }],
  },
  deprecated_at: null,
  retires_at: null,
  replacement: null,
};
const image = {
  id: 'acme/image:free',
  object: 'model',
  created: 1_780_000_001,
  owned_by: 'acme',
  type: 'model',
  display_name: 'Acme Image',
  created_at: '2026-05-28T20:26:41.000Z',
  name: 'Acme Image',
  description: '',
  context_length: null,
  max_output_tokens: null,
  endpoints: ['/v1/images/generations', '/v1/images/edits'],
  capabilities: { vision: false, function_call: false, reasoning: false, service_tiers: [] },
  available: false,
  pricing: { input: null, output: null, image: 0.042000001, caching: null, above: [] },
  deprecated_at: null,
  retires_at: null,
  replacement: null,
};

test('the list has all models, with all members that both official clients read', async () => {
  const reply = await ask(await startListener(), '/v1/models');
  expect(reply.json).toEqual({
    object: 'list',
    data: [large, image],
    first_id: 'acme/large',
    last_id: 'acme/image:free',
    has_more: false,
  });
});

test('prices are the shortest decimals, as they were configured', async () => {
  const { text } = await ask(await startListener(), '/v1/models/acme/large');
  expect(text).toContain('"pricing":{"input":0.1,"output":4,"image":null,"caching":{"read":0.01,"write_5m":1.250001,');
});

test.each(['acme/large', 'acme%2Flarge', 'acme/image:free', 'acme%2Fimage%3Afree'])(
  'a model is found by %s',
  async id => {
    const reply = await ask(await startListener(), `/v1/models/${id}`);
    expect(reply.json).toEqual(id.includes('large') ? large : image);
  },
);

test('a page has the range of limit and cursors, and says whether more follows', async () => {
  const models = ['a', 'b', 'c', 'd'].map(id => create(ModelSchema, { id, pricing: {} }));
  const listener = await startListener({ models });
  const page = async (query: string): Promise<unknown> => {
    const { json } = await ask(listener, `/v1/models?${query}`);
    return [json.data.map((model: { id: string }) => model.id).join(''), json.first_id, json.last_id, json.has_more];
  };
  expect(await page('limit=2')).toEqual(['ab', 'a', 'b', true]);
  expect(await page('limit=2&after_id=b')).toEqual(['cd', 'c', 'd', false]);
  expect(await page('limit=2&before_id=d')).toEqual(['bc', 'b', 'c', true]);
  expect(await page('after_id=d')).toEqual(['', null, null, false]);
  expect(await page('limit=1000')).toEqual(['abcd', 'a', 'd', false]);
});

test('the filter reaches the core', async () => {
  const listener = await startListener();
  const ids = async (query: string): Promise<string[]> =>
    (await ask(listener, `/v1/models?${query}`)).json.data.map((model: { id: string }) => model.id);
  expect(await ids('endpoint=/v1/images/edits')).toEqual(['acme/image:free']);
  expect(await ids('endpoint=%2Fv1%2Fmessages')).toEqual(['acme/large']);
  expect(await ids('beta=true')).toEqual(['acme/large', 'acme/image:free']);
});

test.each([
  ['limit=0', 'limit'],
  ['limit=1001', 'limit'],
  ['limit=', 'limit'],
  ['limit=1.5', 'limit'],
  ['limit=1&limit=2', 'limit'],
  ['endpoint=/v1/nothing', 'endpoint'],
  ['endpoint=', 'endpoint'],
  ['capability=flying', 'capability'],
  ['free=yes', 'free'],
  ['available=1', 'available'],
  ['q=a&q=b', 'q'],
  ['after_id=none', 'after_id'],
  ['before_id=none', 'before_id'],
  ['after_id=acme/large&before_id=acme/large', 'before_id'],
])('%s is refused with 400, and the error names %s', async (query, param) => {
  const reply = await ask(await startListener(), `/v1/models?${query}`);
  expect(reply.json.error).toMatchObject({ status_code: 400, code: 'invalid_request', param });
});
