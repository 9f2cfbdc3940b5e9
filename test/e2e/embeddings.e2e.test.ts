/**
 * Embeddings over REST: the built-in model, a second gateway in front of it, and providers whose answers the test sets. Vectors are compared bit for bit, and costs with what the
 * test computes.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { decode as decodeIds, encode } from 'gpt-tokenizer/encoding/cl100k_base';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { readBalance, endGateway, type Gateway, heldBy, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

/** What the scripted provider received, and what it answers next. */
const received: { path: string; body: Record<string, unknown> }[] = [];
let answers: ((body: Record<string, unknown>) => { status: number; body: unknown })[] = [];
const scripted = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const requested = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
    received.push({ path: request.url ?? '', body: requested });
    const { status, body } = (answers.shift() ?? (() => ({ status: 500, body: {} })))(requested);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
});
scripted.listen(0, '127.0.0.1');
await once(scripted, 'listening');
const origin = `http://127.0.0.1:${(scripted.address() as AddressInfo).port}`;

const inner = await startGateway({ config: 'retries: 0\n', balance: '5' });
const outer = await startGateway({
  config: `
simulator: { enabled: false }
retries: 1
providers:
  inner: { protocol: chat, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
  scripted: { protocol: chat, base_url: "${origin}/v1" }
  textual: { protocol: chat, base_url: "${origin}/v1", token_ids: false }
  google: { protocol: gemini, base_url: "${origin}" }
models:
  - { id: acme/embed, context_length: 8192, endpoints: [/v1/embeddings], capabilities: { dimensions: true }, pricing: { input: 0.10 }, routes: [{ provider: inner, model: sim/embed }] }
  - { id: acme/scripted, context_length: 100, endpoints: [/v1/embeddings], pricing: { input: 1 }, routes: [{ provider: scripted, model: vectors-1 }] }
  - { id: acme/fixed, context_length: 100, endpoints: [/v1/embeddings], capabilities: { dimensions: true }, pricing: { input: 1 }, routes: [{ provider: scripted, model: vectors-2 }] }
  - { id: acme/textual, context_length: 100, endpoints: [/v1/embeddings], tokenizer: cl100k_base, pricing: { input: 1 }, routes: [{ provider: textual, model: vectors-1 }] }
  - { id: acme/google, context_length: 2048, endpoints: [/v1/embeddings], capabilities: { dimensions: true }, pricing: { input: 0.15 }, routes: [{ provider: google, model: gemini-embedding-001 }] }
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
  scripted.close();
});

interface Answer {
  readonly object: string;
  readonly model: string;
  readonly data: { object: string; index: number; embedding: number[] | string }[];
  readonly usage: { prompt_tokens: number; total_tokens: number; cost: number };
  readonly error: { code: string; param: string | null; message: string };
}

async function embed(
  gateway: Gateway,
  body: object | string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; headers: Headers; body: Answer }> {
  const response = await fetch(`${gateway.url}/v1/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer };
}

const readRequestId = (headers: Headers): string => headers.get('x-request-id') ?? '';
const readNumbers = (entry: Answer['data'][number] | undefined): number[] => {
  const { embedding = [] } = entry ?? {};
  if (typeof embedding !== 'string') return embedding;
  const bytes = Buffer.from(embedding, 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
};
const cosine = (one: readonly number[], other: readonly number[]): number =>
  one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0);

describe('the built-in model', () => {
  test('answers in the official format with 256 numbers each, and the counted input is charged', async () => {
    const before = await readBalance(inner);
    const { status, headers, body } = await embed(inner, { model: 'sim/embed', input: ['hello world', 'bye'] });
    expect(status).toBe(200);
    expect(body).toMatchObject({ object: 'list', model: 'sim/embed' });
    expect(body.data.map(({ object, index }) => [object, index])).toEqual([
      ['embedding', 0],
      ['embedding', 1],
    ]);
    expect(body.data.map(entry => readNumbers(entry).length)).toEqual([256, 256]);
    expect(body.usage).toEqual({ prompt_tokens: 3, total_tokens: 3, cost: 6e-8 });
    expect(headers.get('x-tollgate-cost')).toBe('0.00000006');
    expect(before - (await readBalance(inner))).toBe(60n);
    const record = await readRecord(inner, readRequestId(headers));
    expect(record).toMatchObject({ state: RecordState.COMPLETED, model: 'sim/embed' });
    expect(await heldBy(inner)).toBe(0n);
  });

  test('the same text has the same vector, and vectors of similar texts are closer than those of different texts', async () => {
    const input = ['a cat sleeps on the sofa', 'the cats are sleeping on a sofa', 'quarterly tax report of a bank'];
    const [first, again] = await Promise.all([1, 2].map(() => embed(inner, { model: 'embed', input })));
    expect(first?.body.data).toEqual(again?.body.data);
    const [cat, cats, tax] = (first?.body.data ?? []).map(readNumbers);
    if (cat === undefined || cats === undefined || tax === undefined) throw new Error('three vectors');
    expect(cosine(cat, cat)).toBeCloseTo(1, 5);
    expect(cosine(cat, cats)).toBeGreaterThan(cosine(cat, tax) + 0.3);
  });

  test('base64 has the same bits as the numbers, also through two gateways', async () => {
    const input = 'bit for bit';
    const numbers = readNumbers((await embed(inner, { model: 'sim/embed', input })).body.data[0]);
    for (const [gateway, model] of [
      [inner, 'sim/embed'],
      [outer, 'acme/embed'],
    ] as const) {
      for (const encoding_format of ['base64', 'float'] as const) {
        const { body } = await embed(gateway, { model, input, encoding_format });
        expect(typeof body.data[0]?.embedding).toBe(encoding_format === 'base64' ? 'string' : 'object');
        expect(readNumbers(body.data[0])).toEqual(numbers);
      }
    }
  });

  test('token ids are converted with the vocabulary of the model: they have the vector of their text', async () => {
    const text = 'tokens are text';
    const ids = encode(text);
    const [asText, asIds, asLists] = await Promise.all(
      [text, ids, [ids, encode('other')]].map(input => embed(inner, { model: 'sim/embed', input })),
    );
    expect(readNumbers(asIds?.body.data[0])).toEqual(readNumbers(asText?.body.data[0]));
    expect(readNumbers(asLists?.body.data[0])).toEqual(readNumbers(asText?.body.data[0]));
    expect(asLists?.body.data).toHaveLength(2);
  });

  test('with `dimensions`, vectors have that length; with an Idempotency-Key, a repeated request is charged once', async () => {
    const { body } = await embed(inner, { model: 'sim/embed', input: 'short', dimensions: 16 });
    expect(readNumbers(body.data[0])).toHaveLength(16);
    const before = await readBalance(inner);
    const key = { 'idempotency-key': 'embed-once' };
    const first = await embed(inner, { model: 'sim/embed', input: 'once' }, key);
    const second = await embed(inner, { model: 'sim/embed', input: 'once' }, key);
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(before - (await readBalance(inner))).toBe(BigInt(first.body.usage.prompt_tokens) * 20n);
    expect((await embed(inner, { model: 'sim/embed', input: 'other' }, key)).status).toBe(422);
  });

  test('the list of models has the built-in model, with its path and capability', async () => {
    const response = await fetch(`${inner.url}/v1/models?endpoint=/v1/embeddings`, {
      headers: { authorization: `Bearer ${inner.apiKey}` },
    });
    const { data } = (await response.json()) as { data: { id: string; capabilities: { dimensions: boolean } }[] };
    expect(data.map(({ id }) => id)).toEqual(['sim/embed']);
    expect(data[0]?.capabilities.dimensions).toBe(true);
  });
});

describe('refused requests: the error names the field, and nothing is charged', () => {
  const refused: [name: string, body: object, expected: [status: number, code: string, param: string]][] = [
    ['no input', { model: 'sim/embed' }, [422, 'validation_error', 'input']],
    [
      'an unknown form of vectors',
      { model: 'sim/embed', input: 'a', encoding_format: 'int8' },
      [422, 'validation_error', 'encoding_format'],
    ],
    ['an empty string', { model: 'sim/embed', input: '' }, [422, 'validation_error', 'input']],
    ['an empty array', { model: 'sim/embed', input: [] }, [422, 'validation_error', 'input']],
    ['an empty entry', { model: 'sim/embed', input: ['a', ''] }, [422, 'validation_error', 'input[1]']],
    ['an empty list of ids', { model: 'sim/embed', input: [[1], []] }, [422, 'validation_error', 'input[1]']],
    ['a fraction as an id', { model: 'sim/embed', input: [1.5] }, [422, 'validation_error', 'input']],
    ['ids and texts in one list', { model: 'sim/embed', input: [1, 'a'] }, [422, 'validation_error', 'input']],
    ['2,049 inputs', { model: 'sim/embed', input: Array(2049).fill('a') }, [422, 'validation_error', 'input']],
    ['over the context', { model: 'sim/embed', input: 'word '.repeat(9000) }, [422, 'validation_error', 'input']],
    [
      'an entry over the context',
      { model: 'sim/embed', input: ['a', 'b '.repeat(9e4)] },
      [422, 'validation_error', 'input[1]'],
    ],
    [
      'ids over the context',
      { model: 'sim/embed', input: [Array(8193).fill(5)] },
      [422, 'validation_error', 'input[0]'],
    ],
    ['unknown token ids', { model: 'sim/embed', input: [4_000_000_000] }, [422, 'validation_error', 'input']],
    ['0 dimensions', { model: 'sim/embed', input: 'a', dimensions: 0 }, [422, 'validation_error', 'dimensions']],
    ['a text model', { model: 'sim/large', input: 'a' }, [400, 'model_not_supported', 'model']],
    ['an unknown model', { model: 'no/such', input: 'a' }, [400, 'model_not_found', 'model']],
  ];
  test.each(refused)('%s', async (_, body, expected) => {
    const before = await readBalance(inner);
    const answer = await embed(inner, body);
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual(expected);
    expect(await readBalance(inner)).toBe(before);
  });

  test('`dimensions` and token ids are refused for a model that does not support them', async () => {
    const dimensions = await embed(outer, { model: 'acme/scripted', input: 'a', dimensions: 8 });
    expect([dimensions.status, dimensions.body.error.code, dimensions.body.error.param]).toEqual([
      400,
      'unsupported_feature',
      'dimensions',
    ]);
    const ids = await embed(outer, { model: 'acme/google', input: [1, 2] });
    expect([ids.status, ids.body.error.code, ids.body.error.param]).toEqual([400, 'unsupported_feature', 'input']);
    const chat = await fetch(`${inner.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${inner.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/embed', messages: [{ role: 'user', content: 'a' }] }),
    });
    expect(chat.status).toBe(400);
  });
});

describe('providers', () => {
  const good = (vectors: unknown[], usage: object = { prompt_tokens: 7, total_tokens: 7 }) => ({
    status: 200,
    body: { object: 'list', data: vectors.map((embedding, index) => ({ index, embedding })), usage },
  });

  test('a report of more input than the model can read is not believed, and the gateway’s own count is charged', async () => {
    const report = (prompt_tokens: number) => [() => good([[1], [2]], { prompt_tokens, total_tokens: prompt_tokens })];
    answers = report(200);
    const most = await embed(outer, { model: 'acme/scripted', input: ['a', 'b'] });
    answers = report(201);
    const more = await embed(outer, { model: 'acme/scripted', input: ['a', 'b'] });
    expect([most.body.usage.prompt_tokens, more.body.usage.prompt_tokens]).toEqual([200, 2]);
  });

  test('the provider’s answer is passed on with all digits of its numbers and with unknown members; its vectors are sorted if their order is wrong', async () => {
    received.length = 0;
    const vectors = [
      [0.002306425478309393, -1e-7],
      [0.1, 123456.789],
    ];
    answers = [
      () => ({
        status: 200,
        body: {
          data: [
            { index: 1, embedding: vectors[1] },
            { index: 0, embedding: vectors[0] },
          ],
          usage: { prompt_tokens: 7 },
        },
      }),
    ];
    const before = await readBalance(outer);
    const { status, body } = await embed(outer, {
      model: 'acme/scripted',
      input: ['a', 'b'],
      truncate: 'END',
      user: 'u',
    });
    expect(status).toBe(200);
    expect(body.data.map(({ embedding }) => embedding)).toEqual(vectors);
    expect(received[0]).toEqual({
      path: '/v1/embeddings',
      body: { truncate: 'END', model: 'vectors-1', input: ['a', 'b'], encoding_format: 'float', user: 'u' },
    });
    expect(before - (await readBalance(outer))).toBe(7000n);
  });

  test('token ids are passed on unchanged, or as text to a provider that does not accept token ids', async () => {
    received.length = 0;
    const ids = encode('some words');
    answers = [() => good([[1, 2]]), () => good([[1, 2]])];
    await embed(outer, { model: 'acme/scripted', input: [ids] });
    await embed(outer, { model: 'acme/textual', input: ids });
    expect(received.map(({ body }) => body['input'])).toEqual([[ids], decodeIds(ids)]);
  });

  test('Gemini gets requests in its own format, a hundred inputs at a time', async () => {
    received.length = 0;
    const values = (body: Record<string, unknown>, from: number) => ({
      status: 200,
      body: { embeddings: (body['requests'] as object[]).map((_, at) => ({ values: [from + at, 0.5] })) },
    });
    answers = [body => values(body, 0), body => values(body, 100)];
    const input = Array.from({ length: 130 }, (_, at) => `text ${at}`);
    const { status, body, headers } = await embed(outer, { model: 'acme/google', input, dimensions: 2, extra: 1 });
    expect(status).toBe(200);
    expect(body.data.map(({ embedding }) => embedding[0])).toEqual(input.map((_, at) => at));
    expect(headers.get('x-tollgate-warnings')).toBe('dropped=extra');
    expect(received.map(({ path, body: requested }) => [path, (requested['requests'] as object[]).length])).toEqual([
      ['/v1beta/models/gemini-embedding-001:batchEmbedContents', 100],
      ['/v1beta/models/gemini-embedding-001:batchEmbedContents', 30],
    ]);
    expect((received[0]?.body['requests'] as object[] | undefined)?.[0]).toEqual({
      model: 'models/gemini-embedding-001',
      content: { parts: [{ text: 'text 0' }] },
      outputDimensionality: 2,
    });
    // The provider reported no usage, so the gateway's count is charged.
    expect(body.usage.prompt_tokens).toBeGreaterThan(130);
    const strict = await embed(outer, { model: 'acme/google', input: 'a', extra: 1 }, { 'x-tollgate-strict': 'true' });
    expect([strict.status, strict.body.error.param]).toEqual([400, 'extra']);
  });

  const float = (...values: number[]): string => {
    const bytes = Buffer.alloc(values.length * 4);
    for (const [at, value] of values.entries()) bytes.writeFloatLE(value, at * 4);
    return bytes.toString('base64');
  };
  test('a provider that ignores `dimensions` is asked once: 400 and free, and plain requests are still answered', async () => {
    received.length = 0;
    const before = await readBalance(outer);
    for (let time = 0; time < 6; time += 1) {
      answers = [() => good([[1, 2, 3]])];
      const { status, body } = await embed(outer, { model: 'acme/fixed', input: 'a', dimensions: 2 });
      expect([status, body.error.code, body.error.param]).toEqual([400, 'upstream_rejected', 'dimensions']);
      expect(body.error.message).toContain('3 dimensions, not 2');
    }
    expect([received.length, await readBalance(outer), await heldBy(outer)]).toEqual([6, before, 0n]);
    answers = [() => good([[1, 2, 3]])];
    expect((await embed(outer, { model: 'acme/fixed', input: 'a' })).status).toBe(200);
  });

  const broken: [name: string, answer: { status: number; body: unknown }][] = [
    ['too few', good([[1, 2]])],
    ['too many', good([[1], [2], [3]])],
    ['two lengths', good([[1, 2], [3]])],
    ['empty vectors', good([[], []])],
    ['NaN in base64', good([float(1, Number.NaN), float(1, 2)])],
    ['infinite in base64', good([float(1, Infinity), float(1, 2)])],
    [
      'too large for a float',
      good([
        [1, 1e300],
        [1, 2],
      ]),
    ],
    [
      'a text between numbers',
      good([
        [1, '2'],
        [1, 2],
      ]),
    ],
    ['an index twice', { status: 200, body: { data: [0, 0].map(index => ({ index, embedding: [1, 2] })) } }],
    ['invalid JSON', { status: 200, body: '{"data": [NaN' }],
    ['an error', { status: 500, body: { error: { message: 'no' } } }],
  ];
  test.each(broken)(
    '%s is a failure of the provider: the request is tried again, then 502 and free',
    async (_, answer) => {
      received.length = 0;
      answers = [() => answer, () => answer];
      const before = await readBalance(outer);
      const { status, headers, body } = await embed(outer, { model: 'acme/scripted', input: ['a', 'b'] });
      expect([status, body.error.code]).toEqual([502, 'upstream_error']);
      expect(received).toHaveLength(2);
      expect(await readBalance(outer)).toBe(before);
      expect(await heldBy(outer)).toBe(0n);
      expect(await readRecord(outer, readRequestId(headers))).toMatchObject({ state: RecordState.UPSTREAM_FAILED });
      // A good answer closes the circuit breaker again.
      answers = [() => good([[1], [2]])];
      expect((await embed(outer, { model: 'acme/scripted', input: ['a', 'b'] })).status).toBe(200);
    },
  );

  test('of 200 requests at once with money for five, five are paid, and the balance does not go below zero', async () => {
    const poor = await startGateway({ balance: '0.0000001' });
    // A token costs 20 nano-dollars and "hello" is one token, so 100 nano-dollars pay for five.
    const replies = await Promise.all(
      Array.from({ length: 200 }, () => embed(poor, { model: 'sim/embed', input: 'hello' })),
    );
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(5);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(195);
    expect(await readBalance(poor)).toBe(0n);
    await endGateway(poor);
  });
});
