/** Calls that try to exhaust the internal listener: calls without a credential, and messages that are small to send and large to decode. */
import { request as httpRequest } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { promisify } from 'node:util';
import { brotliCompress, gzipSync } from 'node:zlib';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { expect, onTestFinished, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { Health } from '../../src/gen/grpc/health/v1/health_pb.ts';
import { ServerReflection } from '../../src/gen/grpc/reflection/v1/reflection_pb.ts';
import { AdminService } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { type CountTokensRequest, GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { start, until } from './probe-listener.ts';

const check = '/grpc.health.v1.Health/Check';
const count = '/tollgate.v1.GenerationService/CountTokens';

/** Sends one Connect call over HTTP/1.1. `cpuMs` is the CPU time of this process, of which the listener is a part, so that it does not depend on what else the machine does. */
async function send(port: number, path: string, { body, headers }: { body: Buffer; headers?: Record<string, string> }) {
  const before = process.cpuUsage();
  const reply = await new Promise<{ status: number; body: string; headers: Record<string, unknown> }>(
    (done, failed) => {
      const request = httpRequest(
        {
          port,
          path,
          method: 'POST',
          headers: { 'content-type': 'application/proto', 'content-length': body.length, ...headers },
        },
        response => {
          let text = '';
          response.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')));
          response.on('end', () => done({ status: response.statusCode ?? 0, body: text, headers: response.headers }));
        },
      );
      request
        .on('error', failed)
        .setTimeout(5_000, () => request.destroy(new Error(`no answer: ${path} ${JSON.stringify(headers)}`)));
      request.end(body);
    },
  );
  const { user, system } = process.cpuUsage(before);
  return { ...reply, cpuMs: (user + system) / 1_000 };
}

function rssMegabytes(): number {
  return process.memoryUsage().rss / 2 ** 20;
}

/** Returns unknown fields: field 1,000 as a varint, which no message has. */
function unknownFields(bytes: number): Buffer {
  return Buffer.alloc(bytes, Buffer.from([0xc0, 0x3e, 0x01]));
}

/** Returns a request in which every two bytes are an item. */
function manyItems(items: number): Buffer {
  const inner = Buffer.alloc(2 * items, Buffer.from([0x2a, 0x00]));
  const length: number[] = [];
  for (let left = inner.length; left > 0; left = Math.floor(left / 128)) {
    length.push((left % 128) + (left >= 128 ? 128 : 0));
  }
  return Buffer.concat([Buffer.from([0x0a, ...length]), inner]);
}

function envelope(message: Buffer, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

test('methods without a credential accept no compression and at most 4 kB, so that a decompression bomb has no effect', async () => {
  const { port } = await start();
  const bomb = await promisify(brotliCompress)(unknownFields(48 << 20));
  expect(bomb.length).toBeLessThan(300);
  const before = rssMegabytes();
  const compressed = await send(port, check, { body: bomb, headers: { 'content-encoding': 'br' } });
  expect([compressed.status, compressed.body.includes('unknown compression')]).toEqual([501, true]);
  const large = await send(port, check, { body: unknownFields(4_098) });
  expect([large.status, JSON.parse(large.body)]).toMatchObject([429, { code: 'resource_exhausted' }]);
  expect(compressed.cpuMs + large.cpuMs).toBeLessThan(500);
  expect(rssMegabytes() - before).toBeLessThan(50);
  const small = await send(port, check, { body: unknownFields(3_000) });
  expect([small.status, small.headers['cache-control'], small.headers['x-content-type-options']]).toEqual([
    200,
    'no-store',
    'nosniff',
  ]);
});

test('reflection does not echo its requests, however often they come', async () => {
  const { baseUrl } = await start();
  const client = createClient(ServerReflection, createGrpcTransport({ baseUrl }));
  const ask = async function* () {
    const name = 'x'.repeat(1_500);
    yield { host: name, messageRequest: { case: 'fileContainingSymbol', value: name } } as const;
    yield { messageRequest: { case: 'listServices', value: name } } as const;
  };
  const replies = await Array.fromAsync(client.serverReflectionInfo(ask()));
  expect(replies.map(reply => reply.messageResponse.case)).toEqual(['errorResponse', 'listServicesResponse']);
  expect(JSON.stringify(replies)).not.toContain('xxx');
});

test('health watches and reflection streams are ended after a time, and each address may have only a few', async () => {
  const { baseUrl } = await start({ openCalls: { durationMs: 300, perAddressMax: 3 } });
  const client = createClient(Health, createGrpcTransport({ baseUrl }));
  const watch = async (): Promise<string> => {
    try {
      return `ended after ${(await Array.fromAsync(client.watch({}))).length}`;
    } catch {
      return 'refused';
    }
  };
  const ends = await Promise.all(Array.from({ length: 5 }, watch));
  expect(ends.toSorted()).toEqual(['ended after 1', 'ended after 1', 'ended after 1', 'refused', 'refused']);
  const questions = async function* () {
    yield { messageRequest: { case: 'listServices', value: '' } } as const;
    await Promise.withResolvers<void>().promise;
  };
  const conversation = createClient(ServerReflection, createGrpcTransport({ baseUrl }));
  expect(await Array.fromAsync(conversation.serverReflectionInfo(questions()))).toHaveLength(1);
  const again = () => Promise.all([watch(), watch(), watch()]);
  await expect.poll(again, { message: 'all of them have been given back' }).toEqual(Array(3).fill('ended after 1'));
});

test('a call without a credential that never sends its message is cut', { timeout: 15_000 }, async () => {
  const { port } = await start({ openCalls: { durationMs: 100 } });
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ':method': 'POST', ':path': check, 'content-type': 'application/grpc' });
  let isClosed = false;
  stream.on('error', () => undefined).on('close', () => (isClosed = true));
  await until(() => isClosed, 8_000);
});

test('the decompressed size of a message is limited, in bytes and in elements, over every protocol', async () => {
  const { port, probe } = await start({ messageBytesMax: 8 << 20, elementsMax: 10_000 });
  const bombs = {
    'unknown fields': unknownFields(6 << 20),
    'more bytes than allowed': Buffer.concat([Buffer.from([0x7a, 0x80, 0x80, 0x80, 0x05]), Buffer.alloc(10 << 20)]),
    items: manyItems(20_000),
    'JSON items': Buffer.from(`{"request":{"items":[${'{},'.repeat(20_000)}{}]}}`),
    'deep groups': Buffer.alloc(5_000, Buffer.from([0x0b])),
    'deep JSON': Buffer.from('{"a":'.repeat(5_000)),
  };
  for (const [name, bomb] of Object.entries(bombs)) {
    const isJson = name.includes('JSON');
    const type = { 'content-type': isJson ? 'application/json' : 'application/proto' };
    const grpc = isJson ? 'application/grpc+json' : 'application/grpc-web';
    const packed = await promisify(brotliCompress)(bomb);
    const attempts = [
      await send(port, count, { body: bomb, headers: type }),
      await send(port, count, { body: packed, headers: { ...type, 'content-encoding': 'br' } }),
      await send(port, count, { body: gzipSync(bomb), headers: { ...type, 'content-encoding': 'gzip' } }),
    ];
    for (const { status, body, cpuMs } of attempts) {
      expect([name, [400, 422, 413, 429].includes(status), body.includes('"code"')]).toEqual([name, true, true]);
      expect(cpuMs).toBeLessThan(500);
    }
    if (isJson) continue;
    for (const body of [envelope(bomb), envelope(packed, 1)]) {
      const headers = { 'content-type': grpc, 'grpc-encoding': 'br' };
      const { status, body: reply } = await send(port, count, { body, headers });
      expect([name, status, /grpc-status: (?:3|8)\b/.test(reply)]).toEqual([name, 200, true]);
    }
  }
  expect(probe.requests).toEqual([]);
});

test('messages within the limits arrive complete: compressed, in JSON and with fields of a newer version', async () => {
  const { port, probe } = await start({ elementsMax: 10_000 });
  const message = Buffer.concat([manyItems(4_000), unknownFields(3_000)]);
  const json = Buffer.from(`{"request":{"items":[${'{},'.repeat(3_999)}{}],"model":"a\\"[[[["}}`);
  const sent = [
    await send(port, count, { body: message }),
    await send(port, count, { body: gzipSync(message), headers: { 'content-encoding': 'gzip' } }),
    await send(port, count, { body: json, headers: { 'content-type': 'application/json' } }),
    await send(port, count, {
      body: envelope(gzipSync(message), 1),
      headers: { 'content-type': 'application/grpc-web', 'grpc-encoding': 'gzip' },
    }),
  ];
  expect(sent.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(probe.requests.map(each => (each as CountTokensRequest).request?.items.length)).toEqual(Array(4).fill(4_000));
  expect(probe.requests.every(each => !('$unknown' in (each as object)))).toBe(true);
});

test('a service without prompts accepts at most 1 MiB', async () => {
  const services = new InProcessTransport().service(AdminService, {
    createAccount: () => {
      throw new GatewayError('not_found', 'reached');
    },
  } as never);
  const { port } = await start({ services });
  const path = '/tollgate.v1.AdminService/CreateAccount';
  const named = (length: number): Buffer => Buffer.from(JSON.stringify({ name: 'x'.repeat(length) }));
  const headers = { 'content-type': 'application/json' };
  expect((await send(port, path, { body: named(1_000_000), headers })).status).toBe(404);
  const refused = await send(port, path, { body: named(1_100_000), headers });
  expect([refused.status, refused.body.includes('larger than 1048576 bytes')]).toEqual([429, true]);
});

test('members with other names than the fields of the message don’t set those fields', async () => {
  const { baseUrl, probe } = await start();
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  const requested = (json: string) =>
    client.countTokens({
      request: { model: 'm', items: [{ extra: { json }, content: { case: 'message', value: {} } }] },
    });
  for (const json of ['{"content":"a million tokens"}', '{"role":"system"}', '[1]', '{', '{"tool_calls":[]}']) {
    await expect(requested(json)).rejects.toThrow(/extra\.json/);
  }
  await requested('{"x_hint":{"content":1}}');
  expect(probe.requests).toHaveLength(1);
});
