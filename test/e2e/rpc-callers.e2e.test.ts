/** RPC clients in several languages and libraries: their Generate calls are admitted, routed to an HTTP upstream, cancelled and charged like REST requests. */
import { once } from 'node:events';
import { connect } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { fromJson, type JsonObject, toBinary } from '@bufbuild/protobuf';
import { afterAll, describe, expect, test } from 'vitest';
import { type ActivityRecord, RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import { endGateway, type Gateway, heldBy, makeKey, readRecord, turnLoop } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { chunk, lastChunk, RawUpstream, type SeenRequest, streamHead } from '../upstreams/raw-upstream.ts';
import { type Called, type Program, programs } from './rpc-programs.ts';
import { eventually } from './upstream-callers.ts';

function frame(choice: object | undefined, more: object = {}): string {
  const choices = choice === undefined ? [] : [{ index: 0, finish_reason: null, ...choice }];
  return `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more })}\n\n`;
}
const begin = frame({ delta: { role: 'assistant', content: '' } });
const words = ['We', ' go', ' on', ' and', ' on'];
const deltas = words.map(content => frame({ delta: { content } }));
const end =
  frame({ delta: {}, finish_reason: 'stop' }) +
  frame(undefined, { usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 } }) +
  'data: [DONE]\n\n';

const requests = new Map<string, SeenRequest>();
/** Depending on the model, answers completely, sends its words and stalls, or repeats them as fast as they are read. */
const upstream = await RawUpstream.start(async (socket, request) => {
  const { model, user } = JSON.parse(request.body) as { model: string; user: string };
  // Providers get the end user with the account's id as a prefix.
  requests.set(user.replace(/^\d+:/, ''), request);
  socket.write(streamHead);
  if (model === 'quick') {
    socket.write(Buffer.concat([chunk(begin + deltas.join('') + end), Buffer.from(lastChunk)]));
    return;
  }
  socket.write(chunk(begin + deltas.join('')));
  const long = frame({ delta: { content: ' on'.repeat(2_000) } });
  while (model === 'flood' && !socket.destroyed) {
    if (!socket.write(chunk(long)))
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => undefined);
  }
});

const gateway: Gateway = await startGateway({
  balance: '100',
  config: `
simulator: { tokens_per_second: 0 }
providers:
  raw: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: key-of-the-upstream }
models:${['quick', 'still', 'flood']
    .map(
      id => `
  - id: acme/${id}
    endpoints: [/v1/chat/completions]
    context_length: 128000
    pricing: { input: 1, output: 10 }
    routes: [{ provider: raw, model: ${id} }]`,
    )
    .join('')}
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

/** Returns a request as protobuf's JSON; `label` identifies it at the upstream. */
const makeRequest = (model: string, label: string, more: JsonObject = {}): JsonObject => ({
  model,
  user: label,
  items: [{ message: { role: 'ROLE_USER', parts: [{ text: { text: 'Shall we?' } }] } }],
  ...more,
});
const withKey = (key = gateway.apiKey): Record<string, string> => ({ authorization: `Bearer ${key}` });

/** Waits for the newest record of a key, which only one program uses. */
const findKeyRecord = (apiKeyId: bigint): Promise<ActivityRecord> =>
  eventually(`a record of key ${apiKeyId}`, async () => (await gateway.account.listActivity({ apiKeyId })).records[0]);

/** Expects the upstream's connection of the labelled call to be closed within a second of `leftAtMs`. */
async function expectStopped(label: string, leftAtMs: number): Promise<void> {
  const closedAtMs = await Promise.race([requests.get(label)?.closedAtMs, sleep(10_000)]);
  expect((closedAtMs ?? Infinity) - leftAtMs).toBeLessThan(1_000);
}

/** Expects that only the delivered words were charged, and that nothing waited for the rest. */
function expectDelivered(record: ActivityRecord): void {
  const { inputTokens = 0, outputTokens = 0 } = record.usage ?? {};
  expect([record.state, outputTokens]).toEqual([RecordState.CLIENT_ABORTED, words.length]);
  expect(record.costNanoUsd).toBe(BigInt(inputTokens * 1_000 + outputTokens * 10_000));
}

const asText = (value: string | undefined): string => value ?? '';

describe.each(programs)('$name', (program: Program) => {
  const label = (what: string): string => `${program.name}: ${what}`;

  test.each(['DELIVERY_STREAMED', 'DELIVERY_WHOLE'])('generates: %s', async delivery => {
    const { key, id } = await makeKey(gateway);
    const request = makeRequest('acme/quick', label(delivery), { delivery });
    const called = await program.call(gateway, { request, headers: { 'x-api-key': key } });
    expect(called).toMatchObject({ code: 'ok', text: words.join(''), completed: true });
    const record = await findKeyRecord(id);
    expect(record).toMatchObject({ state: RecordState.COMPLETED, costNanoUsd: 9n * 1_000n + 5n * 10_000n });
    if (called.requestId !== undefined) expect(record.requestId).toBe(called.requestId);
  });

  test('a program that disconnects stops the upstream, and the delivered output is charged', async () => {
    const { key, id } = await makeKey(gateway);
    const leave = new AbortController();
    const request = makeRequest('acme/still', label('leave'));
    const calling = program.call(gateway, { request, headers: withKey(key), signal: leave.signal });
    await eventually('the request', () => requests.get(label('leave')));
    await sleep(200);
    await turnLoop(gateway);
    leave.abort();
    await expectStopped(label('leave'), performance.now());
    expect((await calling).code).toBe('left');
    expectDelivered(await findKeyRecord(id));
  });

  test('gets the details of an error: code, field, tip', async () => {
    const poor = await makeKey(gateway, { balanceNanoUsd: 0n });
    const call = (request: JsonObject, key?: string): Promise<Called> =>
      program.call(gateway, { request, headers: withKey(key) });
    const [unknown, invalid, empty, stranger] = await Promise.all([
      call(makeRequest('sim/larg', 'x')),
      call(makeRequest('acme/quick', 'x', { sampling: { temperature: 9 } })),
      call(makeRequest('acme/quick', 'x'), poor.key),
      call(makeRequest('acme/quick', 'x'), `sk-tg-${'0'.repeat(43)}`),
    ]);
    const gist = ({ code, detail }: Called): unknown[] => [code, detail?.code, detail?.param, detail?.httpStatus];
    expect([unknown, invalid, empty, stranger].map(gist)).toEqual([
      ['invalid_argument', 'model_not_found', 'model', 400],
      ['invalid_argument', 'validation_error', 'temperature', 422],
      ['resource_exhausted', 'insufficient_balance', '', 429],
      ['unauthenticated', 'invalid_api_key', '', 401],
    ]);
    expect(asText(unknown.detail?.tip)).toContain('sim/large');
    expect(asText(empty.detail?.tip)).toContain('tollgate credits add');
    for (const { detail, requestId } of [unknown, invalid, empty, stranger]) {
      expect(detail?.requestId).toMatch(/^req_[0-9A-Za-z]{21}$/);
      if (requestId !== undefined) expect(detail?.requestId).toBe(requestId);
    }
  });

  test('cannot set its request id', async () => {
    const { key, id } = await makeKey(gateway);
    const [other] = (await gateway.account.listActivity({ limit: 1 })).records;
    const before = await readRecord(gateway, other?.requestId ?? '');
    const headers = { ...withKey(key), 'x-tollgate-request-id': before.requestId, 'x-request-id': before.requestId };
    const called = await program.call(gateway, { request: makeRequest('acme/quick', label('spoof')), headers });
    expect(called.code).toBe('ok');
    const record = await findKeyRecord(id);
    expect(record.requestId).not.toBe(before.requestId);
    if (called.requestId !== undefined) expect(called.requestId).toBe(record.requestId);
    expect(await readRecord(gateway, before.requestId)).toEqual(before);
  });
});

// `buf curl` has no option for a deadline, and refuses the headers for one.
test.each(programs.filter(({ sendsDeadline }) => sendsDeadline))(
  '$name: a deadline stops the upstream, and what was delivered is charged',
  async program => {
    const { key, id } = await makeKey(gateway);
    const label = `${program.name}: deadline`;
    const began = performance.now();
    const request = makeRequest('acme/still', label);
    const called = await program.call(gateway, { request, headers: withKey(key), deadlineMs: 700 });
    expect(called).toMatchObject({ code: 'deadline_exceeded', text: words.join(''), completed: false });
    expect(performance.now() - began).toBeGreaterThan(600);
    await expectStopped(label, began + 700);
    expectDelivered(await findKeyRecord(id));
  },
);

test('Connect JSON, as curl sends it, counts tokens free of charge', async () => {
  const { key, id } = await makeKey(gateway);
  const response = await fetch(`${gateway.rpcUrl}/tollgate.v1.GenerationService/CountTokens`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...withKey(key) },
    body: JSON.stringify({ request: makeRequest('acme/quick', 'count') }),
  });
  const { inputTokens, source } = (await response.json()) as { inputTokens: number; source: string };
  expect([response.status, inputTokens > 3, inputTokens < 30, source]).toEqual([
    200,
    true,
    true,
    'USAGE_SOURCE_ESTIMATED',
  ]);
  expect(requests.has('count')).toBe(false);
  expect((await gateway.account.listActivity({ apiKeyId: id })).records).toEqual([]);
});

test('a caller that does not read slows its upstream, and its deadline still applies', async () => {
  const { key, id } = await makeKey(gateway);
  const session = connect(gateway.rpcUrl);
  const message = toBinary(GenerateRequestSchema, fromJson(GenerateRequestSchema, makeRequest('acme/flood', 'unread')));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  const began = performance.now();
  // Client libraries read ahead; a plain Node.js stream without a reader does not.
  const call = session.request({
    ':method': 'POST',
    ':path': '/tollgate.v1.GenerationService/Generate',
    'content-type': 'application/grpc+proto',
    te: 'trailers',
    'grpc-timeout': '1500m',
    ...withKey(key),
  });
  call.end(Buffer.concat([head, message]));
  const { socket } = await eventually('the request', () => requests.get('unread'));
  await sleep(900);
  const taken = socket.bytesWritten;
  await sleep(300);
  expect(socket.bytesWritten - taken).toBeLessThan(500_000);
  // Most of it is in the kernel's buffers of two sockets; the gateway buffers little.
  expect(taken).toBeLessThan(12_000_000);
  await expectStopped('unread', began + 1_500);
  const record = await findKeyRecord(id);
  expect(record.state).toBe(RecordState.CLIENT_ABORTED);
  expect(record.usage?.outputTokens).toBeLessThan(1_000_000);
  session.destroy();
});

test('1,000 calls at once with a key that has 5 cents spend at most 5 cents, to the nano-dollar', async () => {
  const money = 50_000_000n;
  const { key, id } = await makeKey(gateway, { balanceNanoUsd: money });
  const inProcess = programs.filter(({ name }) => /^(Connect client|grpc-js)/.test(name));
  const request = (index: number): JsonObject => {
    const text = `!sim tokens=${100 + (index % 7) * 300} tps=${index % 2 === 0 ? 0 : 4_000}`;
    return {
      ...makeRequest('sim/large', `${index}`),
      items: [{ message: { role: 'ROLE_USER', parts: [{ text: { text } }] } }],
    };
  };
  const call = (index: number): Promise<Called> =>
    (inProcess[index % inProcess.length] ?? expect.fail()).call(gateway, {
      request: request(index),
      headers: withKey(key),
    });
  const called = await Promise.all(Array.from({ length: 1_000 }, (_, index) => call(index)));
  const ends = new Map<string, number>();
  for (const { code, detail } of called) {
    const what = code === 'ok' ? code : `${code} ${detail?.code}`;
    ends.set(what, (ends.get(what) ?? 0) + 1);
  }
  expect([...ends.keys()].toSorted()).toEqual(['ok', 'resource_exhausted insufficient_balance']);
  expect(ends.get('ok')).toBeGreaterThan(5);
  const records = await eventually('all records', async () => {
    const page = await gateway.account.listActivity({ apiKeyId: id, limit: 1_000 });
    return page.records.length === ends.get('ok') ? page.records : undefined;
  });
  const spent = records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  expect(spent).toBeLessThanOrEqual(money);
  expect(records.filter(({ writtenOffNanoUsd }) => writtenOffNanoUsd !== 0n)).toEqual([]);
  const left = async (): Promise<bigint> => (await gateway.account.getKey({ apiKeyId: id })).key?.balanceNanoUsd ?? -1n;
  expect(await left()).toBe(money - spent);
  // The balance is spent until it does not pay for 16 tokens, and never goes below zero.
  for (let index = 0; (await call(index)).code === 'ok'; index += 1) expect(await left()).toBeGreaterThanOrEqual(0n);
  expect(await left()).toBeLessThan(200_000n);
});

test('nothing is held', async () => {
  await expect.poll(() => heldBy(gateway)).toBe(0n);
});
