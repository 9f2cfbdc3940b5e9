/** A gateway whose upstream is another gateway: Chat to Chat over HTTP, with the failures that steering lines request from the second one. */
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { UsageSource } from '../../src/gen/tollgate/v1/event_pb.ts';
import { endGateway, type Gateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { type Answer, ask, type ChatBody, complete, type Streamed, stream } from './chat-client.ts';

const inner = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nretries: 0\n', balance: '100' });
// The first request of a process loads the tokenizer, which on a busy machine takes longer than the `first_event` below.
await complete(inner, ask('Hello', { model: 'sim/large' }));
const outer = await startGateway({
  config: `
simulator: { enabled: false }
retries: 1
timeouts: { first_event: 2s, idle: 1s }
providers:
  inner: { protocol: chat, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
  wrong: { protocol: chat, base_url: "${inner.url}/v1", api_key: sk-tg-nobody-knows-this-key }
  # A refused key rests: each way has a provider of its own.
  wrong-whole: { protocol: chat, base_url: "${inner.url}/v1", api_key: sk-tg-nobody-knows-this-key }
  wrong-stream: { protocol: chat, base_url: "${inner.url}/v1", api_key: sk-tg-nobody-knows-this-key }
  gone: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: none }
models:
  - id: acme/large
    context_length: 128000
    max_output_tokens: 8192
    endpoints: [/v1/chat/completions]
    capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [flex] }
    pricing: { input: 3, output: 15, caching: { read: 0.3 } }
    routes: [{ provider: inner, model: sim/large }]
  - id: acme/second-route
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 1 }
    routes: [{ provider: gone, model: a, priority: 1 }, { provider: wrong, model: b, priority: 2 }, { provider: inner, model: sim/small, priority: 3 }]
  - id: acme/wrong-key-whole
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 1 }
    routes: [{ provider: wrong-whole, model: sim/small }]
  - id: acme/wrong-key-stream
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 1 }
    routes: [{ provider: wrong-stream, model: sim/small }]
  - id: acme/local
    endpoints: [/v1/chat/completions]
    pricing: { input: 0, output: 0 }
    routes: [{ provider: inner, model: sim/small }]
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
});

const steer = (line: string, more?: object): ChatBody => ask(`Tolls\n!sim ${line}`, { model: 'acme/large', ...more });
const readRequestId = ({ headers }: { readonly headers: Headers }): string => headers.get('x-request-id') ?? '';
const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
];

const ways: {
  readonly way: string;
  readonly send: (gateway: Gateway, body: ChatBody) => Promise<Answer | Streamed>;
}[] = [
  { way: 'whole', send: complete },
  { way: 'stream', send: stream },
];

describe.each(ways)('$way', ({ way, send }) => {
  test('text arrives unchanged and is charged at the outer prices', async () => {
    const answer = await send(outer, steer('say=Ünï ✓ 日本語 👩‍👩‍👧'));
    expect([answer.status, answer.text, answer.finish]).toEqual([200, 'Ünï ✓ 日本語 👩‍👩‍👧', 'stop']);
    const record = await readRecord(outer, readRequestId(answer));
    expect(record).toMatchObject({
      model: 'acme/large',
      state: RecordState.COMPLETED,
      usageSource: UsageSource.REPORTED,
    });
    const { inputTokens = 0, outputTokens = 0 } = record.usage ?? {};
    expect(record.costNanoUsd).toBe(BigInt(inputTokens) * 3_000n + BigInt(outputTokens) * 15_000n);
    expect(outputTokens).toBeGreaterThan(3);
  });

  test('tool calls, n, logprobs and stop are passed on', async () => {
    const called = await send(outer, steer('calls=2', { tools }));
    expect(called.calls).toHaveLength(2);
    expect(called.finish).toBe('tool_calls');
    const stopped = await send(outer, steer('say=one two three', { stop: [' two'] }));
    expect(stopped.text).toBe('one');
    const cut = await send(outer, steer('tokens=500', { max_tokens: 30 }));
    expect(cut.finish).toBe('length');
    expect((await readRecord(outer, readRequestId(cut))).usage?.outputTokens).toBe(30);
  });

  test('a tier is passed on, and charged as the upstream reports it', async () => {
    const answer = await send(outer, steer('tokens=10', { service_tier: 'flex' }));
    const record = await readRecord(outer, readRequestId(answer));
    const { inputTokens = 0 } = record.usage ?? {};
    expect(record.costNanoUsd).toBe((BigInt(inputTokens) * 3_000n + 150_000n) / 2n);
  });

  test('a request that the upstream refuses is 400 with its message, without a record', async () => {
    const answer = await send(outer, steer('nonsense=1'));
    const error = 'body' in answer ? answer.body.error : answer.error;
    expect([answer.status, error?.code]).toEqual([400, 'upstream_rejected']);
    expect(error?.message).toContain('nonsense');
    await expect(outer.account.getActivity({ requestId: readRequestId(answer) })).rejects.toThrow(/not.?found/i);
  });

  test.each(['status=500', 'fail=0'])('%s is 502 and free', async line => {
    const answer = await send(outer, steer(`tokens=50 ${line}`));
    const error = 'body' in answer ? answer.body.error : answer.error;
    expect(error?.code).toBe('upstream_error');
    expect((await readRecord(outer, readRequestId(answer))).costNanoUsd).toBe(0n);
  });

  test.each([
    ['fail=5', 'upstream_error'],
    ['stall=5', 'upstream_timeout'],
  ])('%s: for a stream, what was delivered is charged; a whole answer is free', async (line, code) => {
    const answer = await send(outer, steer(`tokens=100 ${line}`));
    const error = 'body' in answer ? answer.body.error : answer.error;
    expect(error?.code).toBe(code);
    const record = await readRecord(outer, readRequestId(answer));
    expect(record.state).toBe(RecordState.UPSTREAM_FAILED);
    if (way === 'whole') expect(record.costNanoUsd).toBe(0n);
    else expect(record.costNanoUsd).toBeGreaterThan(0n);
  });

  test('routes that are down or refuse the key are skipped, and the account is charged once', async () => {
    const answer = await send(outer, steer('tokens=7', { model: 'acme/second-route' }));
    expect(answer.status).toBe(200);
    const { usage, costNanoUsd } = await readRecord(outer, readRequestId(answer));
    expect(usage?.outputTokens).toBe(7);
    expect(costNanoUsd).toBe(BigInt((usage?.inputTokens ?? 0) + 7) * 1_000n);
  });

  test('no upstream’s key or address reaches a client', async () => {
    const answer = await send(outer, steer('tokens=7', { model: `acme/wrong-key-${way}` }));
    const error = 'body' in answer ? answer.body.error : answer.error;
    expect([answer.status, error?.code]).toEqual([502, 'upstream_error']);
    const shown = JSON.stringify([error, [...answer.headers]]);
    expect(shown).not.toContain('nobody-knows');
    expect(shown).not.toContain(new URL(inner.url).port);
  });

  test('a model with an explicit price of 0 costs nothing, and the windows of free models do not apply to it', async () => {
    const answer = await send(outer, steer('tokens=7', { model: 'acme/local' }));
    expect(answer.status).toBe(200);
    expect(answer.headers.get('x-ratelimit-limit-requests')).toBeNull();
    expect((await readRecord(outer, readRequestId(answer))).costNanoUsd).toBe(0n);
  });
});

test('unknown members of an upstream’s answer reach a client of the same protocol', async () => {
  const { body } = await complete(outer, steer('tokens=3'));
  expect(body).toHaveProperty('system_fingerprint', 'fp_tollgate_simulator');
});

test('a client’s disconnect stops the second gateway’s request within a second', async () => {
  const left = await stream(outer, steer('tokens=5000 tps=100'), { until: chunks => chunks.length > 10 });
  const record = await readRecord(outer, readRequestId(left));
  expect(record.state).toBe(RecordState.CLIENT_ABORTED);
  await expect
    .poll(async () => (await inner.account.listActivity({ limit: 1 })).records[0]?.state)
    .toBe(RecordState.CLIENT_ABORTED);
  const [last] = (await inner.account.listActivity({ limit: 1 })).records;
  expect(last?.usage?.outputTokens).toBeLessThan(400);
});
