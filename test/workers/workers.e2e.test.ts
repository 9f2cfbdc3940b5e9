import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { readBalance, endGateway, type Gateway, heldBy, makeKey, readRecord, root, startGateway } from '../gateway.ts';

/** A file in this folder makes the worker throw whose number is its name: see die.mjs. */
const killFolder = mkdtempSync(join(tmpdir(), 'tollgate-killFolder-'));
let gateway: Gateway;
/** Refuses the key of every request. */
const refusing = createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(401, { 'content-type': 'application/json' }).end('{}'));
});

beforeAll(async () => {
  await once(refusing.listen(0, '127.0.0.1'), 'listening');
  const { port } = refusing.address() as AddressInfo;
  mkdirSync(killFolder, { recursive: true });
  const preload = pathToFileURL(join(root, 'test/workers/die.mjs')).href;
  gateway = await startGateway({
    config: `metrics: public
simulator: { steering: true }
webhooks: { allow_private: true }
providers: { up: { protocol: chat, base_url: "http://127.0.0.1:${port}/v1", api_key: k } }
models: [{ id: lab/one, context_length: 8000, max_output_tokens: 500, pricing: { input: 1, output: 10 }, routes: [{ provider: up, model: m }] }]
`,
    environment: { TOLLGATE_WORKERS: '2', NODE_OPTIONS: `--import=${preload}`, TEST_DEATHS: killFolder },
  });
});

afterAll(async () => {
  refusing.close();
  await endGateway(gateway);
}, 60_000);

interface Reply {
  readonly status: number;
  readonly id: string;
  readonly body: Record<string, unknown>;
}

/** Sends a request over a new connection, so that the system picks a worker for it. */
function send(
  method: 'GET' | 'POST',
  path: string,
  { body, key = gateway.apiKey, headers = {} }: { body?: object; key?: string; headers?: Record<string, string> } = {},
): Promise<Reply> {
  const sent = body === undefined ? '' : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${gateway.url}${path}`,
      {
        method,
        agent: new Agent({ keepAlive: false }),
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      },
      response => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('error', reject);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            id: String(response.headers['x-request-id']),
            body: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : { text },
          }),
        );
      },
    );
    request.on('error', reject).end(sent);
  });
}

const chat = (text: string, more: object = {}) => ({
  model: 'sim/large',
  messages: [{ role: 'user', content: text }],
  ...more,
});

const times = <T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => make(index)));

/** Returns the workers that are named in log lines of requests. */
function workersInLog(): number[] {
  const lines = gateway.printed().match(/\{"level":"info".*"worker":\d.*"msg":"request"\}/g) ?? [];
  return [...new Set(lines.map(line => Number(/"worker":(\d)/.exec(line)?.[1])))].toSorted((one, other) => one - other);
}

test('both workers answer with different ids, and the metrics and the balance include both', async () => {
  const before = await readBalance(gateway);
  const replies = await times(40, index => send('POST', '/v1/chat/completions', { body: chat(`Say ${index}.`) }));
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200));
  expect(new Set(replies.map(({ id }) => id)).size).toBe(40);
  await expect.poll(workersInLog).toEqual([1, 2]);
  const costs = replies.map(({ body }) => Number((body['usage'] as { cost: number }).cost));
  const charged = Number(before - (await readBalance(gateway))) / 1e9;
  expect(charged).toBeCloseTo(
    costs.reduce((sum, cost) => sum + cost, 0),
    9,
  );
  const { body } = await send('GET', '/metrics');
  const counted = /^tollgate_requests_total\{.*endpoint="\/v1\/chat\/completions".*status="200".*\} (\d+)$/m;
  expect(counted.exec(String(body['text']))?.[1]).toBe('40');
});

test('a repeat with the same Idempotency-Key gets the first answer through any worker, and is charged once', async () => {
  const headers = { 'idempotency-key': 'one key for all' };
  const body = chat('!sim tokens=20 delay_ms=300\nSay it once.');
  const first = await times(12, () => send('POST', '/v1/chat/completions', { body, headers }));
  const answered = first.filter(({ status }) => status === 200);
  expect(answered.length).toBeGreaterThan(0);
  for (const { status, body: reply } of first.filter(each => each.status !== 200))
    expect([status, (reply['error'] as { code: string }).code]).toEqual([409, 'idempotency_in_progress']);
  const repeats = await times(12, () => send('POST', '/v1/chat/completions', { body, headers }));
  const ids = new Set([...answered, ...repeats].map(({ status, body: reply }) => `${status} ${String(reply['id'])}`));
  expect([...ids]).toHaveLength(1);
  const others = await times(6, () => send('POST', '/v1/chat/completions', { body: chat('Another.'), headers }));
  expect(others.map(({ body: reply }) => (reply['error'] as { code: string }).code)).toEqual(
    others.map(() => 'idempotency_key_reused'),
  );
});

test('a limit of 10 requests admits exactly 10 of 40 requests at once', async () => {
  const { key } = await makeKey(gateway, { minuteLimit: 10n });
  const replies = await times(40, () => send('POST', '/v1/chat/completions', { body: chat('Hi.'), key }));
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(10);
  expect(replies.filter(({ status }) => status === 429)).toHaveLength(30);
});

test('a revoked key is refused by all workers from the next request on, and its streams end', async () => {
  const { key, id } = await makeKey(gateway);
  await times(10, () => send('POST', '/v1/chat/completions', { body: chat('Hi.'), key }));
  const streams = times(8, () =>
    send('POST', '/v1/chat/completions', { body: chat('!sim tokens=2000 tps=20\nTell.', { stream: true }), key }),
  );
  await sleep(1_000);
  await gateway.account.deleteKey({ apiKeyId: id });
  const after = await times(10, () => send('POST', '/v1/chat/completions', { body: chat('Hi.'), key }));
  expect(after.map(({ status }) => status)).toEqual(after.map(() => 401));
  for (const { body } of await streams) expect(String(body['text'])).toContain('The API key was revoked');
});

test('all workers can read what one stores: responses, conversations, tasks and batches', async () => {
  const { body: made } = await send('POST', '/v1/responses', { body: { model: 'sim/large', input: 'Remember 7.' } });
  const read = await times(8, () => send('GET', `/v1/responses/${String(made['id'])}`));
  expect(read.map(({ body }) => body['status'])).toEqual(read.map(() => 'completed'));
  const background = { model: 'sim/large', input: '!sim tokens=40 tps=40\nTell.', background: true };
  const { body: begun } = await send('POST', '/v1/responses', { body: background });
  const statuses = new Set<unknown>();
  for (const deadline = performance.now() + 20_000; performance.now() < deadline && !statuses.has('completed');) {
    statuses.add((await send('GET', `/v1/responses/${String(begun['id'])}`)).body['status']);
    await sleep(100);
  }
  expect([...statuses].at(-1)).toBe('completed');
  const followed = await send('GET', `/v1/responses/${String(begun['id'])}?stream=true`);
  expect(String(followed.body['text'])).toContain('response.completed');
  const { body: conversation } = await send('POST', '/v1/conversations', { body: {} });
  const slow = { model: 'sim/large', input: '!sim tokens=20 delay_ms=400\nHi.', conversation: conversation['id'] };
  // A conversation is locked while a response is generated in it, whichever worker generates it.
  const concurrent = await times(6, () => send('POST', '/v1/responses', { body: slow }));
  expect(concurrent.filter(({ status }) => status === 200)).toHaveLength(1);
});

test('a worker that dies is replaced within 10 s; the holds of its requests are voided, and the other worker continues', async () => {
  const long = chat('!sim tokens=120 tps=20\nTell me all of it.', { stream: true });
  const streams = times(10, () =>
    send('POST', '/v1/chat/completions', { body: long }).then(
      ({ id, body }) => ({ id, isWhole: String(body['text']).includes('[DONE]') }),
      () => ({ id: '', isWhole: false }),
    ),
  );
  await sleep(1_500);
  expect(await heldBy(gateway)).toBeGreaterThan(0n);
  writeFileSync(join(killFolder, '1'), '');
  await expect.poll(() => gateway.printed(), { timeout: 60_000 }).toContain('a worker ended: it is replaced');
  const beganMs = performance.now();
  const from = gateway.printed().length;
  const replaced = (): boolean => /"worker":1.*"msg":"request"/.test(gateway.printed().slice(from));
  while (!replaced() && performance.now() - beganMs < 10_000) {
    await times(6, () => send('POST', '/v1/chat/completions', { body: chat('Hi.') }).catch(() => undefined));
    await sleep(150);
  }
  expect(replaced()).toBe(true);
  expect(workersInLog()).toEqual([1, 2]);
  const ended = await streams;
  const whole = ended.filter(({ isWhole }) => isWhole);
  expect(whole.length).toBeGreaterThan(0);
  expect(whole.length).toBeLessThan(10);
  // Every complete answer was charged, and the holds of broken answers were voided.
  for (const { id } of whole) expect((await readRecord(gateway, id)).state).toBe(RecordState.COMPLETED);
  await expect.poll(() => heldBy(gateway)).toBe(0n);
});

test('what a worker finds out about a provider is reported to the operator’s webhook', async () => {
  const made = await gateway.cli(['webhooks', 'create', '--url', 'http://127.0.0.1:9/', '--json']);
  const { webhook_id: webhookId } = made.json as { webhook_id: number };
  expect((await send('POST', '/v1/chat/completions', { body: chat('Hello', { model: 'lab/one' }) })).status).toBe(502);
  await expect
    .poll(async () => {
      const { events } = await gateway.admin.listAccountWebhookEvents({ query: { webhookId: BigInt(webhookId) } });
      return events
        .filter(({ type }) => type === 'provider.key_refused')
        .map(({ dataJson }) => JSON.parse(dataJson) as unknown);
    })
    .toEqual([{ provider: 'up', key: 1, status: 401, rests_until: null }]);
});

test('a reload reaches both workers', async () => {
  writeFileSync(
    join(gateway.home.folder, 'gateway.yaml'),
    'metrics: public\nsimulator: { steering: true }\naliases: { mine: sim/small }\n',
  );
  await gateway.admin.reloadConfiguration({});
  const replies = await times(12, () =>
    send('POST', '/v1/chat/completions', { body: { ...chat('Hi.'), model: 'mine' } }),
  );
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200));
});
