/** Clients that do not read the answers that they requested (docs/security.md "Connections"). */
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { createAccount, endGateway, heldBy, startGateway } from '../gateway.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\nlimits: { stall_timeout: 3s, address_requests: 8 }\n',
  balance: '1000',
  // Without this limit V8 collects garbage so late that the memory of the process means nothing.
  environment: { NODE_OPTIONS: `--max-old-space-size=${attackSize(800, 256)}` },
});
afterAll(() => endGateway(gateway));
const { hostname, port } = new URL(gateway.url);
const mebibyte = 1024 ** 2;

/** Sends a request whose answer is never read. */
function askUnread(body: object, { url, apiKey: key } = gateway): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).pause();
  const text = JSON.stringify(body);
  socket.on('error', () => undefined);
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
  return socket;
}

/** Returns the resident memory of the gateway's process, in bytes. */
function residentBytes(): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]) * 1024;
}

/** Returns the CPU time that a process has taken, in ticks of 10 ms. */
function cpuTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

const long = { model: 'sim/small', messages: [{ role: 'user', content: '!sim tokens=4000' }], stream: true };

test('streams that no client reads take little memory; after the stall timeout they end and release their holds', async () => {
  const count = attackSize(1000, 30);
  const sockets = Array.from({ length: count }, () => askUnread({ ...long, n: 64 }));
  await expect.poll(() => heldBy(gateway), { timeout: 30_000 }).toBeGreaterThan(0n);
  await sleep(2000);
  expect(residentBytes()).toBeLessThan(attackSize(1000, 503) * mebibyte);
  await expect.poll(() => heldBy(gateway), { timeout: attackSize(300_000, 150_000) }).toBe(0n);
  for (const socket of sockets) socket.destroy();
}, 400_000);

test('an account can’t fill the gateway’s heap with answers that it does not read', async () => {
  const small = await startGateway({
    config: 'simulator: { tokens_per_second: 0 }\n',
    balance: '10000',
    environment: { NODE_OPTIONS: `--max-old-space-size=${attackSize(800, 256)}` },
  });
  const sockets = Array.from({ length: attackSize(3000, 200) }, () => askUnread({ ...long, n: 64 }, small));
  // Ends earlier once the gateway has computed nothing for three seconds: then no memory can grow either.
  let quiet = 0;
  for (let turn = 0; turn < attackSize(40, 12) && quiet < 3; turn += 1) {
    const before = cpuTicks(small.pid);
    await sleep(1000);
    expect((await fetch(`${small.url}/healthz`)).status).toBe(200);
    quiet = cpuTicks(small.pid) - before <= 2 ? quiet + 1 : 0;
  }
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => heldBy(small), { timeout: 60_000 }).toBe(0n);
  await endGateway(small);
}, 150_000);

test('choices beyond the number that an account may run at once are refused until others have ended', async () => {
  const few = await startGateway({ config: 'limits: { account_running_choices: 130, running_choices: 200 }\n' });
  const other = await createAccount(few, '10');
  const answers: Promise<string>[] = [];
  // Three seconds at 200 tokens a second: on a busy machine the first answer must not have ended when the third is requested.
  const ask = async (n: number, key = few.apiKey, tokens = 600): Promise<number> => {
    const response = await fetch(`${few.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...long, max_tokens: tokens, n }),
    });
    if (response.status === 503) expect(await response.json()).toMatchObject({ error: { code: 'overloaded' } });
    else answers.push(response.text());
    return response.status;
  };
  expect([await ask(65), await ask(65), await ask(1)]).toEqual([200, 200, 503]);
  expect([await ask(64, other), await ask(8, other)]).toEqual([200, 503]);
  await Promise.all(answers);
  await expect.poll(() => ask(128, few.apiKey, 20)).toBe(200);
  await Promise.all(answers);
  await endGateway(few);
});

test('a client that reads slowly is not cut', async () => {
  const socket = askUnread({ ...long, n: 4 });
  let bytes = 0;
  socket.on('data', (data: Buffer) => (bytes += data.length));
  for (let turn = 0; turn < 10; turn += 1) {
    socket.resume();
    await sleep(20);
    socket.pause();
    await sleep(500);
  }
  socket.resume();
  await expect.poll(() => bytes, { timeout: 20_000 }).toBeGreaterThan(mebibyte);
  socket.destroy();
});

test('too many connections without a key from one address are closed at once', async () => {
  const closedAfterMs = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined).resume();
      const began = performance.now();
      socket.write(
        'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-tg-none\r\ncontent-type: application/json\r\ncontent-length: 900000\r\n\r\n',
      );
      await once(socket, 'close');
      return performance.now() - began;
    }),
  );
  // The eight that are answered are cut after two seconds.
  expect(closedAfterMs.filter(ms => ms > 1_900).length).toBe(8);
});

testPeak(gateway);
