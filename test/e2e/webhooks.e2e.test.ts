/** Webhooks, from the event to the receiver that verifies it (docs/interfaces/account.md "Webhooks"). */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { clockAhead } from '../fake-clock.ts';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, makeKey, root, startGateway } from '../gateway.ts';
import { call, type GroupJson, type LimitJson, newAccount, newKey } from './account-client.ts';
import { ask, complete } from './chat-client.ts';
import { killAroundDelivery } from './webhook-kills.ts';
import { WebhookReceiver } from './webhook-receiver.ts';

const config = 'simulator: { tokens_per_second: 0 }\nwebhooks: { allow_private: true }\n';
const clock = clockAhead(0);
const gateway = await startGateway({ config, balance: '10', environment: clock.environment });
const receiver = new WebhookReceiver();
await receiver.open();
afterAll(async () => {
  await receiver.close();
  await endGateway(gateway);
  clock.remove();
});

// Made before the first webhook, with which the gateway begins to look for such keys, at once and then every 30 s.
const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString();
const expiring = {
  week: (await newKey(gateway, { expires_at: inHours(100) })).api_key_id,
  day: (await newKey(gateway, { expires_at: inHours(10) })).api_key_id,
  later: (await newKey(gateway, { expires_at: inHours(1000) })).api_key_id,
};

interface WebhookJson {
  readonly webhook_id: number;
  readonly url: string;
  readonly events: readonly string[];
  readonly secret?: string;
  readonly disabled: boolean;
}

interface EventJson {
  readonly event_id: string;
  readonly type: string;
  readonly state: string;
  readonly attempts: number;
  readonly status: number | null;
  readonly error: string | null;
}

const hello = ask('Hello\n!sim tokens=3');
let hook: WebhookJson;

async function make(body: object): Promise<WebhookJson> {
  const { body: made, status } = await call<{ data: WebhookJson }>(gateway, 'POST', '/webhooks', { body });
  expect(status).toBe(200);
  return made.data;
}

const listEvents = async (query = ''): Promise<readonly EventJson[]> =>
  (await call<{ data: EventJson[] }>(gateway, 'GET', `/webhooks/${hook.webhook_id}/events${query}`)).body.data;

beforeEach(async () => {
  if (hook !== undefined) await call(gateway, 'DELETE', `/webhooks/${hook.webhook_id}`);
  Object.assign(receiver, { received: [], mood: 'well', attempts: 0 });
  hook = await make({ url: receiver.url });
  receiver.secret = hook.secret ?? '';
});

test('a key that expires soon is reported once', async () => {
  const isExpiring = ({ type }: { readonly type: string }): boolean => type === 'key.expiring';
  await expect.poll(() => receiver.received.filter(isExpiring).length, { timeout: 45_000 }).toBe(2);
  const delivered = receiver.received.filter(isExpiring).map(({ data }) => [data['api_key_id'], data['days']]);
  expect(delivered.toSorted(([a], [b]) => Number(a) - Number(b))).toEqual([
    [expiring.week, 7],
    [expiring.day, 1],
  ]);
});

test('a webhook is made with a secret that is shown once, listed, changed and deleted', async () => {
  expect(hook).toMatchObject({ url: receiver.url, disabled: false, secret: expect.stringMatching(/^whsec_.{44}$/) });
  expect(hook.events).toContain('limit.threshold');
  const { secret: _, ...shown } = hook;
  const list = await call<{ data: WebhookJson[] }>(gateway, 'GET', '/webhooks');
  expect(list.body.data).toEqual([shown]);
  const patch = { events: ['key.revoked', 'key.created'], disabled: true };
  const changed = await call<{ data: WebhookJson }>(gateway, 'PATCH', `/webhooks/${hook.webhook_id}`, { body: patch });
  expect(changed.body.data).toEqual({ ...shown, events: ['key.created', 'key.revoked'], disabled: true });
  await newKey(gateway, { label: 'no webhook' });
  expect(await listEvents()).toEqual([]);
  const gone = await call(gateway, 'DELETE', `/webhooks/${hook.webhook_id}`);
  expect([gone.status, gone.body]).toEqual([200, { message: 'Webhook successfully deleted.' }]);
  expect((await call(gateway, 'GET', `/webhooks/${hook.webhook_id}`)).status).toBe(404);
  expect((await call(gateway, 'GET', `/webhooks/${hook.webhook_id}/events`)).status).toBe(404);
});

test.each([
  [{}, 'url'],
  [{ url: 'ftp://a.example/' }, 'url'],
  [{ url: 'no address' }, 'url'],
  [{ url: 'https://user:word@a.example/' }, 'url'],
  [{ url: 'https://a.example/', events: [] }, 'events'],
  [{ url: 'https://a.example/', events: ['route.opened'] }, 'events.0'],
  [{ url: 'https://a.example/', colour: 'red' }, 'colour'],
])('a bad webhook is refused with 422, and the error names its field: %j', async (body, field) => {
  const reply = await call(gateway, 'POST', '/webhooks', { body });
  expect([reply.status, reply.body.detail.map(({ loc }) => loc.slice(1).join('.'))]).toEqual([422, [field]]);
});

test('each change of keys, limits and balances is delivered once, in the order in which it happened', async () => {
  const { key, id } = await makeKey(gateway);
  const group = (await call<{ data: GroupJson }>(gateway, 'POST', '/groups', { body: { name: 'g' } })).body.data;
  await call(gateway, 'PATCH', `/keys/${id}`, { body: { group_id: group.group_id } });
  const limit = { scope: { type: 'key', id: Number(id) }, unit: 'requests', window: 'day', max: 5 };
  const { limit_id } = (await call<{ data: LimitJson }>(gateway, 'POST', '/limits', { body: limit })).body.data;
  for (let n = 0; n < 7; n++) await complete(gateway, hello, { key });
  await call(gateway, 'POST', `/keys/${id}/rotate`, { body: { overlap_seconds: 60 } });
  await call(gateway, 'DELETE', `/keys/${id}`);
  const events = await receiver.expectTypes([
    'key.created',
    'limit.threshold',
    'limit.threshold',
    'key.rotated',
    'key.revoked',
  ]);
  const [created, first, second] = events;
  expect(created?.data).toMatchObject({ api_key_id: Number(id), account_id: 1, key: expect.stringContaining('…') });
  expect(first?.data).toMatchObject({ limit_id, threshold: 80, used: 4, max: 5, unit: 'requests', window: 'day' });
  expect(second?.data).toMatchObject({ limit_id, threshold: 100, used: 5 });
  expect(new Date(first?.timestamp ?? '').getTime()).toBeGreaterThan(Date.now() - 60_000);
  expect(JSON.stringify(events)).not.toContain(key.slice(12, 40));
  expect((await listEvents('?state=delivered')).map(({ event_id }) => event_id)).toEqual(
    events.map(event => event.id).toReversed(),
  );
});

test('a limit with the action `alert` refuses no request and sends its events', async () => {
  const { key, id } = await makeKey(gateway);
  const limit = {
    scope: { type: 'key', id: Number(id) },
    unit: 'usd',
    window: 'total',
    max: 0.000_01,
    action: 'alert',
  };
  await call(gateway, 'POST', '/limits', { body: limit });
  for (let n = 0; n < 3; n++) expect((await complete(gateway, ask('Hello\n!sim tokens=20'), { key })).status).toBe(200);
  const events = await receiver.expectTypes(['key.created', 'limit.threshold', 'limit.threshold']);
  expect(events.slice(1).map(({ data }) => [data['threshold'], data['unit']])).toEqual([
    [80, 'usd'],
    [100, 'usd'],
  ]);
});

test('a balance that falls below the configured threshold is reported, and again once it was above it', async () => {
  const key = await newKey(gateway, { balance: 1, low_balance: 0.5 });
  expect(key).toMatchObject({ low_balance: 0.5 });
  const set = (balance: number) => call(gateway, 'PATCH', `/keys/${key.api_key_id}`, { body: { balance } });
  for (const balance of [0.6, 0.4, 0.3, 2, 0.1]) await set(balance);
  expect((await call(gateway, 'PATCH', '/settings', { body: { low_balance: 9 } })).body).toMatchObject({
    data: { low_balance: 9 },
  });
  await newKey(gateway, { balance: 2 });
  const isLow = ({ type }: { readonly type: string }): boolean => type === 'balance.low';
  await expect.poll(() => receiver.received.filter(isLow).length, { timeout: 15_000 }).toBe(3);
  // Scopes are compared separately, because only events of the same scope are in order.
  const of = ({ data }: { readonly data: Readonly<Record<string, unknown>> }): number => ('api_key_id' in data ? 0 : 1);
  const events = receiver.received.filter(isLow).toSorted((a, b) => of(a) - of(b));
  expect(events.map(({ data }) => [data['scope'], data['balance'], data['low_balance']])).toEqual([
    [{ type: 'key', id: key.api_key_id }, 0.4, 0.5],
    [{ type: 'key', id: key.api_key_id }, 0.1, 0.5],
    [{ type: 'account', id: 1 }, expect.any(Number), 9],
  ]);
  await call(gateway, 'PATCH', '/settings', { body: { low_balance: null } });
});

test('if the receiver fails, closes the connection, redirects or is down, the delivery is tried again with the same id, and later events of its scope wait', async () => {
  const { api_key_id: id } = await newKey(gateway, {});
  await receiver.expectTypes(['key.created']);
  receiver.mood = 'failing';
  await call(gateway, 'POST', `/keys/${id}/rotate`, { body: {} });
  await expect.poll(() => receiver.attempts).toBe(2);
  expect((await listEvents('?state=pending'))[0]).toMatchObject({ type: 'key.rotated', state: 'pending' });
  await call(gateway, 'DELETE', `/keys/${id}`);
  const startedMs = Date.now();
  receiver.mood = 'redirecting';
  // After four seconds; the next pause is 25 s.
  await expect.poll(() => receiver.attempts, { timeout: 20_000 }).toBe(3);
  expect(Date.now() - startedMs).toBeLessThan(6_000);
  expect(receiver.received.map(({ type }) => type)).toEqual(['key.created', 'key.rotated', 'key.rotated']);
  await receiver.close();
  // An operator who has repaired the receiver does not have to wait for the next attempt.
  await receiver.open();
  receiver.mood = 'well';
  const [waiting] = (await listEvents('?state=pending')).filter(({ type }) => type === 'key.rotated');
  expect(waiting).toMatchObject({ attempts: 2, status: 307, error: 'the receiver answered 307' });
  const replayed = await call(
    gateway,
    'POST',
    `/webhooks/${hook.webhook_id}/events/${waiting?.event_id ?? ''}/replay`,
    { body: {} },
  );
  expect(replayed.status).toBe(200);
  const events = await receiver.expectTypes(['key.created', 'key.rotated', 'key.revoked']);
  expect(new Set(receiver.received.filter(({ type }) => type === 'key.rotated').map(each => each.id)).size).toBe(1);
  // A delivered event can be delivered again on request.
  const before = receiver.received.length;
  await call(gateway, 'POST', `/webhooks/${hook.webhook_id}/events/${events[0]?.id ?? ''}/replay`);
  await expect.poll(() => receiver.received.length, { timeout: 15_000 }).toBe(before + 1);
  expect(receiver.received.at(-1)).toMatchObject({ id: events[0]?.id, type: 'key.created', data: events[0]?.data });
});

test('a receiver that hangs is cut off after ten seconds, and does not delay other scopes', async () => {
  receiver.mood = 'hanging';
  const first = await newKey(gateway, {});
  await expect.poll(() => receiver.attempts).toBe(1);
  receiver.mood = 'well';
  await newKey(gateway, {});
  await expect.poll(() => receiver.received.length).toBe(2);
  await expect.poll(async () => (await listEvents('?state=delivered')).length).toBe(1);
  // The first attempt is cut off; the pause before the next one is skipped.
  const hung = async () => (await listEvents()).find(({ event_id }) => event_id === receiver.received[0]?.id);
  await expect
    .poll(hung, { timeout: 20_000 })
    .toMatchObject({ state: 'pending', attempts: 1, error: expect.any(String) });
  clock.set(new Date(Date.now() + 10_000).toISOString());
  await expect.poll(hung).toMatchObject({ state: 'delivered', attempts: 2 });
  expect(receiver.received.filter(({ data }) => data['api_key_id'] === first.api_key_id)).toHaveLength(2);
});

test('a gateway that is killed around a delivery delivers after its next start, each event always with the same id', async () => {
  expect(await killAroundDelivery(3)).toMatchObject({ events: 3 });
}, 120_000);

test('the operator’s webhook gets the events of all accounts, and an account’s webhook only those of the account', async () => {
  const own = new WebhookReceiver();
  await own.open();
  const made = await runInside(gateway, [
    'webhooks',
    'create',
    '--url',
    own.url,
    '--events',
    'key.created,route.opened,route.closed',
    '--json',
  ]);
  own.secret = (made.json as { secret: string }).secret;
  const { accountId, managementKey } = await newAccount(gateway, 1);
  await newKey(gateway, { label: 'theirs' }, managementKey);
  const [event] = await own.expectTypes(['key.created']);
  expect(event?.data).toMatchObject({ account_id: Number(accountId), label: 'theirs' });
  expect(receiver.received).toEqual([]);
  const webhookId = String((made.json as { webhook_id: number }).webhook_id);
  const listed = (await runInside(gateway, ['webhooks', 'events', webhookId, '--json'])).json as { data: EventJson[] };
  expect(listed.data).toMatchObject([{ event_id: event?.id, state: 'delivered', attempts: 1, status: 204 }]);
  const key = managementKey;
  for (const [method, path] of [
    ['GET', `/webhooks/${webhookId}`],
    ['GET', `/webhooks/${hook.webhook_id}/events`],
    ['PATCH', `/webhooks/${hook.webhook_id}`],
    ['DELETE', `/webhooks/${hook.webhook_id}`],
    ['POST', `/webhooks/${hook.webhook_id}/events/${event?.id ?? ''}/replay`],
  ] as const) {
    const options = method === 'PATCH' ? { key, body: { disabled: true } } : { key };
    expect([method, path, (await call(gateway, method, path, options)).status]).toEqual([method, path, 404]);
  }
  await runInside(gateway, ['webhooks', 'delete', webhookId]);
  await own.close();
});

test('the example receiver verifies and prints events', async () => {
  const child = spawn(process.execPath, [join(root, 'examples/webhooks/receiver.ts')], {
    env: { PATH: process.env['PATH'] ?? '', PORT: '0', WEBHOOK_SECRET: hook.secret ?? '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const printed = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (printed.err += text));
  try {
    await expect.poll(() => /listening on (\d+)/.exec(printed.err)?.[1]).toBeDefined();
    const port = /listening on (\d+)/.exec(printed.err)?.[1];
    const url = `http://127.0.0.1:${port}/`;
    expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(401);
    await call(gateway, 'PATCH', `/webhooks/${hook.webhook_id}`, { body: { url } });
    const { api_key_id } = await newKey(gateway, { label: 'printed' });
    await expect.poll(() => printed.out).toContain('"type":"key.created"');
    expect(JSON.parse(printed.out)).toMatchObject({ type: 'key.created', data: { api_key_id, label: 'printed' } });
  } finally {
    child.kill();
  }
});
