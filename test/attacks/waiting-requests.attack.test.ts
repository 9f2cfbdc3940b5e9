/** Requests that wait for the memory of large contents (docs/security.md "Stored contents"): who goes on, who is refused, and that the place of one that leaves is free. */
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as openRequest } from 'node:http';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { createBatch, endedBatch, getBatch } from '../e2e/batch-caller.ts';
import { SocketClient } from '../e2e/socket-client.ts';
import { createAccount, endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { HeldProvider } from './held-provider.ts';

const mebibyte = 1024 ** 2;
const provider = await HeldProvider.start();
afterAll(() => provider.end());
const gateway = await startGateway({
  balance: '1000',
  // A wait is longer than a test: whoever is answered has not waited in vain.
  config: `
retries: 0
limits: { body_bytes: 7MiB, body_memory: 16MiB, account_body_memory: 8MiB, memory_wait: 10m }
overload: { loop_lag: 60s }
batches: { concurrency: 2 }
providers:
  eyes: { protocol: chat, base_url: "${provider.url}", api_key: x }
models:
  - { id: far/eyes, context_length: 100000000, max_output_tokens: 1000, capabilities: { vision: true }, pricing: { input: 0.001, output: 1 }, routes: [{ provider: eyes, model: m }] }
`,
  // Each worker would count the memory of its own requests.
  environment: { TOLLGATE_WORKERS: '1' },
});
afterAll(() => endGateway(gateway));

/** Each test has an account of its own, and leaves nothing that waits. */
let key = '';
beforeEach(async () => {
  key = await createAccount(gateway, '100');
});

const user = (text: string, bytes = 0): object => ({
  role: 'user',
  content: [
    { type: 'input_text', text },
    ...(bytes === 0 ? [] : [{ type: 'input_image', image_url: `data:image/png;base64,${'A'.repeat(bytes)}` }]),
  ],
});
const ask = (more: object, input = user('x')): Record<string, unknown> => ({
  model: 'far/eyes',
  input: [input],
  ...more,
});

async function send(path: string, body?: object, signal?: AbortSignal): Promise<Response> {
  return fetch(gateway.url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Stores a response with an input of `bytes`. Returns its id. */
async function store(bytes: number): Promise<string> {
  const stored = await send('/v1/responses', ask({}, user('x', bytes)));
  return ((await stored.json()) as { id: string }).id;
}

/** Sends a request with a body of `bytes`, which is not answered before the provider releases it. Resolves when the provider has it. */
async function hold(bytes: number): Promise<{ readonly answer: Promise<Response> }> {
  const { arrived } = provider;
  const answer = send('/v1/responses', ask({ store: false }, user('hold', bytes)));
  await expect.poll(() => provider.arrived).toBe(arrived + 1);
  return { answer };
}

/** Returns a gauge of the gateway. */
async function gauge(name: 'bytes' | 'waiting'): Promise<number> {
  const text = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
  return Number(new RegExp(`^tollgate_large_content_${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

async function untilWaiting(count: number): Promise<void> {
  await expect.poll(() => gauge('waiting')).toBe(count);
}

/** Requests that read the contents of a stored response, and so wait while its account has no memory for them. */
const reading: readonly [name: string, begin: (id: string, signal?: AbortSignal) => Promise<Response>][] = [
  ['a response', (id, signal) => send('/v1/responses', ask({ previous_response_id: id }), signal)],
  [
    'a streamed response',
    (id, signal) => send('/v1/responses', ask({ previous_response_id: id, stream: true }), signal),
  ],
  [
    'a background response',
    (id, signal) => send('/v1/responses', ask({ previous_response_id: id, background: true }), signal),
  ],
  ['a count of tokens', (id, signal) => send('/v1/responses/input_tokens', ask({ previous_response_id: id }), signal)],
  ['a compaction', (id, signal) => send('/v1/responses/compact', ask({ previous_response_id: id }), signal)],
  ['a read', (id, signal) => send(`/v1/responses/${id}/input_items`, undefined, signal)],
];

test.each(reading)('the place of %s that waits for memory is free when its client leaves', async (_name, begin) => {
  const [large, small] = [await store(5.5 * mebibyte), await store(1.5 * mebibyte)];
  const held = await hold(3 * mebibyte);
  const client = new AbortController();
  const leaving = begin(large, client.signal).catch(() => undefined);
  await untilWaiting(1);
  const behind = send(`/v1/responses/${small}/input_items`);
  await untilWaiting(2);
  client.abort();
  expect((await behind).status).toBe(200);
  await leaving;
  provider.release();
  expect((await held.answer).status).toBe(200);
  await expect.poll(() => gauge('bytes')).toBe(0);
});

test('what can never fit beside its body is refused at once, and says why', async () => {
  const id = await store(5 * mebibyte);
  for (const path of ['/v1/responses', '/v1/responses/input_tokens']) {
    const refused = await send(path, ask({ previous_response_id: id }, user('x', 4 * mebibyte)));
    const { error } = (await refused.json()) as { error: { code: string; message: string } };
    expect([refused.status, error.code]).toEqual([400, 'invalid_request']);
    expect(error.message).toMatch(
      /takes 52\d{5} bytes and has a body of 41\d{5} bytes, together more than the 8388608 bytes/,
    );
  }
  const answered = await send('/v1/responses', ask({ previous_response_id: id }, user('x', 2 * mebibyte)));
  expect(answered.status).toBe(200);
});

/** Sends a request but for its last byte. */
function sendAlmost(path: string, body: object): { readonly request: ClientRequest; readonly last: string } {
  const json = JSON.stringify(body);
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(json),
  };
  const request = openRequest(gateway.url + path, { method: 'POST', headers, agent: false });
  request.write(json.slice(0, -1));
  return { request, last: json.slice(-1) };
}

test('requests that wait for what their own bodies have are answered one after the other', async () => {
  const id = await store(1.5 * mebibyte);
  const bodies = Array.from({ length: 4 }, () =>
    sendAlmost('/v1/responses', ask({ previous_response_id: id, store: false }, user('x', 1.95 * mebibyte))),
  );
  await expect.poll(() => gauge('bytes')).toBeGreaterThan(4 * 1.95 * mebibyte);
  const answers = bodies.map(({ request }) => once(request, 'response') as Promise<[IncomingMessage]>);
  for (const { request, last } of bodies) request.end(last);
  const statuses: (number | undefined)[] = [];
  for (const answer of answers) {
    const [response] = await answer;
    response.resume();
    statuses.push(response.statusCode);
  }
  expect(statuses).toEqual([200, 200, 200, 200]);
  await expect.poll(() => gauge('bytes')).toBe(0);
});

test('a body does not take the memory for which a read of its account waits, but that of another account can', async () => {
  const id = await store(5.5 * mebibyte);
  const held = await hold(3 * mebibyte);
  const waiting = send(`/v1/responses/${id}/input_items`);
  await untilWaiting(1);
  const body = ask({ store: false }, user('x', 2 * mebibyte));
  expect((await send('/v1/responses', body)).status).toBe(503);
  const reader = key;
  key = await createAccount(gateway, '100');
  expect((await send('/v1/responses', body)).status).toBe(200);
  key = reader;
  provider.release();
  expect([(await held.answer).status, (await waiting).status]).toEqual([200, 200]);
  expect((await send('/v1/responses', body)).status).toBe(200);
});

interface Begun {
  readonly owner: { readonly url: string; readonly apiKey: string };
  readonly id: string;
}

/** Begins a batch of three responses. Resolves when its items run. */
async function beginBatch(more: object): Promise<Begun> {
  const body = ask({ store: false, ...more });
  const items = ['a', 'b', 'c'].map(name => ({ custom_id: name, method: 'POST', url: '/v1/responses', body }));
  const owner = { url: gateway.url, apiKey: key };
  const { id } = await createBatch(owner, items, { endpoint: '/v1/responses' });
  await expect.poll(async () => (await getBatch(owner, id)).status).not.toBe('validating');
  return { owner, id };
}

test('items of a batch for which there is no memory do not stop those of other accounts', async () => {
  const id = await store(5.5 * mebibyte);
  const held = await hold(3 * mebibyte);
  const large = await beginBatch({ previous_response_id: id });
  key = await createAccount(gateway, '100');
  const small = await beginBatch({});
  const completed = { status: 'completed', request_counts: { total: 3, completed: 3 } };
  expect(await endedBatch(small.owner, small.id)).toMatchObject(completed);
  expect((await getBatch(large.owner, large.id)).status).toBe('in_progress');
  provider.release();
  expect((await held.answer).status).toBe(200);
  expect(await endedBatch(large.owner, large.id)).toMatchObject(completed);
}, 60_000);

test('a turn of a WebSocket that continues an unstored response waits for all of its earlier turns, also those of a stored conversation', async () => {
  const items = [user('x', 3 * mebibyte), user('x', 2.5 * mebibyte)].map(item => ({ type: 'message', ...item }));
  const made = await send('/v1/conversations', { items });
  const { id: conversation } = (await made.json()) as { id: string };
  const client = await SocketClient.open(gateway.url, key);
  const first = await client.ask(ask({ conversation, store: false }));
  if (!('response' in first)) throw new Error(JSON.stringify(first.error));
  const held = await hold(3 * mebibyte);
  const next = client.ask(ask({ previous_response_id: first.response.id, store: false }));
  await untilWaiting(1);
  provider.release();
  expect((await held.answer).status).toBe(200);
  expect(await next).toMatchObject({ response: { status: 'completed' } });
  await client.close();
});
