/** The limits that no other attack test exceeds: each is set low in the configuration and exceeded from outside (docs/security.md "Limits of size and time"). */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32, deflateSync } from 'node:zlib';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, expect, test } from 'vitest';
import type { GatewayError } from '../../src/errors/gateway-error.ts';
import { Health } from '../../src/gen/grpc/health/v1/health_pb.ts';
import { Protocol } from '../../src/gen/tollgate/v1/content_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { Delivery } from '../../src/gen/tollgate/v1/request_pb.ts';
import { fromConnectError } from '../../src/rpc/errors.ts';
import { SocketClient } from '../e2e/socket-client.ts';
import { createAccount, endGateway, type Gateway, heldBy, makeKey, startGateway } from '../gateway.ts';
import { leastHold, LoopHolds } from './loop-holds.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

const tight = await startGateway({
  balance: '1000',
  config: `
simulator: { tokens_per_second: 0 }
limits:
  body_bytes: 3MiB
  other_body_bytes: 2KiB
  body_depth: 8
  list_entries: 100
  body_values: 1000
  account_body_memory: 1MiB
  unsent_memory: 1MiB
  account_session_memory: 1MiB
rpc: { control_bytes: 2KiB, message_elements: 100, open_bytes: 64, open_calls_per_address: 2, open_call_time: 1s }
`,
});
afterAll(() => endGateway(tight));
/** A gateway with low limits for all accounts together, but enough room for a single account. */
const full = await startGateway({
  balance: '1000',
  config: `
simulator: { tokens_per_second: 0 }
limits: { body_memory: 1MiB, session_memory: 1MiB, image_file_bytes: 1MiB }
rpc: { open_calls: 2, open_call_time: 1s }
batches: { file_bytes: 800KiB, disk_bytes: 1MiB }
`,
});
afterAll(() => endGateway(full));
const holds = new LoopHolds();
const slow = await startGateway({
  config: `
simulator: { tokens_per_second: 0 }
limits: { parse_time: 100ms }
overload: { slice: 1ms, queue: 1 }
`,
  environment: holds.environment('--max-old-space-size=800'),
});
afterAll(() => holds.remove());
afterAll(() => endGateway(slow));

const narrow = await startGateway({
  config:
    'simulator: { tokens_per_second: 0 }\nlimits: { body_bytes: 20MiB, body_values: 10000000, list_entries: 1000000, parse_memory: 64MiB, parse_time: 1m }\n',
});
afterAll(() => endGateway(narrow));

interface Reply {
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

async function post({ url, apiKey }: Gateway, path: string, body: unknown, key = apiKey): Promise<Reply> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const { error } = (await response.json()) as { error?: { code: string; message: string } };
  return { status: response.status, code: error?.code ?? '', message: error?.message ?? '' };
}

const chat = (content: unknown, more: object = {}): object => ({
  model: 'sim/small',
  messages: [{ role: 'user', content }],
  max_tokens: 20,
  ...more,
});
const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);

test.each([
  ['body_depth', nested(9), 400, 'nests deeper than 8 levels'],
  ['list_entries', Array.from({ length: 101 }, () => 1), 400, 'more than 100 entries'],
  ['body_values', Array.from({ length: 12 }, () => Array.from({ length: 90 }, () => 1)), 400, 'more than 1000 values'],
  ['body_bytes', 'x'.repeat(3 * 2 ** 20), 413, 'larger than 3145728 bytes'],
])('limits.%s', async (_name, metadata, status, message) => {
  // Bodies of up to 1 KiB are not scanned before parsing.
  const reply = await post(tight, '/v1/chat/completions', chat('x'.repeat(1024), { metadata: { a: metadata } }));
  expect([reply.status, reply.message]).toEqual([status, expect.stringContaining(message)]);
});

test('limits.account_body_memory: one body of the maximum size always fits', async () => {
  const large = chat('x', { user: 'x'.repeat(2 * 2 ** 20), n: 20, max_tokens: 1000 });
  const replies = await Promise.all(Array.from({ length: 6 }, () => post(tight, '/v1/chat/completions', large)));
  const refused = replies.filter(({ message }) => message.includes('large requests of this account'));
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(6);
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
});

test('limits.other_body_bytes', async () => {
  const reply = await post(tight, '/v1/account/keys', { label: 'x'.repeat(2048) }, tight.managementKey);
  expect([reply.status, reply.code]).toEqual([413, 'body_too_large']);
});

/** A text that takes 60 MB and a quarter of a second to parse, because each of its characters is escaped. */
const slowText = '\n'.repeat(30_000_000);

test('limits.parse_time: the parser continues with the next body', async () => {
  const large = chat(slowText);
  const { status, message } = await post(slow, '/v1/chat/completions', large);
  expect([status, message]).toEqual([400, expect.stringContaining('takes too long or too much memory to be parsed')]);
  const { code } = await post(slow, '/v1/chat/completions', chat('word '.repeat(300_000)));
  expect(['context_length_exceeded', 'invalid_request']).toContain(code);
  expect((await post(slow, '/v1/chat/completions', chat('x'))).status).toBe(200);
});

/** Sends a raw body as an edge in another process does. Returns the refusal; undefined: it was answered. */
async function sendSource(gateway: Gateway, body: string): Promise<GatewayError | undefined> {
  const edgeToken = readFileSync(join(gateway.dataDir, 'edge.token'), 'utf8').trim();
  const headers = { 'x-tollgate-edge': edgeToken, authorization: `Bearer ${gateway.apiKey}` };
  const source = { protocol: Protocol.CHAT, body: Buffer.from(body) };
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl: gateway.rpcUrl }));
  try {
    await Array.fromAsync(client.generate({ model: 'sim/small', delivery: Delivery.WHOLE, source }, { headers }));
    return undefined;
  } catch (thrown) {
    return fromConnectError(thrown);
  }
}

test('limits.parse_time: the raw body that an edge in another process sends, and the parser goes on with the next one', async () => {
  const refusal = await sendSource(slow, JSON.stringify(chat(slowText)));
  expect([refusal?.code, refusal?.message]).toEqual([
    'invalid_request',
    expect.stringContaining('takes too long or too much memory to be parsed'),
  ]);
  expect(await sendSource(slow, JSON.stringify(chat('x')))).toBeUndefined();
});

test('limits.list_entries, limits.body_values: the lines of a batch, and later lines are checked too', async () => {
  const headers = { authorization: `Bearer ${tight.apiKey}` };
  const line = (id: string, metadata: unknown): string =>
    JSON.stringify({
      custom_id: id,
      method: 'POST',
      url: '/v1/chat/completions',
      body: chat('x', { metadata: { a: metadata } }),
    });
  const ones = (count: number): number[] => Array.from({ length: count }, () => 1);
  const form = new FormData();
  form.set('purpose', 'batch');
  const lines = [
    line('a', ones(101)),
    line(
      'b',
      Array.from({ length: 12 }, () => ones(90)),
    ),
    line('c', ones(2)),
  ];
  form.set('file', new Blob([lines.join('\n')]), 'a.jsonl');
  const uploaded = await fetch(`${tight.url}/v1/files`, { method: 'POST', headers, body: form });
  const { id } = (await uploaded.json()) as { id: string };
  const made = await fetch(`${tight.url}/v1/batches`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' }),
  });
  const batch = (await made.json()) as { id: string };
  const read = async (): Promise<{ status: string; errors?: { data: { line: number; message: string }[] } }> =>
    (await fetch(`${tight.url}/v1/batches/${batch.id}`, { headers })).json() as never;
  await expect.poll(async () => (await read()).status, { timeout: 10_000 }).toBe('failed');
  const faults = (await read()).errors?.data.map(({ line: at, message }) => [at, message]);
  expect(faults).toEqual([
    [1, expect.stringContaining('more than 100 entries')],
    [2, expect.stringContaining('more than 1000 values')],
  ]);
});

test('limits.parse_memory: values that take far more memory than their text are refused, and the parser continues with the next body', async () => {
  // At the small size the values take 100 MB.
  const list = `[${'[],'.repeat(attackSize(900_000, 500_000))}[]]`;
  const body = JSON.stringify(chat('x')).replace(/}$/, `,"more":[${Array.from({ length: 5 }, () => list).join()}]}`);
  const { status, message } = await post(narrow, '/v1/chat/completions', body);
  expect([status, message]).toEqual([400, expect.stringContaining('too much memory to be parsed: send a smaller one')]);
  const { code } = await post(narrow, '/v1/chat/completions', chat('word '.repeat(300_000)));
  expect(['context_length_exceeded', 'invalid_request']).toContain(code);
  expect((await post(narrow, '/v1/chat/completions', chat('x'))).status).toBe(200);
});

test('a body that is one name and takes two bytes of memory for each byte stays within the memory for parsing', async () => {
  // V8 ends the process if one text is larger than the memory of the thread, which must never happen.
  const name = `${'n'.repeat(19 * 2 ** 20)}\\n€`;
  const body = JSON.stringify(chat('x')).replace(/}$/, `,"${name}":1}`);
  // It was parsed: the name counts as input, of which it is too much.
  expect((await post(narrow, '/v1/chat/completions', body)).code).toBe('context_length_exceeded');
});

test('overload.queue', async () => {
  const replies = await Promise.all(
    Array.from({ length: 200 }, () => post(slow, '/v1/chat/completions', chat('x '.repeat(2000)))),
  );
  const refused = replies.filter(({ status }) => status !== 200);
  expect(new Set(refused.map(({ status, code }) => `${status} ${code}`))).toEqual(new Set(['503 overloaded']));
  expect(refused.some(({ message }) => message.includes('wait to begin'))).toBe(true);
});

test('limits.unsent_memory: the answers that have been stalled longest are cut, long before the stall timeout', async () => {
  const { hostname, port } = new URL(tight.url);
  const text = JSON.stringify(chat('!sim tokens=4000', { stream: true, n: 16, max_tokens: 4000 }));
  // 12 MB each, far more than the buffers of the sockets hold.
  const sockets = Array.from({ length: 24 }, () => {
    const socket = connect(Number(port), hostname).pause();
    socket.on('error', () => undefined);
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tight.apiKey}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
    );
    return socket;
  });
  let most = 0n;
  await expect
    .poll(
      async () => {
        const held = await heldBy(tight);
        if (held > most) most = held;
        return held < (most * 9n) / 10n;
      },
      { timeout: 25_000 },
    )
    .toBe(true);
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => heldBy(tight), { timeout: 20_000 }).toBe(0n);
});

test.each([
  ['limits.account_session_memory', tight],
  ['limits.session_memory', full],
])('%s: of the responses with `store: false` on a WebSocket, the oldest is forgotten first', async (_name, gateway) => {
  const client = await SocketClient.open(gateway.url, gateway.apiKey);
  const ids: string[] = [];
  for (let turn = 0; turn < 3; turn += 1) {
    const input = 'word '.repeat(80_000);
    const answer = await client.ask({ model: 'sim/large', input, store: false, max_output_tokens: 16 });
    if (!('response' in answer)) throw new Error(JSON.stringify(answer.error));
    ids.push(answer.response.id);
  }
  const more = { model: 'sim/large', input: 'And?', store: false, max_output_tokens: 16 };
  const forgotten = await client.ask({ ...more, previous_response_id: ids[0] });
  expect('error' in forgotten && forgotten.error.error?.param).toBe('previous_response_id');
  await client.close();
});

test('limits.body_memory: large bodies of all accounts together', async () => {
  const others = await Promise.all(Array.from({ length: 4 }, () => createAccount(full, '10')));
  const large = chat('x', { user: 'x'.repeat(40 * 2 ** 20) });
  const replies = await Promise.all(others.map(key => post(full, '/v1/chat/completions', large, key)));
  const refused = replies.filter(({ status }) => status === 503);
  expect(refused.length).toBeGreaterThan(0);
  expect(new Set(refused.map(({ message }) => message))).toEqual(
    new Set(['Too many large requests are being answered: try again.']),
  );
});

test('limits.image_file_bytes: images are refused while there is no room beside the stored ones', async () => {
  const draw = async (format: 'url' | 'b64_json'): Promise<string> => {
    const headers = { authorization: `Bearer ${full.apiKey}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'sim/image', prompt: 'a tree', size: '1024x1024', response_format: format });
    const response = await fetch(`${full.url}/v1/images/generations`, { method: 'POST', headers, body });
    const { error } = (await response.json()) as { error?: { message: string } };
    return `${response.status} ${error?.message ?? ''}`;
  };
  const answers = [];
  for (let drawn = 0; drawn < 80 && answers.at(-1)?.startsWith('503') !== true; drawn += 1)
    answers.push(await draw('url'));
  expect(answers.at(-1)).toBe('503 The gateway has no room for more images now.');
  expect(await draw('b64_json')).toBe('200 ');
}, 200_000);

test('batches.file_bytes, batches.disk_bytes', async () => {
  const upload = async (bytes: number): Promise<number> => {
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob(['x'.repeat(bytes)]), 'a.jsonl');
    const headers = { authorization: `Bearer ${full.apiKey}` };
    return (await fetch(`${full.url}/v1/files`, { method: 'POST', headers, body: form })).status;
  };
  expect(await upload(900 * 1024)).toBe(413);
  expect(await upload(700 * 1024)).toBe(200);
  expect(await upload(700 * 1024)).not.toBe(200);
});

test('rpc.control_bytes, rpc.message_elements, rpc.open_bytes', async () => {
  const call = async (path: string, body: string | Buffer, type: string): Promise<string> => {
    const response = await fetch(tight.rpcUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${tight.apiKey}`, 'content-type': type },
      body,
    });
    return `${response.status} ${await response.text()}`;
  };
  const long = JSON.stringify({ pageToken: 'x'.repeat(2048) });
  expect(await call('/tollgate.v1.CatalogService/ListModels', long, 'application/json')).toContain(
    'larger than 2048 bytes',
  );
  const many = JSON.stringify({ request: { model: 'sim/small', items: Array.from({ length: 101 }, () => ({})) } });
  expect(await call('/tollgate.v1.GenerationService/CountTokens', many, 'application/json')).toMatch(
    /^4\d\d .*100 (?:fields|elements)/,
  );
  const open = await call(
    '/grpc.health.v1.Health/Check',
    Buffer.alloc(65, '\xc0\x3e\x01', 'latin1'),
    'application/proto',
  );
  expect(open).toMatch(/^429 .*resource_exhausted/);
});

test.each([
  ['rpc.open_calls_per_address', tight],
  ['rpc.open_calls', full],
])('%s, rpc.open_call_time', async (_name, gateway) => {
  const client = createClient(Health, createGrpcTransport({ baseUrl: gateway.rpcUrl }));
  const watch = async (): Promise<string> => {
    try {
      return `ended after ${(await Array.fromAsync(client.watch({}))).length}`;
    } catch {
      return 'refused';
    }
  };
  const ends = await Promise.all([watch(), watch(), watch()]);
  expect(ends.toSorted()).toEqual(['ended after 1', 'ended after 1', 'refused']);
});

/** Sends the headers of a request without its body. Returns the status line, or '' if none comes within half a second. */
async function askWithoutBody(key: string, header = ''): Promise<string> {
  const { hostname, port } = new URL(tight.url);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.on('error', () => undefined).on('data', data => (text += data.toString()));
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n${header}content-type: application/json\r\ncontent-length: 900000\r\n\r\n`,
  );
  for (let turn = 0; turn < 25 && text === ''; turn += 1) await sleep(20);
  socket.destroy();
  return text.split('\r\n', 1)[0] ?? '';
}

test('unknown and expired keys and full windows are refused before the body is read; with an Idempotency-Key the gateway waits for it', async () => {
  expect(await askWithoutBody('sk-tg-none')).toContain(' 401 ');
  const expired = await makeKey(tight, { expiresAtMs: BigInt(Date.now() + 200) });
  const full = await makeKey(tight, { minuteLimit: 1n });
  expect((await post(tight, '/v1/chat/completions', chat('x'), full.key)).status).toBe(200);
  expect(await askWithoutBody(full.key)).toContain(' 429 ');
  expect(await askWithoutBody(full.key, 'idempotency-key: a\r\n')).toBe('');
  expect(await askWithoutBody(tight.apiKey)).toBe('');
  await sleep(200);
  expect(await askWithoutBody(expired.key)).toContain(' 401 ');
});

test('as many concurrent requests as a key may have: further ones are refused before the body', async () => {
  const { key, id } = await makeKey(tight);
  const settings = { max: 1n, timeZone: 'UTC', endUsers: 'all', action: 'refuse' };
  await tight.account.createLimit({ limit: { scope: 'key', scopeId: id, unit: 'concurrent', settings } });
  const running = new AbortController();
  const body = JSON.stringify(chat('!sim delay_ms=30000 tokens=2'));
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const requested = fetch(`${tight.url}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body,
    signal: running.signal,
  });
  requested.catch(() => undefined);
  await expect.poll(() => askWithoutBody(key)).toContain(' 429 ');
  running.abort();
  await expect.poll(() => askWithoutBody(key)).toBe('');
});

test('each choice of a free request counts as one in the windows', async () => {
  const free = (n: number): Promise<Reply> =>
    post(tight, '/v1/chat/completions', chat('x', { model: 'sim/small:free', n }));
  expect(await free(128)).toMatchObject({ status: 429 });
  expect(await free(12)).toMatchObject({ status: 200 });
  expect(await free(9)).toMatchObject({ status: 429 });
  expect(await free(8)).toMatchObject({ status: 200 });
  expect(await free(1)).toMatchObject({ status: 429 });
});

/** Makes a PNG with one bit per pixel, which is a small file even for a large image. */
function hugePng(side: number, isInterlaced: boolean): string {
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(side, 0);
  head.writeUInt32BE(side, 4);
  head.set([1, 0, 0, 0, isInterlaced ? 1 : 0], 8);
  // At least as many bytes as the rows of the image need, interlaced or not.
  const rows = deflateSync(Buffer.alloc(2 * side * (Math.ceil(side / 8) + 1)));
  const signature = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
  return Buffer.concat([signature, chunk('IHDR', head), chunk('IDAT', rows), chunk('IEND', Buffer.alloc(0))]).toString(
    'base64',
  );
}

const wideValue = Object.fromEntries(Array.from({ length: 90 }, (_, at) => [`name${at}`, 'x'.repeat(50)]));

test.each([
  [
    'an image of 64 million pixels',
    chat([{ type: 'image_url', image_url: { url: `data:image/png;base64,${hugePng(8000, false)}` } }], {
      model: 'sim/large',
    }),
  ],
  [
    'an interlaced one',
    chat([{ type: 'image_url', image_url: { url: `data:image/png;base64,${hugePng(8000, true)}` } }], {
      model: 'sim/large',
    }),
  ],
  [
    'a pattern that is slow to match',
    chat('x', withSchema({ type: 'string', pattern: '^(a+)+b(c{900}){900}$', minLength: 9_999_999 })),
  ],
  [
    'a schema of large counts',
    chat('x', withSchema({ type: 'array', minItems: 1e9, items: { type: 'array', minItems: 1e9, items: {} } })),
  ],
  [
    'a schema of many branches',
    chat(
      'x',
      withSchema({ allOf: Array.from({ length: 2000 }, () => ({ anyOf: [{ $ref: '#' }, { type: 'string' }] })) }),
    ),
  ],
  [
    // In one turn 16 of them would take half a second.
    'a schema of large counts in many choices',
    chat('x', {
      ...withSchema({ type: 'array', minItems: 256, items: textsOf(256) }),
      n: attackSize(128, 16),
      max_tokens: 1000,
    }),
  ],
  [
    'a schema of unique large values',
    chat('x', withSchema({ type: 'array', minItems: 256, uniqueItems: true, items: { const: wideValue } })),
  ],
  [
    'an empty example for a text with a minimum length',
    chat('x', withSchema({ type: 'string', examples: [''], minLength: 5 })),
  ],
  [
    'many calls of tools with schemas of large counts',
    chat(`!sim calls=${attackSize(128, 32)}\nx`, {
      tools: [makeTool('a', textsOf(256)), makeTool('b', textsOf(256))],
      max_tokens: 1000,
    }),
  ],
  [
    'thousands of tools',
    chat('Use the tool city900.', {
      tools: Array.from({ length: 3000 }, (_, at) => makeTool(`city${at}`, { type: 'string' })),
    }),
  ],
  ['pauses in 128 choices', chat('!sim finish=pause tokens=600\nx', { n: 128, max_tokens: 600 })],
  [
    'long stop sequences',
    chat('!sim tokens=4000', { stop: Array.from({ length: 4 }, () => 'a '.repeat(100_000)), max_tokens: 4000 }),
  ],
])('the built-in models: %s does not block the event loop', async (name, body) => {
  await post(slow, '/v1/chat/completions', chat('x'));
  const heldMs = await leastHold(100, async () => {
    const sinceMs = Date.now();
    const { status, message } = await post(slow, '/v1/chat/completions', body);
    expect([200, 400, 422]).toContain(status);
    const longest = await holds.longest(slow.url, sinceMs);
    if (process.env['ATTACK_SHOW'] !== undefined) console.log(name, status, longest, message);
    return longest;
  });
  expect(heldMs).toBeLessThan(100);
});

/** Returns the schema of an array of `count` long texts. */
function textsOf(count: number): object {
  return { type: 'array', minItems: count, items: { type: 'string', minLength: 4096 } };
}

function makeTool(name: string, schema: object): object {
  const parameters = { type: 'object', properties: { value: schema }, required: ['value'] };
  return { type: 'function', function: { name, parameters } };
}

function withSchema(schema: object): object {
  return { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } };
}

testPeak(slow);
