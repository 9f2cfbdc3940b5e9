/** Two gateway processes on one database: what one stores, the other can read. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { Gateway } from '../gateway.ts';
import { expectSound, killGateway, makeEndLease, startTwo } from './lost-gateways.ts';
import { createDatabase } from './server.ts';

let url: string;
let one: Gateway;
let other: Gateway;

beforeAll(async () => {
  url = await createDatabase(inject('postgresUrl'));
  [one, other] = await startTwo(url);
});

afterAll(async () => {
  await other.stop();
  expect((await one.stop()).code).toBe(0);
  await expectSound(url);
});

interface Reply {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly text: string;
}

async function send(to: Gateway, path: string, body?: object, headers: Record<string, string> = {}): Promise<Reply> {
  const response = await fetch(`${to.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${one.apiKey}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = text.startsWith('{');
  return { status: response.status, text, body: isJson ? (JSON.parse(text) as Record<string, unknown>) : {} };
}

const chat = (content: string) => ({ model: 'sim/large', messages: [{ role: 'user', content }] });

/** Repeats a request until the status in the answer is one of `statuses`, and returns the answer. */
async function poll(to: Gateway, path: string, statuses: readonly string[]): Promise<Record<string, unknown>> {
  for (const deadline = performance.now() + 40_000; ; await sleep(200)) {
    const { body } = await send(to, path);
    if (statuses.includes(String(body['status']))) return body;
    if (performance.now() > deadline) throw new Error(`${path}: ${JSON.stringify(body)}`);
  }
}

test('a repeat at another gateway gets the first answer, or the error that it is in progress', async () => {
  const headers = { 'idempotency-key': 'over two gateways' };
  const body = chat('!sim tokens=10 delay_ms=400\nOnce.');
  const both = await Promise.all([one, other, one, other].map(to => send(to, '/v1/chat/completions', body, headers)));
  const answered = both.filter(({ status }) => status === 200);
  expect(answered.length).toBeGreaterThan(0);
  expect(both.filter(({ status }) => status !== 200).map(({ status }) => status)).toEqual(
    both.slice(answered.length).map(() => 409),
  );
  const repeat = await send(other, '/v1/chat/completions', body, headers);
  expect(new Set([...answered, repeat].map(({ body: { id } }) => id)).size).toBe(1);
  const different = await send(other, '/v1/chat/completions', chat('Another.'), headers);
  expect((different.body['error'] as { code: string }).code).toBe('idempotency_key_reused');
});

test('a response can continue a response of another gateway; a background response can be followed and cancelled at another gateway', async () => {
  const first = await send(one, '/v1/responses', { model: 'sim/large', input: 'Remember 7.' });
  const next = { model: 'sim/large', input: 'What was it?', previous_response_id: first.body['id'] };
  expect((await send(other, '/v1/responses', next)).status).toBe(200);
  const slow = { model: 'sim/large', input: '!sim tokens=60 tps=30\nTell.', background: true };
  const begun = (await send(one, '/v1/responses', slow)).body;
  const followed = await send(other, `/v1/responses/${String(begun['id'])}?stream=true`);
  expect(followed.text).toContain('response.completed');
  const long = { ...slow, input: '!sim tokens=2000 tps=20\nTell.' };
  const cancelled = (await send(one, '/v1/responses', long)).body;
  await sleep(1_000);
  await send(other, `/v1/responses/${String(cancelled['id'])}/cancel`, {});
  expect((await poll(one, `/v1/responses/${String(cancelled['id'])}`, ['cancelled']))['status']).toBe('cancelled');
});

test('files, batches, images and tasks can be read at every gateway', async () => {
  const form = new FormData();
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: chat('Hi.') };
  form.set('purpose', 'batch');
  form.set('file', new Blob([`${JSON.stringify(line)}\n`]), 'lines.jsonl');
  const authorization = `Bearer ${one.apiKey}`;
  const uploaded = await fetch(`${one.url}/v1/files`, { method: 'POST', headers: { authorization }, body: form });
  const { id: input } = (await uploaded.json()) as { id: string };
  const created = await send(other, '/v1/batches', {
    input_file_id: input,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  const ended = await poll(one, `/v1/batches/${String(created.body['id'])}`, ['completed']);
  const results = await send(one, `/v1/files/${String(ended['output_file_id'])}/content`);
  expect(results.text).toContain('"custom_id":"a"');
  const imageRequest = { model: 'sim/image', prompt: 'a harbour', size: '256x256' };
  const drawn = await send(one, '/v1/images/generations', imageRequest);
  const [{ url: address = '' } = {}] = drawn.body['data'] as { url?: string }[];
  const bytes = await fetch(address.replace(one.url, other.url));
  expect([bytes.status, bytes.headers.get('content-type')]).toEqual([200, 'image/png']);
  const task = await send(one, '/v1/images/generations', { ...imageRequest, async: true });
  const id = String(task.body['id'] ?? task.body['task_id']);
  expect((await poll(other, `/v1/images/tasks/${id}`, ['completed']))['status']).toBe('completed');
});

// In `test/long/leases.test.ts` the lease ends by itself.
test('the background work of a killed gateway is ended by the other one once its lease is over', async () => {
  await killGateway([one, other], makeEndLease(url));
});
