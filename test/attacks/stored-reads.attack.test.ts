/** Reads of large stored contents whose answers no client reads yet: each holds memory, and the others wait for it (docs/security.md "Memory"). */
import { connect, type Socket } from 'node:net';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ConversationService } from '../../src/gen/tollgate/v1/conversation_pb.ts';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { testPeak } from './peak-memory.ts';

const mebibyte = 1024 ** 2;
/** More than a connection buffers. */
const bytes = 30 * mebibyte;
/** Each thread of a gateway counts its own part of the memory: the workers that of bodies, the main thread that of contents. */
const threads = 1 + Number(process.env['TOLLGATE_TEST_WORKERS'] ?? 0);
const gateway = await startGateway({
  balance: '1000',
  config: `
limits: { body_bytes: 32MiB, body_memory: ${80 * threads}MiB, account_body_memory: 40MiB, memory_wait: 1s }
overload: { loop_lag: 60s }
`,
  environment: { NODE_OPTIONS: '--max-old-space-size=800' },
});
afterAll(() => endGateway(gateway));
const { hostname, port } = new URL(gateway.url);

interface Reader {
  readonly key: string;
  /** The path of a large content. */
  readonly path: string;
}

const readers: Reader[] = [];
beforeAll(async () => {
  for (let count = 0; count < 3; count += 1) {
    const key = await createAccount(gateway, '10');
    readers.push({ key, path: await makeConversation(key, 8, bytes / 8) });
  }
}, 60_000);

async function makeConversation(key: string, parts: number, size: number): Promise<string> {
  const content = Array.from({ length: parts }, () => ({ type: 'input_text', text: 'A'.repeat(size) }));
  const response = await fetch(`${gateway.url}/v1/conversations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ items: [{ type: 'message', role: 'user', content }] }),
  });
  return `/v1/conversations/${((await response.json()) as { id: string }).id}/items`;
}

function reader(at: number): Reader {
  return readers[at] ?? (Promise.reject(new Error('no such reader')) as never);
}

/** Requests contents, one after the other on one connection, and reads no more than the first bytes of the answers. */
async function readNothing({ key, path }: Reader, count = 1): Promise<Socket> {
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  const begun = new Promise<void>(resolve => {
    socket.once('data', () => {
      socket.pause();
      resolve();
    });
  });
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`.repeat(count));
  await begun;
  return socket;
}

interface Read {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly size: number;
  readonly tookMs: number;
}

async function read({ key, path }: Reader): Promise<Read> {
  const beganMs = performance.now();
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${key}` } });
  const tookMs = performance.now() - beganMs;
  const { byteLength: size } = await response.arrayBuffer();
  return { status: response.status, retryAfter: response.headers.get('retry-after'), size, tookMs };
}

test('limits.account_body_memory, limits.memory_wait: a read for which its account has no memory waits, then is 503; reads of others and small ones are answered', async () => {
  const [busy, other] = [reader(0), reader(1)];
  const small = { key: busy.key, path: await makeConversation(busy.key, 1, 1000) };
  const unread = await readNothing(busy);
  const refused = await read(busy);
  expect([refused.status, refused.retryAfter]).toEqual([503, '1']);
  expect(refused.tookMs).toBeGreaterThanOrEqual(1000);
  expect((await read(small)).status).toBe(200);
  // Also while reads of the busy account wait.
  const waiting = [read(busy), read(busy), read(busy)];
  expect(await read(other)).toMatchObject({ status: 200 });
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([503, 503, 503]);
  unread.destroy();
  await expect.poll(async () => (await read(busy)).status).toBe(200);
}, 30_000);

test('limits.body_memory: when all accounts together have none left, a read waits until one ends', async () => {
  const unread = [await readNothing(reader(0)), await readNothing(reader(1))];
  expect((await read(reader(2))).status).toBe(503);
  const waiting = read(reader(2));
  for (const socket of unread) socket.destroy();
  const answered = await waiting;
  expect(answered.status).toBe(200);
  expect(answered.size).toBeGreaterThan(bytes);
}, 30_000);

test('memory is released when a connection ends, also that of requests that wait behind another one', async () => {
  const busy = reader(0);
  for (let turn = 0; turn < 3; turn += 1) (await readNothing(busy, 3)).destroy();
  await expect.poll(async () => (await read(busy)).status).toBe(200);
}, 30_000);

test('a body behind another request on its connection releases its memory when the client disconnects', async () => {
  const busy = reader(0);
  const { key } = busy;
  const unread = await readNothing({ key, path: await makeConversation(key, 4, (11 * mebibyte) / 4) });
  for (let turn = 0; turn < 3; turn += 1) {
    const socket = connect(Number(port), hostname).resume();
    socket.on('error', () => undefined);
    // Waits for memory, so that the second request is answered after it.
    socket.write(`GET ${busy.path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`);
    const body = JSON.stringify({ model: 'no/model', input: 'x', user: 'A'.repeat(12 * mebibyte) });
    const head = `authorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
    const sent = Promise.withResolvers<unknown>();
    socket.write(`POST /v1/responses HTTP/1.1\r\nhost: x\r\n${head}\r\n\r\n${body}`, sent.resolve);
    await sent.promise;
    socket.destroy();
  }
  unread.destroy();
  await expect.poll(async () => (await read(busy)).status, { timeout: 10_000 }).toBe(200);
}, 30_000);

async function add({ key, path }: Reader, size: number): Promise<number> {
  const content = [{ type: 'input_text', text: 'A'.repeat(size) }];
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ items: [{ type: 'message', role: 'user', content }] }),
  });
  await response.arrayBuffer();
  return response.status;
}

test('a content that is larger than the memory of an account is refused, and says why', async () => {
  const { key, path } = reader(2);
  expect(await add({ key, path }, 8 * mebibyte)).toBe(200);
  for (let count = 0; count < 3; count += 1) expect(await add({ key, path }, 900_000)).toBe(200);
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${key}` } });
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  expect([response.status, error.code]).toEqual([400, 'invalid_request']);
  expect(error.message).toContain('more than the 41943040 bytes that an account can read at once');
}, 30_000);

test('a service that reads over the internal listener releases the memory after each reply', async () => {
  const { key, path } = reader(1);
  const client = createClient(ConversationService, createGrpcTransport({ baseUrl: gateway.rpcUrl }));
  const [, , , id = ''] = path.split('/');
  for (let turn = 0; turn < 4; turn += 1) {
    const headers = { authorization: `Bearer ${key}` };
    const { items } = await client.listConversationItems({ id }, { headers });
    expect(items).toHaveLength(1);
  }
}, 30_000);

testPeak(gateway);
