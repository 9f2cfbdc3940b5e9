/** A public listener in another process than its gateway: what its clients see, what the gateway records, and which processes may act as an edge. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { Protocol } from '../../src/gen/tollgate/v1/content_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { Delivery, GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import { publicRequestId } from '../../src/lib/ids.ts';
import { fromConnectError } from '../../src/rpc/errors.ts';
import { call, readDollars } from '../e2e/account-client.ts';
import { ask, complete, post, stream } from '../e2e/chat-client.ts';
import { fetchImageBytes, getTask, type ImageBody, postImages, type TaskBody } from '../e2e/image-caller.ts';
import { askMessages } from '../e2e/messages-caller.ts';
import { outputText, SocketClient, type SocketResponse } from '../e2e/socket-client.ts';
import { sseMessages } from '../e2e/sse-reader.ts';
import { rpcClient, rpcRequest } from '../e2e/upstream-callers.ts';
import { endGateway, type Gateway, heldBy, makeKey, readRecord, startGateway } from '../gateway.ts';
import { chunk, lastChunk, RawUpstream, type SeenRequest, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { openRemoteEdge, type RemoteEdge } from './remote-edge.ts';

const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
const head = { id: 'chatcmpl-1', created: 1, model: 'm' };
const frame = (choice: object, more: object = {}): string =>
  `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, finish_reason: null, ...choice }], ...more })}\n\n`;
const answer = JSON.stringify({
  ...head,
  object: 'chat.completion',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi' } }],
  usage,
});

/** How many bytes were sent to a client that requests a flood. */
let flooded = 0;

/** Answers as requested. A model whose name ends in "slow" streams endlessly, one that ends in "flood" endlessly as fast as it is read. */
const upstream = await RawUpstream.start(async (socket, request) => {
  const { model, stream: isStream } = JSON.parse(request.body) as { model: string; stream?: boolean };
  if (isStream !== true) return void socket.write(whole(200, answer));
  socket.write(streamHead);
  socket.write(chunk(frame({ delta: { role: 'assistant', content: 'Hi' } })));
  if (model === 'plain') {
    socket.write(chunk(`${frame({ delta: {}, finish_reason: 'stop' }, { usage })}data: [DONE]\n\n`));
    return void socket.write(lastChunk);
  }
  const text = chunk(frame({ delta: { content: model === 'slow' ? ' go' : ' go'.repeat(2_000) } }));
  while (!socket.destroyed) {
    if (model === 'slow') await sleep(20);
    else flooded += text.length;
    if (!socket.write(text)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => undefined);
  }
});

let local: Gateway;
let edge: RemoteEdge;
let remote: Gateway;
beforeAll(async () => {
  local = await startGateway({
    balance: '100',
    config: `
simulator: { tokens_per_second: 0 }
providers:
  raw: { protocol: chat, base_url: "${upstream.baseUrl}" }
models:${['plain', 'slow', 'flood']
      .map(
        name => `
  - id: raw/${name}
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 10 }
    routes: [{ provider: raw, model: ${name} }]`,
      )
      .join('')}
`,
  });
  edge = await openRemoteEdge(local);
  remote = edge.gateway;
});
afterAll(async () => {
  await edge.close();
  await endGateway(local);
  await upstream.stop();
});

const readRequestId = (headers: Headers): string => headers.get('x-request-id') ?? '';

/** Expects that the ledger has the request, at the cost that the client received. */
async function expectRecorded(headers: Headers, costUsd: number | undefined): Promise<void> {
  const record = await readRecord(local, readRequestId(headers));
  expect([record.state, Number(record.costNanoUsd) / 1e9]).toEqual([RecordState.COMPLETED, costUsd]);
}

async function responses(on: Gateway, body: object): Promise<SocketResponse & { headers: Headers }> {
  const reply = await post(on, '/v1/responses', body);
  expect(reply.status).toBe(200);
  return { ...((await reply.json()) as SocketResponse), headers: reply.headers };
}

async function get<Body>(on: Gateway, path: string, key = on.apiKey): Promise<{ status: number; body: Body }> {
  const reply = await fetch(`${on.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
  return { status: reply.status, body: (await reply.json()) as Body };
}

describe('the interfaces', () => {
  test('Chat, whole and streamed: the answer has the id and the cost of its record', async () => {
    const answered = await complete(remote, ask('!sim say=It works.'));
    expect([answered.status, answered.text]).toEqual([200, 'It works.']);
    await expectRecorded(answered.headers, answered.body.usage.cost);
    const streamed = await stream(remote, ask('!sim say=It works.'));
    expect([streamed.status, streamed.text, streamed.done]).toEqual([200, 'It works.', true]);
    await expectRecorded(streamed.headers, streamed.usage?.cost);
  });

  test('Messages, whole and streamed', async () => {
    for (const isStream of [false, true]) {
      const messages = [{ role: 'user', content: '!sim say=It works.' }];
      const answered = await askMessages(remote, { model: 'sim/large', max_tokens: 99, messages, stream: isStream });
      expect([answered.status, answered.text, answered.error]).toEqual([200, 'It works.', undefined]);
      expect((await readRecord(local, readRequestId(answered.headers))).state).toBe(RecordState.COMPLETED);
    }
  });

  test('Responses: whole, streamed, continued at the other listener, read and deleted', async () => {
    const first = await responses(remote, { model: 'sim/large', input: '!sim say=First.' });
    expect([first.status, outputText(first)]).toEqual(['completed', 'First.']);
    await expectRecorded(first.headers, first.usage?.cost);
    const next = { model: 'sim/large', input: '!sim say=Second.', previous_response_id: first.id };
    expect(outputText(await responses(local, next))).toBe('Second.');
    const streamed = await post(remote, '/v1/responses', { ...next, stream: true });
    const events = sseMessages(await streamed.text());
    expect(events.at(-1)).toBe('[DONE]');
    expect(events.at(-2)).toContain('"response.completed"');
    const read = await get<SocketResponse>(remote, `/v1/responses/${first.id}`);
    expect(read).toEqual(await get(local, `/v1/responses/${first.id}`));
    expect(outputText(read.body)).toBe('First.');
    const deleted = await fetch(`${remote.url}/v1/responses/${first.id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${remote.apiKey}` },
    });
    expect(deleted.status).toBe(200);
    expect((await get(local, `/v1/responses/${first.id}`)).status).toBe(404);
  });

  test('Responses in the background: answered at once, followed to its end, read whole', async () => {
    const body = { model: 'sim/large', input: '!sim tokens=20 tps=20', background: true };
    const begun = await responses(remote, body);
    expect(begun.status).toMatch(/queued|in_progress/);
    const path = `/v1/responses/${begun.id}`;
    const followed = await fetch(`${remote.url}${path}?stream=true`, {
      headers: { authorization: `Bearer ${remote.apiKey}` },
    });
    expect(sseMessages(await followed.text()).at(-2)).toContain('"response.completed"');
    const ended = await get<SocketResponse>(remote, path);
    expect([ended.status, ended.body.status]).toEqual([200, 'completed']);
    expect(outputText(ended.body).length).toBeGreaterThan(20);
  });

  test('Responses over a WebSocket: turns that continue from each other without being stored', async () => {
    const client = await SocketClient.open(remote.url, remote.apiKey);
    const turn = async (input: string, more: object = {}): Promise<SocketResponse> => {
      const end = await client.ask({ model: 'sim/large', input, store: false, ...more });
      return 'response' in end ? end.response : expect.fail(JSON.stringify(end));
    };
    const first = await turn('!sim say=First.');
    const second = await turn('!sim say=Second.', { previous_response_id: first.id });
    expect([outputText(first), outputText(second)]).toEqual(['First.', 'Second.']);
    expect(second.previous_response_id).toBe(first.id);
    await client.close();
  });

  test('images: inline, by a URL without a key, and as a task', async () => {
    const body = { model: 'sim/image', prompt: 'a boat', size: '64x64', seed: 1 };
    const inline = await postImages(remote, 'generations', { ...body, response_format: 'b64_json' });
    expect(inline.status).toBe(200);
    await expectRecorded(inline.headers, Number(inline.headers.get('x-tollgate-cost')));
    const addressed = await postImages(remote, 'generations', body);
    const entry = addressed.body.data[0] ?? expect.fail('no image');
    const path = new URL(entry.url ?? '').pathname;
    const file = await fetch(`${remote.url}${path}`);
    const bytes = Buffer.from(await file.arrayBuffer());
    expect([file.status, file.headers.get('content-type')]).toEqual([200, 'image/png']);
    expect(bytes.equals(await fetchImageBytes(inline.body.data[0] ?? entry))).toBe(true);
    const queued = await postImages<TaskBody>(remote, 'generations', { ...body, async: true });
    expect(queued.status).toBe(202);
    const result = async (): Promise<ImageBody | null> => (await getTask(remote, queued.body.task_id)).body.result;
    await expect.poll(result, { timeout: 10_000 }).not.toBeNull();
    expect((await result())?.data).toHaveLength(1);
  });

  test('models, counted tokens and the account are the same as at the local listener', async () => {
    const models = await get<{ data: unknown[] }>(remote, '/v1/models');
    expect(models).toEqual(await get(local, '/v1/models'));
    expect(models.body.data.length).toBeGreaterThan(3);
    const counted = { model: 'sim/large', messages: [{ role: 'user', content: 'Count this.' }] };
    const counts = await Promise.all(
      [remote, local].map(async on => (await post(on, '/v1/messages/count_tokens', counted)).json()),
    );
    expect(counts[0]).toEqual(counts[1]);
    expect(await readDollars(remote)).toBe(await readDollars(local));
    const { headers } = await complete(remote, ask('!sim say=ok'));
    const options = { key: local.managementKey };
    const shown = await call<{ model: string }>(remote, 'GET', `/activity/${readRequestId(headers)}`, options);
    expect([shown.status, shown.body.model]).toEqual([200, 'sim/large']);
  });

  test('refusals and request windows are those of the local listener', async () => {
    const { key } = await makeKey(local, { minuteLimit: 2n });
    const bad = { model: 'sim/larg', messages: [{ role: 'user', content: 'x' }] };
    const seen = [];
    for (const on of [remote, local]) {
      const unknown = await complete(on, bad);
      const { code, param, message, status_code: status } = unknown.body.error;
      const keyless = await complete(on, bad, { key: null });
      seen.push([unknown.status, code, param, message, status, keyless.status, keyless.body.error.code]);
      expect(unknown.body.error.id).toBe(readRequestId(unknown.headers));
    }
    expect(seen[0]).toEqual(seen[1]);
    const windows = [];
    for (const on of [remote, local, remote]) {
      const { status, headers } = await complete(on, ask('!sim say=ok'), { key });
      windows.push([status, headers.get('x-ratelimit-remaining-requests'), headers.has('retry-after')]);
    }
    expect(windows).toEqual([
      [200, '1', false],
      [200, '0', false],
      [429, '0', true],
    ]);
  });
});

test('a request that one listener answered can be repeated at the other, where another body is refused', async () => {
  for (const [first, second] of [
    [remote, local],
    [local, remote],
  ] as const) {
    for (const isStream of [false, true]) {
      const key = `${first.url} ${isStream}`;
      const body = JSON.stringify({ ...ask('!sim tokens=30'), stream: isStream });
      const headers = { 'idempotency-key': key };
      const one = await post(first, '/v1/chat/completions', body, { headers });
      const text = await one.text();
      const other = await post(second, '/v1/chat/completions', body, { headers });
      expect([other.status, await other.text()]).toEqual([200, text]);
      expect([readRequestId(other.headers), other.headers.get('idempotent-replayed')]).toEqual([
        readRequestId(one.headers),
        'true',
      ]);
      const reused = await post(second, '/v1/chat/completions', `${body} `, { headers });
      expect(reused.status).toBe(422);
      await reused.text();
    }
  }
});

describe('raw bodies', () => {
  const body = { model: 'raw/plain', messages: [{ role: 'user', content: 'Hi' }], x_custom: { b: [1.0, 'é'] } };
  const lastBody = (): string => upstream.requests.at(-1)?.body ?? '';

  test('what a client sends to the remote listener reaches an upstream of the same protocol as from the local one', async () => {
    for (const isStream of [false, true]) {
      const bodies = [];
      for (const on of [remote, local]) {
        const reply = await post(on, '/v1/chat/completions', { ...body, stream: isStream });
        expect([reply.status, (await reply.text()).includes('Hi')]).toEqual([200, true]);
        bodies.push(lastBody());
      }
      expect(bodies[0]).toBe(bodies[1]);
      expect(JSON.parse(lastBody())).toMatchObject({ x_custom: body.x_custom });
    }
  });

  test('are accepted only from an edge; those of other callers are dropped, also with a wrong token', async () => {
    const source = { protocol: Protocol.CHAT, body: Buffer.from(JSON.stringify(body)) };
    const request = create(GenerateRequestSchema, { source, model: 'raw/plain', delivery: Delivery.WHOLE });
    request.items = create(GenerateRequestSchema, rpcRequest('raw/plain', Delivery.WHOLE)).items;
    const token = readFileSync(`${local.dataDir}/edge.token`, 'utf8').trim();
    const operator = readFileSync(`${local.dataDir}/operator.token`, 'utf8').trim();
    // The last instance number, which no other test uses.
    const named = publicRequestId(Date.now() * 4096 + 63);
    for (const [sent, isTaken] of [
      [undefined, false],
      [`${token}x`, false],
      [operator, false],
      [local.apiKey, false],
      [token, true],
    ] as const) {
      const headers = { 'x-tollgate-request-id': named, ...(sent === undefined ? {} : { 'x-tollgate-edge': sent }) };
      let id: string | null = null;
      const onHeader = (reply: Headers): void => void (id = reply.get('x-request-id'));
      await Array.fromAsync(rpcClient(local).generate(request, { headers, onHeader }));
      expect([sent, lastBody().includes('x_custom'), id === named]).toEqual([sent, isTaken, isTaken]);
    }
  });
});

test('a raw body is checked and priced instead of the decoded fields, and only allowed headers are passed on', async () => {
  const token = readFileSync(`${local.dataDir}/edge.token`, 'utf8').trim();
  const poor = await makeKey(local, { balanceNanoUsd: 10_000n });
  const headers = { 'x-tollgate-edge': token, authorization: `Bearer ${poor.key}` };
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl: local.rpcUrl }));
  const send = async (body: object, more: object = {}) => {
    const source = { protocol: Protocol.CHAT, body: Buffer.from(JSON.stringify(body)), ...more };
    const request = create(GenerateRequestSchema, { model: 'raw/plain', delivery: Delivery.WHOLE, source });
    request.items = create(GenerateRequestSchema, rpcRequest('raw/plain', Delivery.WHOLE)).items;
    try {
      await Array.fromAsync(client.generate(request, { headers }));
      return 'answered';
    } catch (thrown) {
      return fromConnectError(thrown).code;
    }
  };
  const before = upstream.requests.length;
  const said = (content: string, more: object = {}) => ({
    model: 'raw/plain',
    messages: [{ role: 'user', content }],
    max_tokens: 16,
    ...more,
  });
  const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
  expect(await send(said('word '.repeat(100_000)))).toBe('insufficient_balance');
  expect(await send(said('Hi', { tools }))).toBe('unsupported_feature');
  expect(await send({ messages: 'none' })).toBe('validation_error');
  expect(await send(said('Hi'), { body: Buffer.from('{"model"') })).toBe('invalid_request');
  expect(upstream.requests.length).toBe(before);
  const hostile = {
    host: 'attacker.example',
    authorization: 'Bearer attacker',
    'x-forwarded-for': '10.0.0.1',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    'anthropic-beta': 'a\r\nx-injected: 1',
  };
  await makeRich(poor.id);
  expect(await send(said('Hi'), { headers: hostile })).toBe('answered');
  const sent = JSON.stringify(upstream.requests.at(-1)?.headers);
  expect(sent).toContain(hostile.traceparent);
  for (const text of ['attacker', 'x-forwarded-for', 'anthropic-beta', 'x-injected']) expect(sent).not.toContain(text);
});

async function makeRich(apiKeyId: bigint): Promise<void> {
  await local.account.updateKey({ apiKeyId, settings: { balanceNanoUsd: 1_000_000_000n } });
}

test('a call with only the edge token is refused: it needs an API key', async () => {
  const token = readFileSync(`${local.dataDir}/edge.token`, 'utf8').trim();
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl: local.rpcUrl }));
  const request = rpcRequest('sim/large', Delivery.WHOLE);
  for (const more of [{}, { authorization: `Bearer ${token}` }, { authorization: `Bearer ${local.managementKey}` }]) {
    const replies = client.generate(request, { headers: { 'x-tollgate-edge': token, ...more } });
    const code =
      'authorization' in more && !more.authorization.includes(token) ? 'PermissionDenied' : 'Unauthenticated';
    await expect(Array.fromAsync(replies)).rejects.toMatchObject({ code: Code[code] });
  }
});

/** Requests a stream from the remote listener over a socket, without an HTTP client. */
function open(model: string): Socket {
  const { hostname, port } = new URL(remote.url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Go on' }] });
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${remote.apiKey}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  return socket;
}

/** Waits until the upstream has received the request for a model, and returns it. */
async function reached(model: string): Promise<SeenRequest> {
  const seen = (): SeenRequest | undefined =>
    upstream.requests.findLast(({ body }) => body.includes(`"${model}"`) && body.includes('Go on'));
  await expect.poll(seen).toBeDefined();
  return seen() ?? expect.fail(model);
}

/** Expects that the connection to the upstream was closed within a second after `leftAtMs` and that the request is settled. */
async function expectStopped(model: string, request: SeenRequest, leftAtMs: number): Promise<void> {
  const closedAtMs = await Promise.race([request.closedAtMs, sleep(10_000)]);
  expect((closedAtMs ?? Infinity) - leftAtMs).toBeLessThan(1_000);
  const records = async () => (await local.account.listActivity({ model: `raw/${model}` })).records;
  await expect.poll(async () => (await records())[0]?.state).toBe(RecordState.CLIENT_ABORTED);
  expect((await records())[0]?.usage?.outputTokens).toBeGreaterThan(0);
}

test('a client that disconnects stops the upstream within a second, and is charged for what was delivered', async () => {
  const socket = open('raw/slow');
  let text = '';
  socket.on('data', bytes => (text += String(bytes)));
  await expect.poll(() => text.split('" go"').length).toBeGreaterThan(5);
  const request = await reached('slow');
  const leftAtMs = performance.now();
  socket.destroy();
  await expectStopped('slow', request, leftAtMs);
});

test('a client that never reads stops its upstream; memory does not grow, and other clients are answered', async () => {
  const socket = open('raw/flood').pause();
  const request = await reached('flood');
  let taken = 0;
  let quietMs = 0;
  // So long that a slow machine does not look like a stop.
  for (; quietMs < 1_000; quietMs = flooded === taken ? quietMs + 100 : 0) {
    taken = flooded;
    await sleep(100);
  }
  // The kernel’s buffers of six sockets and the window of a stream hold most of it, and the processes little.
  expect(taken).toBeGreaterThan(100_000);
  expect(taken).toBeLessThan(32_000_000);
  const memory = (): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${local.pid}/status`, 'utf8'))?.[1]) / 1_024;
  const before = memory();
  for (let count = 0; count < 5; count += 1) {
    expect((await complete(remote, ask('!sim say=It works.'))).text).toBe('It works.');
    await sleep(200);
  }
  expect(memory() - before).toBeLessThan(16);
  // Later only the kernel may make room in its buffers; a running stream would be many times as much.
  expect(flooded - taken).toBeLessThan(6_000_000);
  const leftAtMs = performance.now();
  socket.destroy();
  await expectStopped('flood', request, leftAtMs);
});

test('while the gateway is down, clients of the edge get an error at once; when it is back, they get answers again', async () => {
  let home = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
  const orphan = await openRemoteEdge(home);
  const say = () => complete(orphan.gateway, ask('!sim say=It works.'));
  expect((await say()).text).toBe('It works.');
  const port = new URL(home.rpcUrl).port;
  await home.kill();
  const { status, headers, body, ms } = await say();
  expect([status, body.error.code, headers.get('retry-after')]).toEqual([503, 'overloaded', '1']);
  expect(ms).toBeLessThan(2_000);
  home = await startGateway({ home: home.home, environment: { TOLLGATE_RPC_PORT: port } });
  await expect.poll(async () => (await say()).text).toBe('It works.');
  await orphan.close();
  await endGateway(home);
});

test('nothing is held', async () => {
  await expect.poll(() => heldBy(local), { timeout: 10_000 }).toBe(0n);
});
