/** The WebSocket transport: turns one after the other, responses that are kept as long as their connection, errors, and how connections end. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { toRequestId } from '../../src/generation/response-ids.ts';
import { endGateway, expectVerified, makeKey, readRecord, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { payg } from './chat-client.ts';
import { outputText, SocketClient, type SocketResponse } from './socket-client.ts';

const gateway = await startShared({ config: 'keep_alive: 300ms\nlimits: { body_bytes: 1MiB }\n' });
afterAll(() => endGateway(gateway));

const model = payg;
const open = (apiKey = gateway.apiKey): Promise<SocketClient> => SocketClient.open(gateway.url, apiKey);

async function answered(client: SocketClient, body: Readonly<Record<string, unknown>>): Promise<SocketResponse> {
  const end = await client.ask({ model, ...body });
  if ('error' in end) throw new Error(JSON.stringify(end.error));
  return end.response;
}

async function refused(client: SocketClient, body: Readonly<Record<string, unknown>>): Promise<unknown[]> {
  const end = await client.ask({ model, ...body });
  if ('response' in end) throw new Error(`answered: ${outputText(end.response)}`);
  const { type, status, error } = end.error;
  return [type, status, error?.code, error?.param];
}

async function get(path: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${gateway.url}/v1/responses/${path}`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  });
  return { status: response.status, body: await response.json() };
}

test('a connection on which 64 messages in a row were refused is closed', async () => {
  const client = await open();
  let errors = 0;
  client.socket.on('message', () => (errors += 1));
  for (let message = 0; message < 300; message += 1) client.socket.send(Buffer.from([1]));
  await expect.poll(() => client.closeCode).toBe(1008);
  expect(errors).toBe(64);
});

test('a turn has the same events as over HTTP, as text messages that are numbered from 0 in each turn', async () => {
  const client = await open();
  for (const say of ['One.', 'Two.']) {
    client.create({ model, input: `!sim say=${say}`, stream: true });
    const events = await client.turn();
    expect(events.map(event => event.sequence_number)).toEqual(events.map((_, index) => index));
    expect(events.map(event => event.type).filter(type => type !== 'response.output_text.delta')).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const response = events.at(-1)?.response;
    expect(response === undefined ? '' : outputText(response)).toBe(say);
    expect(await get(response?.id ?? '')).toEqual({ status: 200, body: response });
  }
  await client.close();
});

test('turns run one after the other, even if they are sent at once', async () => {
  const client = await open();
  for (const say of ['a', 'b', 'c']) client.create({ model, input: `!sim delay_ms=50 say=${say}` });
  const texts: string[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const events = await client.turn();
    const ids = new Set(events.flatMap(event => event.response?.id ?? []));
    expect(ids.size).toBe(1);
    const response = events.at(-1)?.response;
    texts.push(response === undefined ? '' : outputText(response));
  }
  expect(texts).toEqual(['a', 'b', 'c']);
  await client.close();
});

describe('a response that is not stored', () => {
  test('can be continued only on its connection', async () => {
    const client = await open();
    const first = await answered(client, { input: '!sim say=I am one.', store: false });
    const second = await answered(client, {
      input: '!sim say=I am two.',
      store: false,
      previous_response_id: first.id,
    });
    expect(second.previous_response_id).toBe(first.id);
    const third = await answered(client, {
      input: '!sim say=I am three.',
      store: false,
      previous_response_id: second.id,
    });
    const first_ = first.usage?.input_tokens ?? 0;
    expect(second.usage?.input_tokens).toBeGreaterThan(first_);
    expect(third.usage?.input_tokens).toBeGreaterThan(second.usage?.input_tokens ?? 0);
    expect((await get(third.id)).status).toBe(404);
    const other = await open();
    const gone = ['error', 400, 'previous_response_not_found', 'previous_response_id'];
    expect(await refused(other, { input: 'x', previous_response_id: third.id })).toEqual(gone);
    await other.close();
    await client.close();
  });

  test('is forgotten with its connection', async () => {
    const client = await open();
    const { id } = await answered(client, { input: '!sim say=x', store: false });
    await client.close();
    const next = await open();
    expect((await refused(next, { input: 'x', previous_response_id: id }))[2]).toBe('previous_response_not_found');
    await next.close();
  });

  test('can be continued by a stored response, which then contains the whole conversation', async () => {
    const client = await open();
    const first = await answered(client, { input: '!sim say=Unstored.', store: false });
    const second = await answered(client, { input: '!sim say=Stored.', previous_response_id: first.id });
    await client.close();
    const { body } = await get(`${second.id}/input_items?order=asc`);
    const texts = (body as { data: { content: { text: string }[] }[] }).data.map(item => item.content[0]?.text);
    expect(texts).toEqual(['!sim say=Unstored.', 'Unstored.', '!sim say=Stored.']);
    const later = await open();
    const third = await answered(later, { input: '!sim say=Later.', previous_response_id: second.id });
    expect(outputText(third)).toBe('Later.');
    await later.close();
  });

  test.each([
    ['a body that does not match the schema', { temperature: 7 }, 422],
    ['an unknown model', { model: 'no/such' }, 400],
    ['a provider’s failure', { input: '!sim status=500' }, 502],
    ['a reference to nothing', { input: [{ type: 'item_reference', id: 'msg_none' }] }, 400],
  ])('is forgotten when a turn that refers to it fails: %s', async (_, broken, status) => {
    const client = await open();
    const { id } = await answered(client, { input: '!sim say=x', store: false });
    const kept = await answered(client, { input: '!sim say=y', store: false });
    expect((await refused(client, { input: 'x', previous_response_id: id, ...broken }))[1]).toBe(status);
    expect((await refused(client, { input: 'x', previous_response_id: id }))[2]).toBe('previous_response_not_found');
    const next = await answered(client, { input: '!sim say=z', store: false, previous_response_id: kept.id });
    expect(outputText(next)).toBe('z');
    await client.close();
  });

  test('that is stored survives a turn that refers to it and fails', async () => {
    const client = await open();
    const { id } = await answered(client, { input: '!sim say=x' });
    expect((await refused(client, { input: '!sim status=500', previous_response_id: id }))[1]).toBe(502);
    expect(outputText(await answered(client, { input: '!sim say=y', previous_response_id: id }))).toBe('y');
    await client.close();
  });
});

test('a loop of tool calls needs only the id of the last response', async () => {
  const tools = [
    {
      type: 'function',
      name: 'get_weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  ];
  const client = await open();
  const called = await answered(client, { input: 'Weather in Oslo?', tools, tool_choice: 'required', store: false });
  const call = called.output.find(item => item.type === 'function_call');
  const output = { type: 'function_call_output', call_id: call?.call_id, output: 'sunny' };
  const done = await answered(client, { input: [output], tools, store: false, previous_response_id: called.id });
  expect(done.status).toBe('completed');
  expect(done.output.some(item => item.type === 'message')).toBe(true);
  await client.close();
});

describe('a bad turn gets an error event', () => {
  test.each([
    ['background', { background: true }, 'background'],
    ['background, whatever its value', { background: false }, 'background'],
    ['stream_options', { stream_options: { include_obfuscation: false } }, 'stream_options'],
  ])('%s', async (_, members, param) => {
    const client = await open();
    expect(await refused(client, { input: 'x', ...members })).toEqual(['error', 400, 'unsupported_parameter', param]);
    expect(outputText(await answered(client, { input: '!sim say=still here' }))).toBe('still here');
    await client.close();
  });

  test('invalid JSON, a value that is not an object, another type, a binary message', async () => {
    const client = await open();
    for (const message of ['{', '[]', '"x"', 'null', '{"type":"response.cancel"}', Buffer.from([1, 2])]) {
      client.socket.send(message);
      const event = await client.next();
      expect([event.type, event.status, event.error?.code]).toEqual(['error', 400, 'invalid_request']);
    }
    expect(outputText(await answered(client, { input: '!sim say=ok' }))).toBe('ok');
    await client.close();
  });
});

test('a response that fails in the middle ends with its error and response.failed, and the connection continues', async () => {
  const client = await open();
  client.create({ model, input: '!sim fail=3 tokens=100' });
  const events = await client.turn();
  const [error, failed] = events.slice(-2);
  expect([error?.type, error?.status, error?.code, error?.error?.code]).toEqual([
    'error',
    502,
    'upstream_error',
    'upstream_error',
  ]);
  expect([failed?.type, failed?.response?.status]).toEqual(['response.failed', 'failed']);
  expect(events.map(event => event.sequence_number)).toEqual(events.map((_, index) => index));
  expect(outputText(await answered(client, { input: '!sim say=on' }))).toBe('on');
  await client.close();
});

describe('the credential is checked before the upgrade', () => {
  const readStatus = async (headers: Record<string, string>, path = '/v1/responses'): Promise<number> => {
    const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}${path}`, { headers });
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number }];
    socket.on('error', () => undefined);
    socket.terminate();
    return response.statusCode;
  };

  test('no key, a wrong key and a management key are refused', async () => {
    expect(await readStatus({})).toBe(401);
    expect(await readStatus({ authorization: `Bearer sk-tg-${'x'.repeat(43)}` })).toBe(401);
    expect(await readStatus({ authorization: `Bearer ${gateway.managementKey}` })).toBe(403);
    expect(await readStatus({ authorization: `Bearer ${gateway.apiKey}`, 'x-api-key': 'sk-tg-other' })).toBe(401);
  });

  test('`x-api-key` works too; other paths can’t be upgraded', async () => {
    const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses?x=1`, {
      headers: { 'x-api-key': gateway.apiKey },
    });
    await once(socket, 'open');
    socket.close();
    expect(await readStatus({ authorization: `Bearer ${gateway.apiKey}` }, '/v1/chat/completions')).toBe(404);
  });

  test('a revoked key can’t start another turn', async () => {
    const { key, id } = await makeKey(gateway);
    const client = await open(key);
    await answered(client, { input: '!sim say=x' });
    await gateway.admin.setApiKeyState({ apiKeyId: id, state: 3 });
    const [type, status, code] = await refused(client, { input: 'x' });
    expect([type, status, code]).toEqual(['error', 401, 'invalid_api_key']);
    await client.close();
  });

  test('a client that disconnects before the answer does not affect others', async () => {
    const { port } = new URL(gateway.url);
    for (let n = 0; n < 20; n++) {
      const socket = connect(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      socket.write('GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n');
      socket.write('sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n');
      socket.resetAndDestroy();
    }
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
  });
});

test('every turn counts as a request in limits', async () => {
  const { key } = await makeKey(gateway, { minuteLimit: 2n });
  const client = await open(key);
  for (let turn = 0; turn < 2; turn++) await answered(client, { input: '!sim say=x' });
  expect(await refused(client, { input: '!sim say=x' })).toEqual(['error', 429, 'rate_limit', null]);
  await client.close();
});

test('a client that disconnects stops its turn, which is charged as delivered and stored as cancelled', async () => {
  const client = await open();
  client.create({ model, input: '!sim tokens=4000 tps=100' });
  let id = '';
  for (let event = await client.next(); event.type !== 'response.output_text.delta'; event = await client.next()) {
    id = event.response?.id ?? id;
  }
  client.socket.terminate();
  expect((await readRecord(gateway, toRequestId(id) ?? '')).state).toBe(RecordState.CLIENT_ABORTED);
  let found = await get(id);
  for (let tries = 0; found.status === 404 && tries < 100; tries++) {
    await sleep(20);
    found = await get(id);
  }
  expect(found.body).toMatchObject({ id, status: 'cancelled' });
});

test('a message above the body limit ends the connection with close code 1009', async () => {
  const client = await open();
  client.create({ model, input: 'x'.repeat(1_100_000) });
  await once(client.socket, 'close');
  expect(client.closeCode).toBe(1009);
});

test('pings keep the connection of a quiet turn alive', async () => {
  const client = await open();
  let pings = 0;
  client.socket.on('ping', () => (pings += 1));
  expect(outputText(await answered(client, { input: '!sim delay_ms=1200 say=Late.' }))).toBe('Late.');
  expect(pings).toBeGreaterThanOrEqual(2);
  await client.close();
});

test('a client that does not read delays its turn, and nothing is lost once it reads', async () => {
  const client = await open();
  client.create({ model, input: '!sim tokens=8000 tps=0' });
  await client.next();
  client.socket.pause();
  await sleep(500);
  client.socket.resume();
  const rest = await client.turn();
  expect(rest.map(event => event.sequence_number)).toEqual(rest.map((_, index) => index + 1));
  await client.close();
});

test('a gateway that is stopped lets the turn end, then closes with 1001', async () => {
  const second = await startGateway();
  const idle = await SocketClient.open(second.url, second.apiKey);
  const busy = await SocketClient.open(second.url, second.apiKey);
  busy.create({ model, input: '!sim tokens=100 tps=100' });
  await busy.next();
  const stopped = second.stop();
  const events = await busy.turn();
  expect(events.at(-1)?.type).toBe('response.completed');
  expect((await stopped).code).toBe(0);
  await expectVerified(second.home);
  expect([idle.closeCode, busy.closeCode]).toEqual([1001, 1001]);
});

test('the connection of a refused client is closed even if the client keeps its side open, so that the gateway can stop', async () => {
  const own = await startGateway();
  const { port, hostname } = new URL(own.url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  socket.on('error', () => undefined);
  socket.write(
    'GET /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-tg-wrong\r\nconnection: Upgrade\r\nupgrade: websocket\r\n' +
      'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  const [head] = (await once(socket, 'data')) as [Buffer];
  expect(head.toString()).toMatch(/^HTTP\/1\.1 401 /);
  await endGateway(own);
  socket.destroy();
});
