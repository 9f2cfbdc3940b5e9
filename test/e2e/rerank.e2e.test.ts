/**
 * Rerank over REST: the built-in model, a second gateway in front of it, and a scripted provider. Expected costs are computed in the
 * test itself.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Code, createClient } from '@connectrpc/connect';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { RerankService } from '../../src/gen/tollgate/v1/rerank_pb.ts';
import { readBalance, endGateway, type Gateway, heldBy, readRecord, openTransport } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

/** The requests that the scripted provider received, and its next answers. */
const received: { path: string; body: Record<string, unknown> }[] = [];
let answers: { status: number; body: unknown }[] = [];
const scripted = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
    received.push({ path: request.url ?? '', body });
    const answer = answers.shift() ?? { status: 500, body: {} };
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
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
  scripted: { protocol: responses, base_url: "${origin}/v1" }
models:
  - { id: acme/rerank, context_length: 8192, endpoints: [/v1/rerank], pricing: { search: 0.004 }, routes: [{ provider: inner, model: sim/rerank }] }
  - { id: acme/scripted, context_length: 8192, endpoints: [/v1/rerank], pricing: { search: 0.001 }, routes: [{ provider: scripted, model: rerank-1 }] }
  - { id: acme/tokens, context_length: 8192, endpoints: [/v1/rerank], pricing: { input: 2 }, routes: [{ provider: scripted, model: rerank-2 }] }
  - { id: "acme/local:free", context_length: 8192, endpoints: [/v1/rerank], routes: [{ provider: scripted, model: rerank-3 }] }
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
  scripted.close();
});

interface Answer {
  readonly id: string;
  readonly model: string;
  readonly results: { index: number; relevance_score: number; document?: { text: string } }[];
  readonly usage: { total_tokens: number; search_units: number; cost: number };
  readonly error: { code: string; param: string | null };
}

async function rerank(
  gateway: Gateway,
  body: object,
  { path = '/v1/rerank', headers = {} }: { path?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Headers; body: Answer }> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer };
}

interface Activity {
  readonly cost: number;
  readonly usage_source: string;
  readonly buckets: { kind: string; tokens: number; price: number; cost: number; paid_by: string }[];
}

async function readActivity(gateway: Gateway, headers: Headers): Promise<Activity> {
  const response = await fetch(`${gateway.url}/v1/account/activity/${headers.get('x-request-id')}`, {
    headers: { authorization: `Bearer ${gateway.managementKey}` },
  });
  return (await response.json()) as Activity;
}

const query = 'Where do cats sleep?';
const documents = ['Taxes are due in April.', 'Cats sleep on sofas.', 'A cat may sleep anywhere, cats like it warm.'];

describe('the built-in model', () => {
  test.each(['/v1/rerank', '/v2/rerank', '/rerank'])('%s answers best first and charges one search', async path => {
    const before = await readBalance(inner);
    const { status, headers, body } = await rerank(inner, { model: 'sim/rerank', query, documents }, { path });
    expect(status).toBe(200);
    expect(body).toMatchObject({ id: headers.get('x-request-id'), model: 'sim/rerank' });
    expect(new Set(body.results.map(({ index }) => index))).toEqual(new Set([0, 1, 2]));
    expect(body.results.at(-1)?.index).toBe(0);
    const scores = body.results.map(({ relevance_score: score }) => score);
    expect(scores).toEqual(scores.toSorted((one, other) => other - one));
    expect(body.results.every(result => result.document === undefined)).toBe(true);
    expect(body.usage).toEqual({ total_tokens: body.usage.total_tokens, search_units: 1, cost: 0.002 });
    expect(body.usage.total_tokens).toBeGreaterThan(20);
    expect(headers.get('x-tollgate-cost')).toBe('0.002');
    expect(before - (await readBalance(inner))).toBe(2_000_000n);
    expect(await heldBy(inner)).toBe(0n);
  });

  test('the record has a bucket of searches, one search for each 100 documents', async () => {
    const many = Array.from({ length: 201 }, (_, at) => `document ${at}`);
    const { headers, body } = await rerank(inner, { model: 'rerank', query, documents: many, top_n: 3 });
    expect(body.results).toHaveLength(3);
    expect(body.usage).toMatchObject({ search_units: 3, cost: 0.006 });
    const activity = await readActivity(inner, headers);
    expect(activity).toMatchObject({
      cost: 0.006,
      buckets: [{ kind: 'search', tokens: 3, price: 0.002, cost: 0.006, paid_by: 'account' }],
    });
    expect(await readRecord(inner, headers.get('x-request-id') ?? '')).toMatchObject({
      state: RecordState.COMPLETED,
      model: 'sim/rerank',
    });
  });

  test('takes documents as objects, and returns their texts if requested', async () => {
    const objects = documents.map(text => ({ text, source: 'a book' }));
    const { body } = await rerank(inner, { model: 'sim/rerank', query, documents: objects, return_documents: true });
    for (const { index, document } of body.results) expect(document).toEqual({ text: documents[index] });
  });

  test('with an Idempotency-Key, a repeated request gets the same answer and is charged once', async () => {
    const before = await readBalance(inner);
    const options = { headers: { 'idempotency-key': 'rerank-once' } };
    const first = await rerank(inner, { model: 'sim/rerank', query, documents }, options);
    const second = await rerank(inner, { model: 'sim/rerank', query, documents }, options);
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(before - (await readBalance(inner))).toBe(2_000_000n);
  });

  test('works over RPC', async () => {
    const client = createClient(RerankService, openTransport(inner.rpcUrl, inner.apiKey));
    const answer = await client.rerank({ model: 'sim/rerank', query, documents, topN: 1, returnDocuments: true });
    expect(answer.results).toHaveLength(1);
    expect(answer.results[0]?.document).toBe(documents[answer.results[0]?.index ?? -1]);
    expect([answer.searchUnits, answer.costNanoUsd]).toEqual([1, 2_000_000n]);
    const refused = await client
      .rerank({ model: 'sim/rerank', query, documents: [''] })
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: Code.InvalidArgument });
  });

  test('a `!sim` line in the query makes the request fail, free of charge', async () => {
    const before = await readBalance(inner);
    const { status } = await rerank(inner, { model: 'sim/rerank', query: '!sim status=503', documents });
    expect(status).toBe(502);
    expect(await readBalance(inner)).toBe(before);
  });

  test('the list of models has the built-in model, with its path and its price per search', async () => {
    const response = await fetch(`${inner.url}/v1/models?endpoint=/v1/rerank`, {
      headers: { authorization: `Bearer ${inner.apiKey}` },
    });
    const { data } = (await response.json()) as { data: { id: string; pricing: object }[] };
    expect(data.map(({ id }) => id)).toEqual(['sim/rerank']);
    expect(data[0]?.pricing).toMatchObject({ input: null, output: null, search: 0.002 });
  });

  test('analytics has its requests under its path', async () => {
    const response = await fetch(`${inner.url}/v1/account/analytics?group_by=endpoint`, {
      headers: { authorization: `Bearer ${inner.managementKey}` },
    });
    const { series } = (await response.json()) as { series: { group: string; cost: number }[] };
    expect(series.find(({ group }) => group === '/v1/rerank')?.cost).toBeGreaterThan(0);
  });
});

describe('refusals name the field and are free', () => {
  const refused: [name: string, body: object, expected: [status: number, code: string, param: string]][] = [
    ['no query', { model: 'sim/rerank', documents }, [422, 'validation_error', 'query']],
    ['an empty query', { model: 'sim/rerank', query: '', documents }, [422, 'validation_error', 'query']],
    ['no documents', { model: 'sim/rerank', query }, [422, 'validation_error', 'documents']],
    ['an empty list', { model: 'sim/rerank', query, documents: [] }, [422, 'validation_error', 'documents']],
    [
      'an empty document',
      { model: 'sim/rerank', query, documents: ['a', ''] },
      [422, 'validation_error', 'documents[1]'],
    ],
    [
      'a number as a document',
      { model: 'sim/rerank', query, documents: [7] },
      [422, 'validation_error', 'documents[0]'],
    ],
    [
      'a document without text',
      { model: 'sim/rerank', query, documents: [{ a: 1 }] },
      [422, 'validation_error', 'documents[0]'],
    ],
    ['top_n 0', { model: 'sim/rerank', query, documents, top_n: 0 }, [422, 'validation_error', 'top_n']],
    [
      'a document over the context length',
      { model: 'sim/rerank', query, documents: ['a', 'word '.repeat(9000)] },
      [422, 'validation_error', 'documents[1]'],
    ],
    ['a text model', { model: 'sim/large', query, documents }, [400, 'model_not_supported', 'model']],
    ['an unknown model', { model: 'no/such', query, documents }, [400, 'model_not_found', 'model']],
  ];
  test.each(refused)('%s', async (_, body, expected) => {
    const before = await readBalance(inner);
    const answer = await rerank(inner, body);
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual(expected);
    expect(await readBalance(inner)).toBe(before);
  });
});

describe('providers', () => {
  const good = (body: object = {}): (typeof answers)[number] => ({
    status: 200,
    body: {
      results: [
        { index: 0, relevance_score: 0.1 },
        { index: 2, relevance_score: -3 },
        { index: 1, relevance_score: 0.9 },
      ],
      ...body,
    },
  });

  test('the second gateway determines the order, the first one the price', async () => {
    const direct = await rerank(inner, { model: 'sim/rerank', query, documents });
    const before = await readBalance(outer);
    const { body } = await rerank(outer, { model: 'acme/rerank', query, documents, return_documents: true });
    expect(body.model).toBe('acme/rerank');
    expect(body.results).toMatchObject(direct.body.results);
    expect(body.results[0]?.document?.text).toBe(documents[body.results[0]?.index ?? -1]);
    expect(body.usage).toEqual({ ...direct.body.usage, cost: 0.004 });
    expect(before - (await readBalance(outer))).toBe(4_000_000n);
  });

  test('the provider gets documents as strings and other members unchanged; its results are sorted and cut to `top_n`', async () => {
    received.length = 0;
    answers = [good()];
    const request = { model: 'acme/scripted', query, documents: documents.map(text => ({ text })), top_n: 2 };
    const { status, body } = await rerank(outer, { ...request, max_tokens_per_doc: 512, return_documents: true });
    expect(status).toBe(200);
    expect(received).toEqual([
      {
        path: '/v1/rerank',
        body: { model: 'rerank-1', query, documents, top_n: 2, max_tokens_per_doc: 512 },
      },
    ]);
    expect(body.results).toEqual([
      { index: 1, relevance_score: 0.9, document: { text: documents[1] } },
      { index: 0, relevance_score: 0.1, document: { text: documents[0] } },
    ]);
  });

  const reported: [name: string, body: object, units: number][] = [
    ['Cohere’s billed units', { meta: { billed_units: { search_units: 4 } } }, 4],
    ['no usage', {}, 1],
    ['a report of 0 searches', { meta: { billed_units: { search_units: 0 } } }, 1],
  ];
  test.each(reported)('%s: its searches are charged, or else the gateway’s count', async (_, body, units) => {
    answers = [good(body)];
    const before = await readBalance(outer);
    const answer = await rerank(outer, { model: 'acme/scripted', query, documents });
    expect(answer.body.usage.search_units).toBe(units);
    expect(before - (await readBalance(outer))).toBe(BigInt(units) * 1_000_000n);
    expect((await readActivity(outer, answer.headers)).usage_source).toBe(units === 4 ? 'reported' : 'estimated');
  });

  test('a model priced by its input charges the reported tokens, or else the gateway’s count', async () => {
    answers = [good({ usage: { total_tokens: 40 } }), good()];
    const before = await readBalance(outer);
    const first = await rerank(outer, { model: 'acme/tokens', query, documents });
    expect(first.body.usage).toEqual({ total_tokens: 40, search_units: 1, cost: 0.00008 });
    expect(before - (await readBalance(outer))).toBe(80_000n);
    expect((await readActivity(outer, first.headers)).buckets).toMatchObject([{ kind: 'input', tokens: 40, price: 2 }]);
    const second = await rerank(outer, { model: 'acme/tokens', query, documents });
    const { total_tokens: counted } = second.body.usage;
    expect(before - (await readBalance(outer))).toBe(80_000n + BigInt(counted) * 2_000n);
  });

  test('a free model costs nothing', async () => {
    answers = [good()];
    const { status, body } = await rerank(outer, { model: 'acme/local:free', query, documents });
    expect([status, body.usage.cost]).toEqual([200, 0]);
  });

  const results = (...list: unknown[]): (typeof answers)[number] => ({ status: 200, body: { results: list } });
  const broken: [name: string, answer: (typeof answers)[number]][] = [
    ['too few', results({ index: 0, relevance_score: 1 })],
    ['too many', results(...[0, 1, 2, 3].map(index => ({ index, relevance_score: 1 })))],
    ['a repeated index', results(...[0, 1, 1].map(index => ({ index, relevance_score: 1 })))],
    ['an index out of range', results(...[0, 1, 3].map(index => ({ index, relevance_score: 1 })))],
    ['a fraction as index', results(...[0, 1, 1.5].map(index => ({ index, relevance_score: 1 })))],
    ['no score', results({ index: 0 }, { index: 1 }, { index: 2 })],
    [
      'an infinite score',
      {
        status: 200,
        body: '{"results":[{"index":0,"relevance_score":1e999},{"index":1,"relevance_score":1},{"index":2,"relevance_score":1}]}',
      },
    ],
    ['no results', { status: 200, body: { data: [] } }],
    ['invalid JSON', { status: 200, body: '{"results": [NaN' }],
    ['an error', { status: 500, body: { error: { message: 'no' } } }],
  ];
  test.each(broken)('%s is a failure of the provider: the request is retried, then 502 and free', async (_, answer) => {
    received.length = 0;
    answers = [answer, answer];
    const before = await readBalance(outer);
    const { status, headers, body } = await rerank(outer, { model: 'acme/scripted', query, documents });
    expect([status, body.error.code]).toEqual([502, 'upstream_error']);
    expect(received).toHaveLength(2);
    expect(await readBalance(outer)).toBe(before);
    expect(await heldBy(outer)).toBe(0n);
    expect(await readRecord(outer, headers.get('x-request-id') ?? '')).toMatchObject({
      state: RecordState.UPSTREAM_FAILED,
    });
    // A success after the failures, so that the circuit breaker stays closed.
    answers = [good()];
    expect((await rerank(outer, { model: 'acme/scripted', query, documents })).status).toBe(200);
  });

  test('of 20 requests at once with money for five, five are paid, and the balance does not go below zero', async () => {
    const poor = await startGateway({ balance: '0.01' });
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => rerank(poor, { model: 'sim/rerank', query, documents })),
    );
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(5);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(15);
    expect(await readBalance(poor)).toBe(0n);
    await endGateway(poor);
  });
});
