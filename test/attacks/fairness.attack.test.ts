/**
 * Whatever one client does, a small request of another account is answered rightly, and costs it little of the gateway's time: each kind of client of `abuse.ts`, beside a small request and a `/healthz` on a new connection.
 * All bounds are CPU time of the gateway, which does not depend on what else the machine does. Source: docs/security.md "What one client can cost the others".
 */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { createAccount, endGateway, startGateway } from '../gateway.ts';
import { type AbuseTarget, kinds } from './abuse.ts';
import { LoopHolds } from './loop-holds.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

/** The most CPU time of the gateway's main thread while a small request waits, in ms: for 95 % of them, and for each. */
const usualMs = 250;
const worstMs = 500;
/** The most CPU time of one turn of the event loop, collections of memory included. */
const turnMs = 150;
const rounds = attackSize(60, 12);

const provider = spawn(process.execPath, [join(import.meta.dirname, 'fast-provider.ts')], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
afterAll(() => void provider.kill('SIGKILL'));
const [printed] = (await once(provider.stdout, 'data')) as [Buffer];
const holds = new LoopHolds();
const folder = mkdtempSync(join(tmpdir(), 'tollgate-waits-'));
afterAll(() => rmSync(folder, { recursive: true }));
const waitsFile = join(folder, 'waits');
const recorder = join(import.meta.dirname, 'record-waits.mjs');
const gateway = await startGateway({
  balance: '1000000',
  environment: {
    ...holds.environment(`--max-old-space-size=800 --import ${recorder}`),
    RECORD_WAITS_FILE: waitsFile,
    TOLLGATE_WORKERS: '1',
  },
  config: `
retries: 0
simulator: { tokens_per_second: 0 }
overload: { loop_lag: 60s, heap: 1 }
providers:
  fast: { protocol: chat, base_url: "http://127.0.0.1:${printed.toString().trim()}/v1", api_key: x }
models:
  - { id: fast/model, pricing: { input: 0.001, output: 0.001 }, routes: [{ provider: fast, model: words }] }
  - { id: letters/model, pricing: { input: 0.001, output: 0.001 }, routes: [{ provider: fast, model: letters }] }
`,
});
afterAll(() => endGateway(gateway));
const victim = await createAccount(gateway, '1000');
const agent = new Agent({ connections: 1, pipelining: 1 });

async function askSmall(): Promise<void> {
  const headers = { authorization: `Bearer ${victim}`, 'content-type': 'application/json', 'x-measured': '1' };
  const body = JSON.stringify({ model: 'sim/small', messages: [{ role: 'user', content: '!sim say=four' }] });
  const reply = await request(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body,
    dispatcher: agent,
  });
  const answer = (await reply.body.json()) as { choices: { message: { content: string } }[] };
  expect([reply.statusCode, answer.choices[0]?.message.content]).toEqual([200, 'four']);
}

// The first request loads the tokenizer.
await askSmall();

/** Asks `/healthz` on a new connection. */
async function askHealth(): Promise<void> {
  const own = new Agent({ connections: 1 });
  const reply = await request(`${gateway.url}/healthz`, { dispatcher: own, headers: { 'x-measured': '1' } });
  expect([reply.statusCode, await reply.body.json()]).toEqual([200, { status: 'ok' }]);
  await own.close();
}

async function runKind(kind: string): Promise<{ readonly waits: number[]; readonly turn: number }> {
  const apiKey = await createAccount(gateway, '1000');
  const target: AbuseTarget = { url: gateway.url, rpcUrl: gateway.rpcUrl, apiKey, scale: attackSize(5, 1) };
  const abuser = fork(join(import.meta.dirname, 'abuse.ts'), [kind], {
    env: { ...process.env, ABUSE_TARGET: JSON.stringify(target) },
    execArgv: [],
  });
  onTestFinished(() => void abuser.kill('SIGKILL'));
  // Until its connections are open and its first answers have come.
  await sleep(attackSize(2_000, 500));
  const sinceMs = Date.now();
  writeFileSync(waitsFile, '');
  for (let round = 0; round < rounds; round += 1) {
    await askSmall();
    await askHealth();
  }
  expect(abuser.exitCode).toBe(null);
  const exited = once(abuser, 'exit');
  abuser.kill('SIGKILL');
  await exited;
  const turn = await holds.longest(gateway.url, sinceMs);
  const waits = readFileSync(waitsFile, 'utf8').split('\n').slice(0, -1).map(Number);
  expect(waits).toHaveLength(2 * rounds);
  return { waits: waits.toSorted((a, b) => a - b), turn };
}

test.for(Object.keys(kinds))('a client that %s delays no other', { timeout: 120_000 }, async kind => {
  const { waits, turn } = await runKind(kind);
  const usual = waits[Math.ceil(waits.length * 0.95) - 1];
  const worst = waits.at(-1);
  if (process.env['ATTACK_SHOW'] !== undefined) console.log(kind, { usual, worst, turn });
  expect(usual).toBeLessThan(usualMs);
  expect(worst).toBeLessThan(worstMs);
  expect(turn).toBeLessThan(turnMs);
});

test('twenty kinds at least were tried', () => {
  expect(Object.keys(kinds).length).toBeGreaterThanOrEqual(20);
});

testPeak(gateway);
