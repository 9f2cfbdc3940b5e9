/** Requests to upstreams are the client's request, changed only where necessary (docs/interfaces/README.md "Translation"; docs/accounting.md "Holds"). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, type Gateway, makeKey, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { chunk, RawUpstream, type SeenRequest, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { ask, complete, stream } from './chat-client.ts';

const answer = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Yes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 },
});
const upstream = await RawUpstream.start(async (socket, request) => {
  if (!request.body.includes('without end')) {
    socket.write(whole(200, answer));
    return;
  }
  socket.write(streamHead);
  while (!socket.destroyed) {
    const delta = { index: 0, delta: { content: ' on'.repeat(100) }, finish_reason: null };
    socket.write(chunk(`data: ${JSON.stringify({ id: 'chatcmpl-1', choices: [delta] })}\n\n`));
    await sleep(5);
  }
});
const gateway: Gateway = await startGateway({
  config: `
simulator: { enabled: false }
providers:
  raw: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: key-of-the-upstream, headers: { x-team: blue } }
models:
  - id: acme/limited
    endpoints: [/v1/chat/completions]
    max_output_tokens: 2000
    pricing: { input: 1, output: 10 }
    routes: [{ provider: raw, model: own/name }]
  - id: acme/unlimited
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 10 }
    routes: [{ provider: raw, model: m }]
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});
beforeEach(() => {
  upstream.requests.length = 0;
});

const sent = (): SeenRequest => upstream.requests.at(-1) ?? expect.fail('nothing was sent');
const bodySent = (): Record<string, unknown> => JSON.parse(sent().body) as Record<string, unknown>;
const toNanoUsd = (outputTokens: number): bigint => BigInt(outputTokens) * 10_000n;

test('the client’s request is passed on with the upstream’s name of the model, as a stream with usage', async () => {
  const body = ask('Is it?', { model: 'acme/limited', my_field: { deep: [1.5, null, 'é'] }, temperature: 0.5 });
  await complete(gateway, body);
  const changed = { model: 'own/name', stream: true, stream_options: { include_usage: true } };
  expect(bodySent()).toEqual({ ...body, ...changed });
  await stream(gateway, { ...body, stream_options: { include_usage: false } });
  expect(bodySent()).toEqual({ ...body, ...changed });
});

test('the same request is sent as the same bytes, for every key and whatever its balance', async () => {
  const { key } = await makeKey(gateway, { balanceNanoUsd: 1_000_000_000n });
  for (const model of ['acme/limited', 'acme/unlimited']) {
    upstream.requests.length = 0;
    const body = ask('Is it?', { model });
    await complete(gateway, body);
    await complete(gateway, body);
    await complete(gateway, body, { key });
    expect(new Set(upstream.requests.map(request => request.body)).size).toBe(1);
    expect(bodySent()).not.toHaveProperty('max_completion_tokens');
  }
});

test('credentials and headers are those configured for the provider, never the client’s', async () => {
  const headers = {
    cookie: 'c=1',
    'x-forwarded-for': '10.0.0.1',
    'x-team': 'red',
    'openai-organization': 'org',
    'user-agent': 'spy/1',
  };
  await complete(gateway, ask('Is it?', { model: 'acme/limited' }), { headers });
  expect(sent().line).toBe('POST /v1/chat/completions HTTP/1.1');
  expect(sent().headers).toMatchObject({
    authorization: 'Bearer key-of-the-upstream',
    'x-team': 'blue',
    'user-agent': 'tollgate',
    'content-type': 'application/json',
  });
  const known = [
    'host',
    'connection',
    'content-length',
    'accept',
    'authorization',
    'x-team',
    'user-agent',
    'content-type',
  ];
  expect(Object.keys(sent().headers).filter(name => !known.includes(name))).toEqual([]);
});

test('an output limit above the model’s is lowered to it; a lower one is unchanged and keeps its name', async () => {
  await complete(gateway, ask('Is it?', { model: 'acme/limited', max_tokens: 5_000 }));
  expect(bodySent()).toMatchObject({ max_tokens: 2_000 });
  await complete(gateway, ask('Is it?', { model: 'acme/limited', max_completion_tokens: 700 }));
  expect(bodySent()).toMatchObject({ max_completion_tokens: 700 });
  expect(bodySent()).not.toHaveProperty('max_tokens');
});

test.each([complete, stream])(
  'an endless answer is ended when the money is used up, although no limit was sent (%#)',
  async send => {
    const { key, id } = await makeKey(gateway, { balanceNanoUsd: toNanoUsd(6_000) });
    const { status, finish, headers } = await send(gateway, ask('Go on without end', { model: 'acme/unlimited' }), {
      key,
    });
    expect([status, finish]).toEqual([200, 'length']);
    expect(bodySent()).not.toHaveProperty('max_completion_tokens');
    const record = await readRecord(gateway, headers.get('x-request-id') ?? '');
    expect([record.state, record.writtenOffNanoUsd]).toEqual([RecordState.INCOMPLETE, 0n]);
    expect(record.usage?.outputTokens).toBeGreaterThan(5_500);
    const left = (await gateway.account.getKey({ apiKeyId: id })).key?.balanceNanoUsd;
    expect(left).toBe(toNanoUsd(6_000) - record.costNanoUsd);
    expect(left).toBeGreaterThanOrEqual(0n);
    expect(sent().socket.destroyed).toBe(true);
  },
);

test.each(['acme/limited', 'acme/unlimited'])(
  'if the balance pays for less than the limit, the limit that is sent is what it pays for: %s',
  async model => {
    const { key } = await makeKey(gateway, { balanceNanoUsd: toNanoUsd(500) });
    await complete(gateway, ask('Is it?', { model }), { key });
    const limit = Number(bodySent()['max_completion_tokens'] ?? bodySent()['max_tokens']);
    expect(limit).toBeGreaterThan(450);
    expect(limit).toBeLessThan(500);
  },
);
