/** Two gateways on one PostgreSQL, as their operator starts them. */
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Gateway, makeHome, readBalance, runCommand, startGateway } from '../gateway.ts';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { WebhookReceiver } from '../e2e/webhook-receiver.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { type PostgresServer, startPostgres } from './server.ts';

let server: PostgresServer;
let gateways: Gateway[];
const config = 'metrics: public\nwebhooks: { allow_private: true }\n';

beforeAll(async () => {
  server = await startPostgres();
  const environment = { TOLLGATE_DATABASE_URL: server.url };
  const home = makeHome();
  // The second gateway has the same keys as the first one, whose start made them.
  const other = { ...makeHome(), apiKey: home.apiKey, managementKey: home.managementKey };
  const first = await startGateway({ home, config, environment });
  gateways = [first, await startGateway({ home: other, config, environment })];
}, 90_000);

afterAll(async () => {
  const ends = await Promise.all(gateways.map(gateway => gateway.stop()));
  expect(ends.map(({ code }) => code)).toEqual([0, 0]);
  const [{ home } = { home: makeHome() }] = gateways;
  const verified = await runCommand(home, ['ledger', 'verify'], { TOLLGATE_DATABASE_URL: server.url });
  expect([verified.code, verified.stderr]).toEqual([0, expect.any(String)]);
  await server.stop();
  for (const gateway of gateways) rmSync(gateway.home.folder, { recursive: true, force: true });
});

async function generate({ url }: Gateway, key: string): Promise<Response> {
  const body = JSON.stringify({ model: 'sim/large', messages: [{ role: 'user', content: 'Hello' }] });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
}

/** Repeats a request while the gateway says that it can't write the ledger in time, which happens on a busy machine as long as database and gateways are cold; such an answer is free. */
async function generateAgain(gateway: Gateway, key: string): Promise<Response> {
  for (let tries = 1; ; tries += 1) {
    const answer = await generate(gateway, key);
    if (answer.status !== 503 || tries === 5) return answer;
  }
}

test('charges of one gateway are visible at the other; a key that one makes works at the other until it is revoked at either', async () => {
  const [one, two] = gateways as [Gateway, Gateway];
  const before = await readBalance(two);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) => generateAgain(index % 2 === 0 ? one : two, one.apiKey)),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
  expect(await readBalance(two)).toBeLessThan(before);
  expect(await readBalance(one)).toBe(await readBalance(two));
  const { key } = await one.admin.createApiKey({ accountId: 1n });
  expect((await generate(two, key?.key ?? '')).status).toBe(200);
  await one.admin.setApiKeyState({ apiKeyId: key?.apiKeyId ?? 0n, state: KeyState.REVOKED });
  expect((await generate(two, key?.key ?? '')).status).toBe(401);
  const { records } = await two.account.listActivity({});
  expect(records).toHaveLength(21);
});

test('the storage shows the database, and a running gateway verifies its ledger', async () => {
  const [one] = gateways as [Gateway, Gateway];
  const storage = await one.admin.getStorage({});
  expect(storage.engine).toBe('postgres');
  expect(storage.parts.find(({ name }) => name === 'database')?.bytes).toBeGreaterThan(1_000_000n);
  expect((await one.admin.verifyLedger({})).violations).toEqual([]);
});

test('both gateways show the age of the oldest snapshot of the database', async () => {
  const ages = () =>
    Promise.all(
      gateways.map(async ({ url }) => {
        const page = await (await fetch(`${url}/metrics`)).text();
        return Number(/^tollgate_database_oldest_snapshot_seconds (\S+)$/m.exec(page)?.[1]);
      }),
    );
  const connection = await PostgresConnection.open({ url: server.url });
  // For the role of the gateways, sessions that idle in a transaction are ended after five seconds.
  await connection.script(
    'SET idle_in_transaction_session_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1',
  );
  await expect.poll(async () => Math.min(...(await ages())), { timeout: 15_000 }).toBeGreaterThan(1);
  await connection.end();
  await expect.poll(ages, { timeout: 15_000 }).toEqual([0, 0]);
});

test('while the database is stopped, both gateways answer 503 within 5 s and are alive but not ready; they recover by themselves', async () => {
  const [one, two] = gateways as [Gateway, Gateway];
  await server.crash();
  const startedAtMs = performance.now();
  const refused = await Promise.all([generate(one, one.apiKey), generate(two, one.apiKey)]);
  expect(performance.now() - startedAtMs).toBeLessThan(5000);
  expect(refused.map(({ status }) => status)).toEqual([503, 503]);
  expect(refused.map(({ headers }) => headers.has('retry-after'))).toEqual([true, true]);
  const readiness = async () => (await fetch(`${one.url}/readyz`)).status;
  await expect.poll(readiness, { timeout: 10_000 }).toBe(503);
  expect((await fetch(`${one.url}/healthz`)).status).toBe(200);
  await server.start();
  await expect.poll(readiness, { timeout: 15_000 }).toBe(200);
  await expect.poll(async () => (await generate(two, one.apiKey)).status, { timeout: 15_000 }).toBe(200);
});

test('the start of an older version fails with exit code 2, and a start that can’t reach the database with 1', async () => {
  const connection = await PostgresConnection.open({ url: server.url });
  await connection.query("UPDATE schema_version SET version = version + 1 WHERE part = 'ledger'");
  const home = makeHome();
  const refused = await runCommand(home, ['serve'], { TOLLGATE_DATABASE_URL: server.url });
  await connection.query("UPDATE schema_version SET version = version - 1 WHERE part = 'ledger'");
  await connection.end();
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('was written by a newer Tollgate')]);
  const unreachable = await runCommand(home, ['serve'], {
    TOLLGATE_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
  });
  expect([unreachable.code, unreachable.stderr]).toEqual([1, expect.stringContaining('PostgreSQL can’t be reached')]);
  rmSync(home.folder, { recursive: true, force: true });
});

test('events reach the first webhook, through whichever gateway it was created, and none is sent twice', async () => {
  const receiver = new WebhookReceiver();
  await receiver.open();
  // Both gateways were started while there was no webhook. The first one delivers the events of both.
  for (const gateway of gateways.toReversed()) {
    const { webhook } = await gateway.account.createWebhook({ settings: { url: receiver.url } });
    receiver.secret = webhook?.secret ?? '';
    await gateway.admin.createApiKey({ accountId: 1n });
    await receiver.expectTypes(['key.created']);
    await gateway.account.deleteWebhook({ webhookId: webhook?.webhookId ?? 0n });
    receiver.received.length = 0;
  }
  await receiver.close();
});
