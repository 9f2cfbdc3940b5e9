/** A request gets 503 because its charge is delayed; meanwhile the request is repeated at another gateway. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { type Gateway, heldBy, makeHome, readBalance, startGateway } from '../gateway.ts';
import { createDatabase, type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(() => server.stop());

// The upstream's answer takes two seconds.
const body = JSON.stringify({
  model: 'sim/large',
  messages: [{ role: 'user', content: '!sim tokens=40 tps=20\nTell.' }],
});

async function ask({ url, apiKey }: Gateway, idempotencyKey: string): Promise<Response> {
  const headers = {
    authorization: `Bearer ${apiKey}`,
    'content-type': 'application/json',
    'idempotency-key': idempotencyKey,
  };
  return fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
}

async function startTwo(url: string): Promise<readonly [one: Gateway, other: Gateway]> {
  const config = 'simulator: { steering: true }\nledger: { settle_timeout: 500ms }\n';
  const environment = { TOLLGATE_DATABASE_URL: url };
  const home = makeHome();
  const otherHome = { ...makeHome(), apiKey: home.apiKey, managementKey: home.managementKey };
  const one = await startGateway({ home, config, environment });
  return [one, await startGateway({ home: otherHome, config, environment })];
}

test('a request that got 503 because its charge was delayed is charged once, however early it is repeated at another gateway', async () => {
  const url = await createDatabase(server.url);
  const [one, other] = await startTwo(url);
  const before = await readBalance(other);
  const first = ask(one, 'late');
  await expect.poll(() => heldBy(other)).toBeGreaterThan(0n);
  // The charge waits for this lock.
  const holder = await PostgresConnection.open({ url });
  await holder.script('SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT 1 FROM account FOR UPDATE');
  expect((await first).status).toBe(503);
  const early = await ask(other, 'late');
  await holder.script('COMMIT');
  await holder.end();
  let repeat = early;
  await expect.poll(async () => (repeat = await ask(other, 'late')).status, { timeout: 30_000 }).toBe(200);
  const { usage } = (await repeat.json()) as { usage: { cost: number } };
  await expect.poll(() => heldBy(other)).toBe(0n);
  expect(Number(before - (await readBalance(other)))).toBe(Math.round(usage.cost * 1e9));
  expect((await other.account.listActivity({})).records).toHaveLength(1);
  expect([early.status, await early.text()]).toEqual([409, expect.stringContaining('idempotency_in_progress')]);
  expect((await other.admin.verifyLedger({})).violations).toEqual([]);
  for (const gateway of [one, other]) expect((await gateway.stop()).code).toBe(0);
}, 90_000);
