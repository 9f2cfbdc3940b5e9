/** Embeddings on Gemini's paths: the built-in model, and providers of Gemini's and of OpenAI's protocol that record what they get (docs/interfaces/gemini.md "Embeddings"). */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { endGateway, readBalance, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { askGemini, type GeminiOptions, geminiPath, type GeminiReply } from './gemini-caller.ts';

type Json = Record<string, unknown>;
const seen: { path: string; body: Json }[] = [];
const server = createServer((request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(pieces).toString()) as Json;
    seen.push({ path: request.url ?? '', body });
    response.setHeader('content-type', 'application/json');
    const { requests, input } = body as { requests?: unknown[]; input?: unknown };
    if (requests === undefined) {
      const data = [input].flat().map((_, index) => ({ index, embedding: [index, 0.5] }));
      response.end(JSON.stringify({ data, usage: { prompt_tokens: 7, total_tokens: 7 } }));
    } else response.end(JSON.stringify({ embeddings: requests.map((_, index) => ({ values: [index, 0.25] })) }));
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const both = 'endpoints: [/v1/embeddings, "/v1beta/models/{model}:embedContent"], capabilities: { dimensions: true }';
const gateway = await startGateway({
  config: `
simulator: { enabled: true }
providers:
  google: { protocol: gemini, base_url: "${origin}" }
  openai-like: { protocol: chat, base_url: "${origin}/v1" }
models:
  - { id: acme/google, ${both}, pricing: { input: 1 }, routes: [{ provider: google, model: gemini-embedding-001 }] }
  - { id: acme/chat, ${both}, context_length: 50, pricing: { input: 1 }, routes: [{ provider: openai-like, model: vectors }] }
  - { id: acme/fixed, endpoints: ["/v1beta/models/{model}:embedContent"], pricing: { input: 1 }, routes: [{ provider: openai-like, model: vectors }] }
  - { id: acme/openai-only, endpoints: [/v1/embeddings], pricing: { input: 1 }, routes: [{ provider: openai-like, model: vectors }] }
`,
});
afterAll(async () => {
  await endGateway(gateway);
  server.close();
});
beforeEach(() => {
  seen.length = 0;
});

const text = (value: string): Json => ({ parts: [{ text: value }] });
const one = (model: string, body: Json, options: GeminiOptions = {}): Promise<GeminiReply> =>
  askGemini(gateway, geminiPath(model, 'embedContent'), body, options);
const several = (model: string, requests: unknown, options: GeminiOptions = {}): Promise<GeminiReply> =>
  askGemini(gateway, geminiPath(model, 'batchEmbedContents'), { requests }, options);
const vectorsIn = ({ chunks: [answer] }: GeminiReply): number[][] =>
  ((answer?.['embeddings'] ?? [answer?.['embedding']]) as { values: number[] }[]).map(({ values }) => values);

describe('the built-in model', () => {
  test('has the same vectors as on /v1/embeddings, and the cost is what was debited, once for a batch', async () => {
    const before = await readBalance(gateway);
    const single = await one('sim/embed', { content: text('The cat sat.') });
    const batch = await several('sim/embed', [{ content: text('The cat sat.') }, { content: text('A dog ran.') }]);
    const openai = await fetch(`${gateway.url}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/embed', input: ['The cat sat.', 'A dog ran.'] }),
    });
    const { data, usage } = (await openai.json()) as { data: { embedding: number[] }[]; usage: { cost: number } };
    expect(vectorsIn(batch)).toEqual(data.map(({ embedding }) => embedding));
    expect(vectorsIn(single)).toEqual([data[0]?.embedding]);
    const costs = [single, batch].map(({ chunks }) => Number(chunks[0]?.usageMetadata?.['cost']));
    expect(costs[1]).toBe(usage.cost);
    const spent = [...costs, usage.cost].reduce((sum, cost) => sum + Math.round(cost * 1e9), 0);
    expect(before - (await readBalance(gateway))).toBe(BigInt(spent));
    for (const reply of [single, batch]) {
      const { records } = await gateway.account.listActivity({ endpoint: '/v1beta/models/{model}:embedContent' });
      const requestId = reply.headers.get('x-request-id') ?? '';
      expect(records.filter(record => record.requestId === requestId)).toHaveLength(1);
      expect((await readRecord(gateway, requestId)).costNanoUsd).toBeGreaterThan(0n);
    }
  });

  test('chooses the length; a task and a title are dropped with a warning, and refused if strict', async () => {
    const body = {
      content: text('Hello'),
      output_dimensionality: 16,
      task_type: 'RETRIEVAL_DOCUMENT',
      title: 'T',
      future: 1,
    };
    const reply = await one('sim/embed', body);
    expect(vectorsIn(reply)[0]).toHaveLength(16);
    expect(reply.headers.get('x-tollgate-warnings')).toBe('dropped=taskType,title,future');
    const strict = await one('sim/embed', body, { headers: { 'x-tollgate-strict': 'true' } });
    expect([strict.status, strict.error?.details?.[0]?.metadata?.['param']]).toEqual([400, 'taskType']);
  });

  test('is among the models with its methods', async () => {
    const { chunks } = await askGemini(gateway, '/v1beta/models/sim/embed');
    expect(chunks[0]?.['supportedGenerationMethods']).toEqual(['embedContent', 'batchEmbedContents']);
  });
});

describe('providers', () => {
  test('of Gemini’s protocol get the requests as sent, unknown members too', async () => {
    const first = {
      content: { role: 'user', parts: [{ text: 'a' }, { text: 'b' }] },
      task_type: 'CLUSTERING',
      title: 'T',
      outputDimensionality: 2,
      future: { x: [1] },
    };
    const reply = await several('acme/google', [first, { ...first, content: text('c'), model: 'models/other' }]);
    expect([reply.status, reply.headers.get('x-tollgate-warnings')]).toEqual([200, null]);
    const model = 'models/gemini-embedding-001';
    expect(seen).toEqual([
      {
        path: '/v1beta/models/gemini-embedding-001:batchEmbedContents',
        body: {
          requests: [
            { ...first, model },
            { ...first, content: text('c'), model },
          ],
        },
      },
    ]);
    expect(vectorsIn(reply)).toEqual([
      [0, 0.25],
      [1, 0.25],
    ]);
  });

  test('of OpenAI’s protocol get the texts; the task is dropped with a warning', async () => {
    const reply = await one('acme/chat', {
      content: { parts: [{ text: 'a' }, { text: 'b' }] },
      taskType: 'CLUSTERING',
      outputDimensionality: 2,
    });
    expect([reply.status, reply.headers.get('x-tollgate-warnings')]).toEqual([200, 'dropped=taskType']);
    expect(seen[0]?.body).toMatchObject({ model: 'vectors', input: 'a\nb', dimensions: 2 });
    expect(JSON.stringify(seen[0]?.body)).not.toContain('CLUSTERING');
    expect(reply.chunks[0]?.usageMetadata).toEqual({ promptTokenCount: 7, totalTokenCount: 7, cost: 0.000007 });
  });
});

test('one request where a list is meant is a list of one; Vertex paths work', async () => {
  expect(vectorsIn(await several('acme/chat', { content: text('a') }))).toEqual([[0, 0.5]]);
  const vertex = '/v1/projects/p/locations/l/publishers/acme/models/chat:embedContent';
  expect(vectorsIn(await askGemini(gateway, vertex, { content: { parts: { text: 'a' } } }))).toEqual([[0, 0.5]]);
});

test('an idempotency key repeats the vectors without a second charge', async () => {
  const headers = { 'idempotency-key': 'embed-1' };
  const first = await one('acme/chat', { content: text('a') }, { headers });
  const again = await one('acme/chat', { content: text('a') }, { headers });
  expect([again.raw, again.headers.get('idempotent-replayed'), seen.length]).toEqual([first.raw, 'true', 1]);
});

describe('refusals name fields as Gemini spells them', () => {
  const long = 'word '.repeat(100);
  test.each<[Promise<GeminiReply>, number, string, string]>([
    [one('acme/chat', {}), 400, 'validation_error', 'content'],
    [one('acme/chat', { content: { parts: [] } }), 400, 'validation_error', 'content.parts'],
    [one('acme/chat', { content: { parts: [{ inline_data: {} }] } }), 400, 'validation_error', 'content.parts.0'],
    [one('acme/chat', { content: text('') }), 400, 'validation_error', 'content'],
    [one('acme/chat', { content: text(long) }), 400, 'validation_error', 'content'],
    [
      one('acme/chat', { content: text('a'), output_dimensionality: 0 }),
      400,
      'validation_error',
      'outputDimensionality',
    ],
    [
      one('acme/fixed', { content: text('a'), outputDimensionality: 4 }),
      400,
      'unsupported_feature',
      'outputDimensionality',
    ],
    [several('acme/chat', []), 400, 'validation_error', 'requests'],
    [
      several('acme/chat', [{ content: text('a') }, { content: text(long) }]),
      400,
      'validation_error',
      'requests.1.content',
    ],
    [
      several('acme/chat', [{ content: text('a') }, { content: text('b'), outputDimensionality: 4 }]),
      400,
      'validation_error',
      'requests.1.outputDimensionality',
    ],
    [one('acme/openai-only', { content: text('a') }), 400, 'model_not_supported', 'model'],
    [one('sim/small', { content: text('a') }), 400, 'model_not_supported', 'model'],
    [askGemini(gateway, geminiPath('sim/embed'), { contents: [text('a')] }), 400, 'model_not_supported', 'model'],
    [one('acme/none', { content: text('a') }), 404, 'model_not_found', 'model'],
  ])('%#', async (asked, status, reason, param) => {
    const reply = await asked;
    expect([reply.status, reply.reason, reply.error?.details?.[0]?.metadata?.['param']]).toEqual([
      status,
      reason,
      param,
    ]);
  });
});
