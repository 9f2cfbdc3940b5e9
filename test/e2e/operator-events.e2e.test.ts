/** Events of what happens outside of requests, as the operator’s webhook gets them (docs/operations.md), and the closing of an account. */
import { afterAll, expect, test } from 'vitest';
import { Code, ConnectError } from '@connectrpc/connect';
import { FakeClock } from '../fake-clock.ts';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { call, type GroupJson, newKey } from './account-client.ts';
import { ask, complete } from './chat-client.ts';

const frame = (choice: object): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`;
const answer = `${frame({ delta: { role: 'assistant', content: 'Well' } })}${frame({ delta: {}, finish_reason: 'stop' })}data: [DONE]\n\n`;
const answers: Behaviour = socket =>
  void socket.write(Buffer.concat([Buffer.from(streamHead), chunk(answer), Buffer.from(lastChunk)]));
const refuses =
  (status: number): Behaviour =>
  socket =>
    void socket.write(whole(status, '{"error":{"message":"no"}}'));

let behaviour: Behaviour = answers;
const upstream = await RawUpstream.start((socket, request) => behaviour(socket, request));
const provider = (keys: string): string => `{ protocol: chat, base_url: "${upstream.baseUrl}", api_key: ${keys} }`;
const model = (id: string, of: string): string =>
  `{ id: ${id}, context_length: 8000, max_output_tokens: 500, pricing: { input: 1, output: 10 }, routes: [{ provider: ${of}, model: m }] }`;
const config = `simulator: { tokens_per_second: 0 }
webhooks: { allow_private: true }
providers:
  up: ${provider('k')}
  keyed: ${provider('[key-a, key-b]')}
models: [${model('lab/one', 'up')}, ${model('lab/keyed', 'keyed')}]
plans:
  core: { biweekly: { price: 2, tokens: 3000 } }
`;
const day = 86_400_000;
const startMs = Date.now();
const clock = new FakeClock(new Date(startMs).toISOString());
let gateway: Gateway = await startGateway({ config, balance: '10', environment: clock.environment });
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
  clock.remove();
});

/** Restarts the gateway with its clock `days` days ahead. */
async function restartLater(days: number): Promise<void> {
  await gateway.stop();
  clock.set(new Date(startMs + days * day).toISOString());
  gateway = await startGateway({ config, home: gateway.home, environment: clock.environment });
}

// Nothing listens at this address, so events stay in the list of deliveries.
const made = await runInside(gateway, ['webhooks', 'create', '--url', 'http://127.0.0.1:9/', '--json']);
const webhookId = BigInt((made.json as { webhook_id: number }).webhook_id);

/** Returns the events of these types, oldest first. */
async function readEvents(types: readonly string[]): Promise<readonly [string, Record<string, unknown>][]> {
  const { events } = await gateway.admin.listAccountWebhookEvents({ query: { webhookId } });
  const wanted = events.filter(({ type }) => types.includes(type)).toReversed();
  return wanted.map(({ type, dataJson }) => [type, JSON.parse(dataJson) as Record<string, unknown>]);
}

test('the opening and the closing of a route’s circuit breaker are each reported once', async () => {
  behaviour = refuses(500);
  const types = ['route.opened', 'route.closed'];
  const route = { provider: 'up', model: 'lab/one', upstream_model: 'm' };
  // A repeat of the same request would not count as a failure of the route.
  for (let n = 0; n < 5; n++) await complete(gateway, ask(`Hello ${n}`, { model: 'lab/one' }));
  await expect.poll(() => readEvents(types)).toEqual([['route.opened', route]]);
  behaviour = answers;
  clock.set(new Date(Date.now() + 11_000).toISOString());
  expect((await complete(gateway, ask('Hello', { model: 'lab/one' }))).status).toBe(200);
  await expect
    .poll(() => readEvents(types))
    .toEqual([
      ['route.opened', route],
      ['route.closed', route],
    ]);
});

test('a provider’s key that is refused is named by its position in the list of keys', async () => {
  behaviour = refuses(401);
  await complete(gateway, ask('Hello', { model: 'lab/keyed' }));
  behaviour = answers;
  await expect
    .poll(() => readEvents(['provider.key_refused']))
    .toEqual(
      // The last key does not rest, because without it no request could be sent.
      [
        [1, expect.stringMatching(/Z$/)],
        [2, null],
      ].map(([key, rests_until]) => ['provider.key_refused', { provider: 'keyed', key, status: 401, rests_until }]),
    );
});

test('the renewal and the end of a plan are reported, also to the account', async () => {
  const account = await newOwner('10');
  const { account_id, managementKey } = account;
  await call(gateway, 'POST', '/webhooks', { key: managementKey, body: { url: 'http://127.0.0.1:9/own' } });
  await runInside(gateway, ['subscriptions', 'start', account_id, '--plan', 'core', '--period', 'biweekly']);
  const { key } = await newKey(gateway, {}, managementKey);
  const types = ['subscription.renewed', 'subscription.ended'];
  const data = { account_id: Number(account_id), plan: 'core', period: 'biweekly' };
  await restartLater(15);
  expect((await complete(gateway, ask('Hello'), { key })).status).toBe(200);
  const renewed = ['subscription.renewed', { ...data, renews_at: expect.stringMatching(/Z$/) }];
  await expect.poll(() => readEvents(types)).toEqual([renewed]);
  await runInside(gateway, ['subscriptions', 'cancel', account_id]);
  await restartLater(30);
  expect((await complete(gateway, ask('Hello'), { key })).status).toBe(200);
  await expect.poll(() => readEvents(types)).toEqual([renewed, ['subscription.ended', { ...data, renews_at: null }]]);
  const own = await call<{ data: { webhook_id: number }[] }>(gateway, 'GET', '/webhooks', { key: managementKey });
  const events = await call<{ data: { type: string }[] }>(
    gateway,
    'GET',
    `/webhooks/${own.body.data[0]?.webhook_id}/events`,
    { key: managementKey },
  );
  expect(events.body.data.map(({ type }) => type)).toEqual([
    'subscription.ended',
    'subscription.renewed',
    'key.created',
  ]);
});

async function newOwner(dollars: string): Promise<{ account_id: string; managementKey: string }> {
  const { account } = await gateway.admin.createAccount({
    name: 'someone',
    balanceNanoUsd: BigInt(dollars) * 1_000_000_000n,
  });
  const accountId = account?.accountId ?? 0n;
  const scopes = [
    'account:read',
    'account:activity',
    'keys:create',
    'keys:read',
    'groups:write',
    'webhooks:write',
    'webhooks:read',
  ];
  const { key } = await gateway.admin.createManagementKey({ accountId, scopes });
  return { account_id: String(accountId), managementKey: key?.key ?? '' };
}

test('a closed account accepts no more changes, its money moves back to its balance, and a negative credit pays it out', async () => {
  const { account_id, managementKey } = await newOwner('10');
  const group = await call<{ data: GroupJson }>(gateway, 'POST', '/groups', {
    key: managementKey,
    body: { name: 'team', balance: 3 },
  });
  const keys = [
    await newKey(gateway, { balance: 2 }, managementKey),
    await newKey(gateway, { group_id: group.body.data.group_id }, managementKey),
  ];
  for (const { key } of keys) expect((await complete(gateway, ask('Hello'), { key })).status).toBe(200);
  const closed = await runInside(gateway, ['accounts', 'close', account_id, '--json']);
  expect(closed.json).toMatchObject({ closed_at: expect.stringMatching(/Z$/) });
  for (const { key } of keys) {
    const refused = await complete(gateway, ask('Hello'), { key });
    expect([refused.status, refused.body]).toMatchObject([401, { error: { code: 'invalid_api_key' } }]);
  }
  expect((await call(gateway, 'GET', '/keys', { key: managementKey })).status).toBe(401);
  const accountId = BigInt(account_id);
  const { account } = await gateway.admin.getAccount({ accountId });
  const left = account?.balanceNanoUsd ?? 0n;
  const { records } = await gateway.admin.listAccountActivity({ accountId });
  const spent = records.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  expect([records.length, spent > 0n, left]).toEqual([2, true, 10_000_000_000n - spent]);
  // The key's balance has moved back to the account; no more than that can be paid out.
  const pay = (amountNanoUsd: bigint) => gateway.admin.addCredit({ accountId, amountNanoUsd, note: 'paid out' });
  await expect(pay(-left - 1n)).rejects.toThrow(ConnectError);
  expect((await pay(-left)).account?.balanceNanoUsd).toBe(0n);
  await expect(gateway.admin.createApiKey({ accountId, settings: {} })).rejects.toMatchObject({
    code: Code.AlreadyExists,
  });
  const plan = await runInside(gateway, [
    'subscriptions',
    'start',
    account_id,
    '--plan',
    'core',
    '--period',
    'biweekly',
  ]);
  expect([plan.code === 0, plan.stderr]).toEqual([false, expect.stringContaining('closed')]);
  const entries = (await runInside(gateway, ['entries', '--account', account_id, '--json'])).json as {
    data: { kind: string; amount: number }[];
  };
  expect(entries.data[0]).toMatchObject({ kind: 'credit', amount: -Number(left) / 1e9, note: 'paid out' });
  // Closing it again changes nothing.
  expect((await runInside(gateway, ['accounts', 'close', account_id, '--json'])).json).toEqual({
    ...(closed.json as object),
    balance: 0,
  });
});
