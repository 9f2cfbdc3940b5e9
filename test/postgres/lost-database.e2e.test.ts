/** The database becomes unreachable in the middle of answers that are stored in it, and comes back (docs/operations.md "When storage fails"). */
import { rmSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Gateway, heldBy, makeHome, readBalance, runCommand, startGateway } from '../gateway.ts';
import { type PostgresServer, startPostgres } from './server.ts';

let server: PostgresServer;
let gateway: Gateway;
/** How long the database is unreachable, in ms: longer than a few quick retries, because the end of a background response must be stored again until the database is back. */
const goneMs = 8_000;

beforeAll(async () => {
  server = await startPostgres();
  gateway = await startGateway({
    home: makeHome(),
    config: 'ledger: { settle_timeout: 1s }\n',
    environment: { TOLLGATE_DATABASE_URL: server.url },
  });
}, 90_000);

afterAll(async () => {
  expect((await gateway.stop()).code).toBe(0);
  const verified = await runCommand(gateway.home, ['ledger', 'verify'], { TOLLGATE_DATABASE_URL: server.url });
  expect([verified.code, verified.stderr]).toEqual([0, expect.any(String)]);
  await server.stop();
  rmSync(gateway.home.folder, { recursive: true, force: true });
});

const authorization = (): string => `Bearer ${gateway.apiKey}`;

async function post(path: string, body: object): Promise<Response> {
  const headers = { authorization: authorization(), 'content-type': 'application/json' };
  return fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function read(path: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(gateway.url + path, { headers: { authorization: authorization() } });
  return { status: answer.status, text: await answer.text() };
}

async function readState(path: string): Promise<string> {
  return (JSON.parse((await read(path)).text) as { status: string }).status;
}

test('afterwards acknowledged answers can be read, interrupted ones end without a restart, and nothing stays held', async () => {
  const input = '!sim tokens=600 tps=150\nx';
  const stored: { id: string; text: string }[] = [];
  for (let count = 0; count < 5; count += 1) {
    const answer = (await (await post('/v1/responses', { model: 'sim/large', input: `Say ${count}.` })).json()) as {
      id: string;
      output: { content: { text: string }[] }[];
    };
    stored.push({ id: answer.id, text: answer.output[0]?.content[0]?.text ?? 'none' });
  }
  const background = (await (await post('/v1/responses', { model: 'sim/large', input, background: true })).json()) as {
    id: string;
  };
  const follower = read(`/v1/responses/${background.id}?stream=true`);
  const { task_id: task } = (await (
    await post('/v1/images/generations', {
      model: 'sim/image',
      size: '64x64',
      async: true,
      prompt: '!sim delay_ms=1000\nx',
    })
  ).json()) as { task_id: string };
  const streams = await Promise.all(
    Array.from({ length: 4 }, () => post('/v1/responses', { model: 'sim/large', input, stream: true })),
  );
  const texts = streams.map(each => each.text());
  await wait(500);
  await server.crash();
  // Stored answers can't be read and no request is accepted; the error says to try again.
  expect((await read(`/v1/responses/${stored[0]?.id}`)).status).toBe(503);
  expect((await post('/v1/responses', { model: 'sim/large', input: 'x' })).status).toBe(503);
  await wait(goneMs);
  await server.start();
  await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).status, { timeout: 20_000 }).toBe(200);

  for (const { id, text } of stored) {
    const { status, text: resource } = await read(`/v1/responses/${id}`);
    expect([status, resource.includes(JSON.stringify(text).slice(1, -1))]).toEqual([200, true]);
  }
  const ends = /^(completed|failed|incomplete)$/;
  await expect.poll(() => readState(`/v1/responses/${background.id}`), { timeout: 40_000 }).toMatch(ends);
  await expect.poll(() => readState(`/v1/images/tasks/${task}`), { timeout: 40_000 }).toMatch(ends);
  expect((await follower).text).toMatch(/event: (response\.(completed|failed|incomplete)|error)\n/);
  for (const text of await Promise.all(texts)) {
    // A stream always ends with its last event or an error, and what it reports as stored can be read.
    const [, end = 'none'] =
      /event: (response\.(?:completed|incomplete|failed)|error)\n(?![\s\S]*event: )/.exec(text) ?? [];
    expect(['response.completed', 'response.incomplete', 'response.failed', 'error']).toContain(end);
    const [, id = ''] = /"id":"(resp_\w+)"/.exec(text) ?? [];
    if (end === 'response.completed') expect((await read(`/v1/responses/${id}`)).status).toBe(200);
  }
  await expect.poll(() => heldBy(gateway), { timeout: 40_000 }).toBe(0n);
  const { records } = await gateway.account.listActivity({ limit: 100 });
  const charged = records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  expect(10_000_000_000n - (await readBalance(gateway))).toBe(charged);
  expect((await post('/v1/responses', { model: 'sim/large', input: 'Again.' })).status).toBe(200);
}, 180_000);
