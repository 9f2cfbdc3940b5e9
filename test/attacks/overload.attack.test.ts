/** A gateway with too much to do (docs/security.md "Overload"). */
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { afterAll, expect, test } from 'vitest';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { attackSize, isFullSize } from './scale.ts';

// Any delay counts as overload: a machine that runs tests is never that idle.
const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\noverload: { loop_lag: 1ms }\n',
  balance: '1000',
});
const calm = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '1000' });
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

/** Sends requests without a pause, a given number at a time, until it is stopped. */
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

test('readiness turns, strangers and accounts over their share are refused with retry-after, and all of it passes', async () => {
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

test('one account with very many requests does not keep the others from being answered', async () => {
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
  // Client and gateway share the machine: how long it takes says little in npm test.
  if (isFullSize) console.log({ aloneMs: alone.medianMs, besideMs: beside.medianMs, loudMs: medianMs(loud) });
}, 300_000);

function medianMs(seen: readonly { readonly tookMs: number }[]): number {
  const times = seen.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
  return times[Math.floor(times.length / 2)] ?? 0;
}
