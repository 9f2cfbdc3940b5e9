/** Request bodies that are cheap to send and expensive to process (docs/security.md "Request bodies"). */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { afterAll, expect, test } from 'vitest';
import { SocketClient } from '../e2e/socket-client.ts';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { LoopHolds } from './loop-holds.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize, isFullSize } from './scale.ts';

const holds = new LoopHolds();
const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\n',
  environment: holds.environment('--max-old-space-size=800'),
});
afterAll(() => holds.remove());
afterAll(() => endGateway(gateway));

const mebibyte = 1024 ** 2;
/** The longest time that the event loop may be blocked, in ms: 50 on a quiet machine; the same work takes up to twice as long if other programs share the cores and their caches. */
const heldMsMax = 100;

/** Sends a body. Returns the response, and the longest time that the event loop was blocked, in ms. */
async function attack(
  path: string,
  body: string,
  key = gateway.apiKey,
): Promise<{ status: number; code: string; tookMs: number; heldMs: number; responseBytes: number }> {
  const sinceMs = Date.now();
  const began = performance.now();
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
  });
  const text = await response.text();
  const tookMs = performance.now() - began;
  const { error } = JSON.parse(text) as { error?: { code: string; details?: { reason: string }[] } };
  const heldMs = await holds.longest(gateway.url, sinceMs);
  return {
    status: response.status,
    code: error?.details?.[0]?.reason ?? error?.code ?? '',
    tookMs,
    heldMs,
    responseBytes: text.length,
  };
}

const large = attackSize(20, 4) * mebibyte;
const ones = `[${'1,'.repeat(large / 2)}1]`;
const many = attackSize(100_000, 20_000);
const list = (entry: string): string => `[${Array.from({ length: many }, () => entry).join()}]`;
const deep = `${'['.repeat(500)}${']'.repeat(500)}`;
const members = Array.from({ length: many }, (_, index) => `"member${index}":1`).join();
const user = '{"role":"user","content":"x"}';

const gemini = '/v1beta/models/sim/small:generateContent';
const refused: readonly (readonly [name: string, path: string, body: string])[] = [
  ['numbers as input', '/v1/responses', `{"model":"sim/small","input":${ones}}`],
  ['numbers as messages', '/v1/chat/completions', `{"model":"sim/small","messages":${ones}}`],
  ['numbers as tools', '/v1/chat/completions', `{"model":"sim/small","messages":[${user}],"tools":${ones}}`],
  ['numbers as include', '/v1/responses', `{"model":"sim/small","input":"x","include":${ones}}`],
  [
    'numbers as stop_sequences',
    '/v1/messages',
    `{"model":"sim/small","max_tokens":9,"messages":[${user}],"stop_sequences":${ones}}`,
  ],
  ['numbers as contents', gemini, `{"contents":${ones}}`],
  [
    'numbers as stopSequences',
    gemini,
    `{"contents":[{"parts":[{"text":"x"}]}],"generation_config":{"stop_sequences":${ones}}}`,
  ],
  ['tiny parts of contents', gemini, `{"contents":[{"parts":${list('{"text":"x"}')}}]}`],
  ['tiny items', '/v1/responses', `{"model":"sim/small","input":${list(user)}}`],
  [
    'tiny parts',
    '/v1/messages',
    `{"model":"sim/small","max_tokens":9,"messages":[{"role":"user","content":${list('{"type":"text","text":"x"}')}}]}`,
  ],
  ['unknown members', '/v1/chat/completions', `{"model":"sim/small","messages":[${user}],${members}}`],
  [
    'arrays of 500 levels',
    '/v1/responses',
    `{"model":"sim/small","input":[${Array.from({ length: many / 10 }, () => deep).join()}]}`,
  ],
  ['numbers as messages to count', '/v1/messages/count_tokens', `{"model":"sim/small","messages":${ones}}`],
  ['numbers as an image prompt', '/v1/images/generations', `{"model":"sim/image","prompt":${ones}}`],
];

test.each(refused)('%s are refused while they arrive, without blocking other requests', async (_name, path, body) => {
  const { status, code, heldMs, responseBytes } = await attack(path, body);
  expect([status, code]).toEqual([400, 'invalid_request']);
  expect(responseBytes).toBeLessThan(4096);
  expect(heldMs).toBeLessThan(heldMsMax);
});

test('without money, a large body is refused within 5 s', async () => {
  const key = await createAccount(gateway, '0');
  const { status, tookMs } = await attack('/v1/responses', `{"model":"sim/small","input":${ones}}`, key);
  expect(status).toBe(400);
  expect(tookMs).toBeLessThan(5_000);
});

test('a JSON error at the end of a long body is refused without blocking other requests', async () => {
  const text = 'x'.repeat(attackSize(60, 12) * mebibyte);
  const body = `{"model":"sim/small","messages":[{"role":"user","content":"${text}"}]]`;
  const { status, heldMs } = await attack('/v1/chat/completions', body);
  expect(status).toBe(400);
  expect(heldMs).toBeLessThan(heldMsMax);
});

test.each([
  ['messages', '/v1/chat/completions', { messages: entries({ role: 'user', content: [{ type: 'text', text: 1 }] }) }],
  ['blocks', '/v1/messages', { max_tokens: 9, messages: [{ role: 'user', content: entries({ type: 'text' }) }] }],
  ['items', '/v1/responses', { input: entries({ role: 'user' }) }],
  ['contents', gemini, { contents: entries({ role: 'user', parts: [{ text: 1 }] }) }],
])(
  'for thousands of wrong %s, the error names the first one, without blocking other requests',
  async (_name, path, body) => {
    const json = JSON.stringify({ model: 'sim/small', ...body });
    // The first body of each kind compiles its schema.
    await attack(path, json);
    const { status, code, heldMs, responseBytes } = await attack(path, json);
    // Google's interface has no 422.
    expect([status, code]).toEqual([path === gemini ? 400 : 422, 'validation_error']);
    expect(heldMs).toBeLessThan(heldMsMax);
    expect(responseBytes).toBeLessThan(1024);
  },
);

function entries(entry: object): object[] {
  return Array.from({ length: 9900 }, () => entry);
}

test.each([
  ['in one frame', Infinity],
  ['in frames of a kilobyte', 1024],
])('a WebSocket message of 48 MiB %s does not block other requests', async (_name, frameBytes) => {
  const client = await SocketClient.open(gateway.url, gateway.apiKey);
  await client.ask({ model: 'sim/small', input: 'x' });
  const message = Buffer.from(
    JSON.stringify({ type: 'response.create', model: 'sim/small', input: 'x'.repeat(48 * mebibyte) }),
  );
  const sinceMs = Date.now();
  for (let at = 0; at < message.length; at += frameBytes) {
    const fin = at + frameBytes >= message.length;
    client.socket.send(message.subarray(at, at + frameBytes), { binary: false, fin });
  }
  const event = (await client.turn()).at(-1);
  expect([event?.status, event?.error?.param]).toEqual([422, 'input']);
  expect(await holds.longest(gateway.url, sinceMs)).toBeLessThan(heldMsMax);
  await client.close();
});

test('a text that is too long for the model is refused without blocking other requests', async () => {
  const text = 'word '.repeat(attackSize(12, 2) * mebibyte);
  const { status, code, heldMs } = await attack(
    '/v1/chat/completions',
    JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content: text }] }),
  );
  expect([status, code]).toEqual([400, 'context_length_exceeded']);
  expect(heldMs).toBeLessThan(heldMsMax);
});

test('a body of 1.5 MiB is too large for an account endpoint', async () => {
  const body = JSON.stringify({ label: 'x'.repeat(1.5 * mebibyte) });
  const { status, code } = await attack('/v1/account/keys', body, gateway.managementKey);
  expect([status, code]).toEqual([413, 'body_too_large']);
});

/** Begins a request and sends all of its body but the last byte. `finish` sends that; `status` is that of the response, which can come before. */
function beginRequest(body: string): { readonly status: Promise<number>; readonly finish: () => void } {
  const headers = {
    authorization: `Bearer ${gateway.apiKey}`,
    'content-type': 'application/json',
    'content-length': body.length,
  };
  const sent = request(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers });
  // A gateway that has refused the body may close the connection while it is still being sent.
  sent.on('error', () => undefined);
  const status = once(sent, 'response').then(([response]: IncomingMessage[]) => {
    response?.resume().on('error', () => undefined);
    return response?.statusCode ?? 0;
  });
  sent.write(body.slice(0, -1));
  return { status, finish: () => void sent.end(body.slice(-1)) };
}

test('large bodies stay within the memory limit of an account', async () => {
  const text = 'x'.repeat(8 * mebibyte);
  const body = JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content: text }] });
  // An account may have 128 MiB of bodies in memory, which is 15 of these. None is complete before others were refused.
  const count = attackSize(60, 30);
  const begun = Array.from({ length: count }, () => beginRequest(body));
  const statuses: number[] = [];
  for (const { status } of begun) void status.then(each => statuses.push(each));
  await expect.poll(() => statuses.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(count - 15);
  expect(new Set(statuses)).toEqual(new Set([503]));
  for (const { finish } of begun) finish();
  const all = await Promise.all(begun.map(({ status }) => status));
  expect(new Set(all)).toEqual(new Set([400, 503]));
  // The others get 400 because the text is too long. If twice as much as their length were reserved for them, they would be 7.
  expect(all.filter(status => status === 400).length).toBeGreaterThan(10);
  expect((await attack('/v1/chat/completions', body)).status).toBe(400);
});

if (isFullSize)
  test('a body of the maximum size with an image does not block other requests', async () => {
    const url = `data:image/png;base64,${'A'.repeat(60 * mebibyte)}`;
    const content = [{ type: 'image_url', image_url: { url } }];
    const { heldMs } = await attack(
      '/v1/chat/completions',
      JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content }] }),
    );
    expect(heldMs).toBeLessThan(heldMsMax);
  });

testPeak(gateway);
