/** Reads of large stored contents by several accounts at the same time (docs/security.md "Memory"). */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { PeakMemory, testPeak } from './peak-memory.ts';
import { attackSize, isFullSize } from './scale.ts';

const mebibyte = 1024 ** 2;
const readers = 8;
/** How many contents of the largest size the gateway has in memory at a time, by its configuration. */
const admittedCount = 4;
const bytes = attackSize(60, 12) * mebibyte;
const bytesMax = attackSize(64, 14);
/** How many times its size a content may take while it is read and sent. */
const copiesMax = 4;

/** Answers with as many bytes as a short request asks for. */
const provider = createServer((request, response) => {
  let asked = '';
  request.on('data', (piece: Buffer) => {
    if (asked.length < mebibyte) asked += piece.toString('latin1');
  });
  request.on('end', () => {
    const size = Number(/say (\d+)/.exec(asked)?.[1] ?? 5);
    response.writeHead(200, { 'content-type': 'application/json' });
    if (request.url === '/v1/images/generations') {
      const data = Array.from({ length: 4 }, () => ({ b64_json: pngStart + text(size / 4) }));
      return response.end(JSON.stringify({ created: 1, data }));
    }
    const message = { role: 'assistant', content: text(size) };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
    return response.end(JSON.stringify({ id: 'c', object: 'chat.completion', choices, usage }));
  });
});
provider.listen(0, '127.0.0.1');
await once(provider, 'listening');

const gateway = await startGateway({
  balance: '1000000',
  config: `
retries: 0
limits: { body_bytes: ${bytesMax}MiB, body_memory: ${admittedCount * bytesMax}MiB, account_body_memory: ${2 * bytesMax}MiB, memory_wait: 10m }
overload: { loop_lag: 60s }
providers:
  eyes: { protocol: chat, base_url: "http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1", api_key: x }
  painter: { protocol: images, base_url: "http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1", api_key: x }
models:
  - { id: far/eyes, context_length: 100000000, max_output_tokens: 90000000, capabilities: { vision: true }, pricing: { input: 0.001, output: 1 }, routes: [{ provider: eyes, model: m }] }
  - { id: far/painter, endpoints: [/v1/images/generations], pricing: { image: 0.01 }, routes: [{ provider: painter, model: m }] }
`,
  // The largest heap that we set: in the systemd unit and the image.
  environment: { NODE_OPTIONS: '--max-old-space-size=1024' },
});
afterAll(async () => {
  provider.close();
  await endGateway(gateway);
});
const peak = new PeakMemory(gateway.pid);
const keys: string[] = [];

/** By how much some contents are smaller at a small size: they show only that they are counted. */
const smallDivisor = attackSize(1, 4);

interface Answered {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly size: number;
}

/** Sends a request, without a body if there is none, and reads its answer piece by piece. */
async function send(key: string, path: string, body?: object, more: object = {}): Promise<Answered> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more };
  const method = body === undefined ? 'GET' : 'POST';
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(gateway.url + path, { method, headers, ...content });
  let size = 0;
  for await (const piece of response.body ?? []) size += piece.length;
  return { status: response.status, retryAfter: response.headers.get('retry-after'), size };
}

/** Stores something. Returns its id, the member `name` of the answer. */
async function store(key: string, path: string, body: object, name = 'id'): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const { error, ...made } = (await response.json()) as { error?: { message: string } } & Record<string, unknown>;
  const id = made[name];
  if (typeof id !== 'string') throw new Error(error?.message);
  return id;
}

type ReadingRequest = [path: string, body?: object, headers?: object];

interface Kind {
  readonly name: string;
  /** Stores a content of `size` bytes. Returns the path, the body and the headers of the request that reads it. */
  readonly prepare: (key: string, size: number) => Promise<ReadingRequest>;
  /** How many times the content is in the answer. */
  readonly shown: number;
  /** By how much the content is smaller than a body can be; absent: it is as large. */
  readonly divisor?: number;
}

const [responses, conversations] = ['/v1/responses', '/v1/conversations'];
const text = (size: number): string => 'A'.repeat(size);
/** The base64 of the first bytes of a PNG. */
const pngStart = 'iVBORw0KGgoA';
const user = (content: unknown): object => ({ type: 'message', role: 'user', content });
const ask = (more: object): object => ({ model: 'far/eyes', input: 'x', ...more });
const images = (size: number): object[] =>
  Array.from({ length: 4 }, () => ({ type: 'input_image', image_url: `data:image/png;base64,${text(size / 4)}` }));

const kinds: readonly Kind[] = [
  {
    name: 'items of conversations',
    shown: 1,
    prepare: async (key, size) => {
      const items = [user(Array.from({ length: 8 }, () => ({ type: 'input_text', text: text(size / 8) })))];
      return [`${conversations}/${await store(key, conversations, { items })}/items`];
    },
  },
  {
    name: 'an item of conversations, an image',
    shown: 1,
    prepare: async (key, size) => {
      const id = await store(key, conversations, { items: [user(images(size))] });
      const [item] = await firstItems(key, `${conversations}/${id}/items`);
      return [`${conversations}/${id}/items/${item}`];
    },
  },
  {
    name: 'long responses',
    shown: 1,
    prepare: async (key, size) => [`${responses}/${await store(key, responses, ask({ input: `say ${size}` }))}`],
  },
  {
    name: 'the input of responses',
    shown: 1,
    prepare: async (key, size) => [
      `${responses}/${await store(key, responses, ask({ input: [user(images(size))] }))}/input_items`,
    ],
  },
  {
    name: 'long responses as streams',
    divisor: 4,
    // V8 has not collected the texts of a few megabytes of one stream when the next begins.
    shown: 2,
    prepare: async (key, size) => {
      const id = await store(key, responses, ask({ input: `say ${size}`, background: true }));
      while ((await status(key, `${responses}/${id}`)) !== 'completed') await sleep(50);
      return [`${responses}/${id}?stream=true`];
    },
  },
  {
    name: 'responses that are continued',
    shown: 0,
    prepare: async (key, size) => {
      const id = await store(key, responses, ask({ input: [user(images(size))] }));
      return [responses, ask({ previous_response_id: id })];
    },
  },
  {
    name: 'responses whose tokens are counted',
    shown: 0,
    prepare: async (key, size) => {
      const id = await store(key, responses, ask({ input: [user(images(size))] }));
      return [`${responses}/input_tokens`, ask({ previous_response_id: id })];
    },
  },
  {
    name: 'conversations that responses continue',
    shown: 0,
    prepare: async (key, size) => {
      const id = await store(key, conversations, { items: [user(images(size))] });
      return [responses, ask({ conversation: id })];
    },
  },
  {
    name: 'responses that are compacted',
    divisor: smallDivisor,
    shown: 1,
    prepare: async (key, size) => {
      const id = await store(key, responses, ask({ input: [user(images(size))] }));
      return [`${responses}/compact`, ask({ previous_response_id: id })];
    },
  },
  {
    name: 'answers that are repeated',
    divisor: smallDivisor,
    shown: 1,
    prepare: async (key, size) => {
      const request: ReadingRequest = [
        '/v1/chat/completions',
        { model: 'far/eyes', messages: [{ role: 'user', content: `say ${size}` }] },
        { 'idempotency-key': `say ${size}` },
      ];
      await send(key, ...request);
      return request;
    },
  },
  {
    name: 'image tasks',
    // As much as ten images of 4 MB.
    divisor: attackSize(1.5, 4),
    shown: 1,
    prepare: async (key, size) => {
      const drawing = { model: 'far/painter', prompt: `say ${size}`, n: 4, response_format: 'b64_json', async: true };
      const path = `/v1/images/tasks/${await store(key, '/v1/images/generations', drawing, 'task_id')}`;
      while ((await status(key, path)) !== 'completed') await sleep(50);
      return [path];
    },
  },
];

async function status(key: string, path: string): Promise<unknown> {
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${key}` } });
  return ((await response.json()) as { status: unknown }).status;
}

async function firstItems(key: string, path: string): Promise<string[]> {
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${key}` } });
  const { data } = (await response.json()) as { data: { id: string }[] };
  return data.map(({ id }) => id);
}

beforeAll(async () => {
  for (let count = 0; count < readers; count += 1) keys.push(await createAccount(gateway, '1000'));
  const [key = ''] = keys;
  // Compiles the paths.
  for (const { prepare } of kinds) await send(key, ...(await prepare(key, 2 * mebibyte)));
}, 100_000);

test.each(kinds)(
  '$name of tens of megabytes at once wait for their turn, and take a few times their size',
  async ({ name, prepare, shown, divisor = 1 }) => {
    const requests: [key: string, ...request: ReadingRequest][] = [];
    for (const key of keys) requests.push([key, ...(await prepare(key, bytes / divisor))]);
    const before = peak.restart();
    const answers = await Promise.all(requests.map(request => send(...request)));
    const copies = (peak.recent - before) / (admittedCount * bytes);
    if (process.env['ATTACK_SHOW'] !== undefined) console.log(name, before / mebibyte, peak.recent / mebibyte, copies);
    expect(answers.map(({ status }) => status)).toEqual(keys.map(() => 200));
    expect(Math.min(...answers.map(({ size }) => size))).toBeGreaterThanOrEqual((shown * bytes) / divisor);
    // Smaller contents say little: V8 lets garbage of their size lie. That reads wait is what `stored-reads.attack.test.ts` tests.
    if (isFullSize) expect(copies).toBeLessThan(copiesMax);
  },
  200_000,
);

test('the stream of a stored response that takes more memory than an account has is refused, and the response can be read as a whole', async () => {
  const [key = ''] = keys;
  const streams = kinds.find(({ name }) => name === 'long responses as streams');
  if (streams === undefined) throw new Error('no streams');
  const [path] = await streams.prepare(key, bytes / 3);
  expect((await send(key, path)).status).toBe(400);
  expect((await send(key, path.replace('?stream=true', ''))).status).toBe(200);
}, 100_000);

testPeak(gateway, peak);
