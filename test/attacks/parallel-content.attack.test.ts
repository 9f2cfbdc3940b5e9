/** Requests of several accounts with large bodies that are in memory at the same time (docs/security.md "Memory"). */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { PeakMemory, testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

const mebibyte = 1024 ** 2;
const accounts = 8;
/** How many bodies of the largest size the gateway takes at a time, by its configuration. */
const admittedCount = 4;
const bytes = attackSize(60, 12) * mebibyte;
const bytesMax = attackSize(64, 14);

/** How many times its size a body may take while it is in memory. */
const copiesMax = attackSize(3, 4);
/** Requests whose bodies the provider does not read yet. */
const unread: IncomingMessage[] = [];
const provider = createServer((request, response) => {
  unread.push(request);
  request.on('end', () => {
    const message = { role: 'assistant', content: 'Seen.' };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: 'c', object: 'chat.completion', choices, usage }));
  });
});
provider.listen(0, '127.0.0.1');
await once(provider, 'listening');

const gateway = await startGateway({
  balance: '1000000',
  config: `
retries: 0
limits: { body_bytes: ${bytesMax}MiB, body_memory: ${admittedCount * bytesMax}MiB, account_body_memory: ${2 * bytesMax}MiB }
overload: { loop_lag: 60s }
providers:
  eyes: { protocol: chat, base_url: "http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1", api_key: x }
models:
  - { id: far/eyes, context_length: 100000000, capabilities: { vision: true }, pricing: { input: 0.001, output: 1 }, routes: [{ provider: eyes, model: m }] }
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
beforeAll(async () => {
  for (let count = 0; count < accounts; count += 1) keys.push(await createAccount(gateway, '1000'));
  // Compiles the paths.
  for (const { path, body } of kinds(2 * mebibyte)) await sendAll(keys.slice(0, 1), path, body);
});

interface Answered {
  readonly status: number;
  readonly retryAfter: string | null;
}

async function send(key: string, path: string, body: string): Promise<Answered> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(gateway.url + path, { method: 'POST', headers, body });
  await response.arrayBuffer();
  return { status: response.status, retryAfter: response.headers.get('retry-after') };
}

/** Sends a body with each key, one after the other, none of which ends before all were sent. */
async function sendAll(senders: readonly string[], path: string, body: object): Promise<Answered[]> {
  const json = JSON.stringify(body);
  const answers: Promise<Answered>[] = [];
  for (const key of senders) {
    const before = unread.length;
    let hasEnded = false;
    answers.push(send(key, path, json).finally(() => (hasEnded = true)));
    while (!hasEnded && unread.length === before) await sleep(5);
  }
  for (const request of unread.splice(0)) request.resume();
  return Promise.all(answers);
}

interface Kind {
  readonly name: string;
  readonly path: string;
  readonly body: object;
}

function kinds(size: number): Kind[] {
  const data = 'A'.repeat(size);
  const user = (content: unknown): object => ({ model: 'far/eyes', messages: [{ role: 'user', content }] });
  const url = { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } };
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
  const quarter = `data:image/png;base64,${'A'.repeat(size / 4)}`;
  const inputImages = Array.from({ length: 4 }, () => ({ type: 'input_image', image_url: quarter }));
  const [chat, messages, responses] = ['/v1/chat/completions', '/v1/messages', '/v1/responses'];
  return [
    { name: 'images', path: chat, body: user([url]) },
    { name: 'images in another protocol', path: messages, body: { ...user([image]), max_tokens: 9 } },
    {
      name: 'images of stored responses',
      path: responses,
      body: { model: 'far/eyes', input: [{ role: 'user', content: inputImages }] },
    },
    {
      name: 'texts with escapes',
      path: chat,
      body: { ...user('x'), unknown: data.replaceAll('AAAAAAAA', 'AAAAAA\n') },
    },
    // Such a text takes two bytes for each character.
    { name: 'texts with an emoji', path: chat, body: { ...user('x'), unknown: `😀${data}` } },
  ];
}

test.each(kinds(bytes))(
  '$name of tens of megabytes at once take a few times their size, and those for which there is no memory are refused',
  async ({ name, path, body }) => {
    const before = peak.restart();
    const answers = await sendAll(keys, path, body);
    const copies = (peak.recent - before) / (admittedCount * bytes);
    if (process.env['ATTACK_SHOW'] !== undefined) console.log(name, before / mebibyte, peak.recent / mebibyte, copies);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(admittedCount);
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused).toEqual(Array.from({ length: accounts - admittedCount }, () => ({ status: 503, retryAfter: '1' })));
    expect(copies).toBeLessThan(copiesMax);
  },
);

testPeak(gateway, peak);
