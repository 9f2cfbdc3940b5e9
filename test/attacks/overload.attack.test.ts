/** An overloaded gateway (docs/security.md "Overload"). */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { afterAll, expect, test } from 'vitest';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { write } from '../e2e/scripted-answers.ts';
import { ScriptedUpstream } from '../e2e/scripted-upstream.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize, isFullSize } from './scale.ts';

// Any delay of the event loop counts as overload, so that the tests overload the gateway on any machine.
const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\noverload: { loop_lag: 1ms }\n',
  balance: '1000',
});
const scripted = await ScriptedUpstream.start({ Answer: write('chat', { text: 'ok', finish: 'stop' }) });
afterAll(() => scripted.stop());
// A short turn of the event loop, so that hundreds of requests need many turns on any machine.
const calm = await startGateway({
  config: `simulator: { tokens_per_second: 0 }
overload: { slice: 1ms }
providers: { scripted: { protocol: chat, base_url: '${scripted.url}/v1', api_key: k } }
models:
  - { id: scripted/order, context_length: 1000, pricing: { input: 1, output: 1 }, max_output_tokens: 20, routes: [{ provider: scripted, model: m }] }
`,
  balance: '1000',
});
afterAll(() => endGateway(gateway));
afterAll(() => endGateway(calm));
const agent = new Agent({ connections: 600 });
afterAll(() => agent.close());

async function ask(
  url: string,
  key: string,
  tokens: number,
): Promise<{ status: number; tookMs: number; retryAfter: unknown }> {
  const began = performance.now();
  const { statusCode, headers, body } = await request(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content: `!sim tokens=${tokens}` }] }),
    dispatcher: agent,
  });
  await body.text();
  return { status: statusCode, tookMs: performance.now() - began, retryAfter: headers['retry-after'] };
}

/** Sends requests without a pause, a given number at a time, until stopped. */
function load(
  url: string,
  key: string,
  at: { once: number; tokens: number },
): () => Promise<Awaited<ReturnType<typeof ask>>[]> {
  let isOver = false;
  const done = Array.from({ length: at.once }, async () => {
    const seen: Awaited<ReturnType<typeof ask>>[] = [];
    while (!isOver) seen.push(await ask(url, key, at.tokens));
    return seen;
  });
  return async () => {
    isOver = true;
    return (await Promise.all(done)).flat();
  };
}

test('under overload, /readyz fails, and callers without a key and accounts above their share are refused with retry-after; afterwards everything works again', async () => {
  const stop = load(gateway.url, gateway.apiKey, { once: 60, tokens: 400 });
  const statuses = new Set<number>();
  for (let turn = 0; turn < 40; turn += 1) {
    statuses.add((await fetch(`${gateway.url}/readyz`)).status);
    await sleep(100);
  }
  const seen = await stop();
  expect(statuses).toContain(503);
  const refused = seen.filter(({ status }) => status === 503);
  expect(refused.length).toBeGreaterThan(0);
  expect(new Set(refused.map(({ retryAfter }) => retryAfter))).toEqual(new Set(['2']));
  expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
  await expect.poll(async () => (await ask(gateway.url, gateway.apiKey, 3)).status).toBe(200);
});

test('an account with very many requests does not delay the others', async () => {
  const quiet = await createAccount(calm, '100');
  const askOften = async (): Promise<{ statuses: Set<number>; medianMs: number }> => {
    const seen: Awaited<ReturnType<typeof ask>>[] = [];
    for (let turn = 0; turn < attackSize(200, 30); turn += 1) seen.push(await ask(calm.url, quiet, 3));
    return { statuses: new Set(seen.map(({ status }) => status)), medianMs: medianMs(seen) };
  };
  const alone = await askOften();
  const stop = load(calm.url, calm.apiKey, { once: attackSize(500, 100), tokens: 3 });
  await sleep(500);
  const beside = await askOften();
  const loud = await stop();
  expect(beside.statuses).toEqual(new Set([200]));
  // Client and gateway share the machine, so in `npm test` the time means little.
  if (isFullSize) console.log({ aloneMs: alone.medianMs, besideMs: beside.medianMs, loudMs: medianMs(loud) });
}, 300_000);

test('a request that comes after hundreds of waiting requests of another account is among the first to begin', async () => {
  const quiet = await createAccount(calm, '100');
  for (const key of [calm.apiKey, quiet]) expect((await ask(calm.url, key, 3)).status).toBe(200);
  const keys = [...Array.from({ length: 300 }, () => calm.apiKey), quiet];
  const sockets = await Promise.all(keys.map(() => open(calm.url)));
  // The process is paused until all requests have arrived, in this order, so that it reads all of them in one turn.
  process.kill(calm.pid, 'SIGSTOP');
  const ends = sockets.map(async (socket, index) => {
    socket.write(rawRequest(keys[index] ?? '', `Answer ${keys[index] === quiet ? 'quiet' : 'loud'}`));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString('latin1', 0, 12)).toBe('HTTP/1.1 200');
    socket.destroy();
  });
  await sleep(200);
  process.kill(calm.pid, 'SIGCONT');
  await Promise.all(ends);
  // The order is that at the provider, because answers that are settled in one batch reach the clients together.
  const asked = scripted.bodies.map(body => JSON.stringify(body).includes('quiet'));
  expect(asked).toHaveLength(301);
  expect(asked.indexOf(true)).toBeLessThan(150);
});

/** Returns a connection that the gateway has accepted. Node.js accepts one connection per turn, so a new one would be read later. */
async function open(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
  await once(socket, 'data');
  return socket;
}

function rawRequest(key: string, content: string): string {
  const body = JSON.stringify({ model: 'scripted/order', messages: [{ role: 'user', content }] });
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

function medianMs(seen: readonly { readonly tookMs: number }[]): number {
  const times = seen.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
  return times[Math.floor(times.length / 2)] ?? 0;
}

testPeak(gateway);
