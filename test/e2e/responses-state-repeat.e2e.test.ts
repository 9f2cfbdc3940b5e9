/** Idempotency-Key on the Responses interface: one upstream call, one charge and the same answer, in every way to request it. */
import { randomUUID } from 'node:crypto';
import { afterAll, describe, expect, test } from 'vitest';
import { readBalance, endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { payg } from './chat-client.ts';
import { parseEvents, type Resource, ResponsesCaller } from './resource-caller.ts';

const gateway = await startGateway();
afterAll(() => endGateway(gateway));
const caller = new ResponsesCaller(gateway, gateway.apiKey);
const model = payg;

async function post(
  key: string,
  body: unknown,
  path = '',
): Promise<{ headers: Headers; status: number; text: string }> {
  const response = await caller.fetch('POST', path, body, { 'idempotency-key': key });
  return { headers: response.headers, status: response.status, text: await response.text() };
}

const reasoned = {
  reasoning: { effort: 'low' },
  include: ['reasoning.encrypted_content'],
};

describe.each([
  ['whole', { input: '!sim say=Once.' }],
  ['whole, not stored', { input: '!sim say=Once.', store: false }],
  ['streamed', { input: '!sim say=Once.', stream: true }],
  ['streamed with encrypted reasoning', { input: '!sim say=Once.', stream: true, ...reasoned }],
  ['whole with encrypted reasoning', { input: '!sim say=Once.', ...reasoned }],
  ['streamed in the background', { input: '!sim tokens=30', stream: true, background: true }],
])('%s', (_, members) => {
  test('a repeat gets the same answer, and is not charged', async () => {
    const key = randomUUID();
    const body = { model, ...members };
    const first = await post(key, body);
    expect(first.status).toBe(200);
    const balance = await readBalance(gateway);
    const second = await post(key, body);
    expect([second.status, second.text]).toEqual([200, first.text]);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(second.headers.get('x-request-id')).toBe(first.headers.get('x-request-id'));
    expect(second.headers.get('x-tollgate-cost')).toBe(first.headers.get('x-tollgate-cost'));
    expect(await readBalance(gateway)).toBe(balance);
    const other = await post(key, { ...body, temperature: 1 });
    expect([other.status, other.text.includes('idempotency_key_reused')]).toEqual([422, true]);
  });
});

test('in the background, a repeat gets the first answer (`queued`) again, and there is one response', async () => {
  const key = randomUUID();
  const body = { model, input: '!sim tokens=20', background: true };
  const [first, second] = [await post(key, body), await post(key, body)];
  expect(second.text).toBe(first.text);
  const { id, status } = JSON.parse(first.text) as Resource;
  expect(status).toBe('queued');
  await caller.ended(id);
  const third = await post(key, body);
  expect([third.text, third.headers.get('x-request-id')]).toEqual([first.text, first.headers.get('x-request-id')]);
});

test('a compaction is made once', async () => {
  const key = randomUUID();
  const body = { model, input: 'Remember the heron.' };
  const first = await post(key, body, '/compact');
  const balance = await readBalance(gateway);
  const second = await post(key, body, '/compact');
  expect(second.text).toBe(first.text);
  expect(second.headers.get('idempotent-replayed')).toBe('true');
  expect(second.headers.get('x-tollgate-cost')).toBe(first.headers.get('x-tollgate-cost'));
  expect(await readBalance(gateway)).toBe(balance);
  expect((await post(key, body)).status).toBe(422);
});

test('a repeat of a stream that broke in its middle breaks in the same way', async () => {
  const key = randomUUID();
  const body = { model, input: '!sim fail=3 tokens=100', stream: true };
  const first = await post(key, body);
  expect(parseEvents(first.text).at(-1)?.type).toBe('response.failed');
  expect((await post(key, body)).text).toBe(first.text);
});

test('after an error the key can be used again', async () => {
  const key = randomUUID();
  expect((await post(key, { model, input: '!sim status=500' })).status).toBe(502);
  expect((await post(key, { model, input: '!sim say=Now.' })).status).toBe(200);
});

test('a client that disconnected gets the whole answer when it repeats the request', async () => {
  const key = randomUUID();
  const body = { model, input: '!sim tokens=60 tps=100', stream: true };
  const left = await caller.fetch('POST', '', body, { 'idempotency-key': key });
  const reader = left.body?.getReader();
  await reader?.read();
  await reader?.cancel();
  let again = await post(key, body);
  while (again.status === 409) {
    await new Promise(resolve => {
      setTimeout(resolve, 100);
    });
    again = await post(key, body);
  }
  const last = parseEvents(again.text).at(-1);
  expect([last?.type, last?.response?.status]).toEqual(['response.completed', 'completed']);
  expect(await caller.get(last?.response?.id ?? '')).toEqual(last?.response);
});
