import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService, Payer } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { PageCaller } from './page-caller.ts';

let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({ balance: '1', config: 'plans: { core: { free_daily_requests: 0 } }\n' });
});
afterAll(() => endGateway(gateway));

const model = 'sim/large';

async function read(path: string, key = gateway.managementKey) {
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${key}` } });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function makeKey(settings: object) {
  const { key } = await gateway.account.createKey({ settings });
  return { id: key?.apiKeyId ?? 0n, key: key?.key ?? '' };
}

const nextPayment = async (apiKeyId: bigint) =>
  (await gateway.account.getNextPayment({ apiKeyId, model, inputTokens: 1_000 })).payment;

test('a dry run returns what a real admission would hold, and holds nothing', async () => {
  const { id } = await makeKey({ label: 'plain' });
  const before = await gateway.admin.getAccount({ accountId: 1n });
  const payment = await nextPayment(id);
  // 1,000 input tokens at $1 per million, because a plain request does not write to a cache, and a first slice of 1,024 output tokens at $4 per million.
  expect(payment).toMatchObject({
    admitted: true,
    heldNanoUsd: 1_000n * 1_000n + 1_024n * 4_000n,
    outputTokens: 1_024n,
    limits: [],
  });
  expect(payment?.payers).toMatchObject([{ payer: Payer.ACCOUNT, leftNanoUsd: before.account?.balanceNanoUsd }]);
  const after = await gateway.admin.getAccount({ accountId: 1n });
  expect(after.account).toEqual(before.account);
  expect((await gateway.account.listActivity({ apiKeyId: id })).records).toEqual([]);
});

test('the payer is the balance of the key or the group, if there is one, instead of the account’s; too little money gives the same refusal and tip as a real request', async () => {
  const own = await makeKey({ label: 'own', balanceNanoUsd: 10_000n });
  const payment = await nextPayment(own.id);
  expect(payment).toMatchObject({ admitted: false, refusal: 'insufficient_balance' });
  expect(payment?.payers).toMatchObject([{ payer: Payer.KEY_BALANCE, leftNanoUsd: 10_000n }]);
  const real = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${own.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'word '.repeat(1_000) }] }),
  });
  const { error } = (await real.json()) as { error: { code: string; tip: string } };
  expect([error.code, error.tip]).toEqual([payment?.refusal, payment?.tip]);
  const { group } = await gateway.account.createGroup({ settings: { name: 'team', balanceNanoUsd: 50_000_000n } });
  const member = await makeKey({ label: 'member', groupId: group?.groupId });
  expect((await nextPayment(member.id))?.payers).toMatchObject([
    { payer: Payer.GROUP_BALANCE, groupId: group?.groupId, leftNanoUsd: 50_000_000n },
  ]);
});

test('limits are listed in the order in which they are checked, and the refusing one is named', async () => {
  const { id } = await makeKey({ label: 'limited' });
  const scope = { scope: 'key', scopeId: id };
  const usd = { ...scope, unit: 'usd', window: 'day', settings: { maxNanoUsd: 500_000_000n } };
  await gateway.account.createLimit({ limit: usd });
  const none = { ...scope, unit: 'requests', window: 'hour', settings: { max: 0n } };
  const { limit } = await gateway.account.createLimit({ limit: none });
  const payment = await nextPayment(id);
  expect(payment?.limits.map(({ unit }) => unit)).toEqual(['requests', 'usd']);
  expect(payment).toMatchObject({ admitted: false, refusal: 'rate_limit', refusingLimitId: limit?.limitId });
  expect(payment?.limits[0]?.resetsAtMs).toBeGreaterThan(BigInt(Date.now()));
});

test('a plan pays before money, or after it if the key says so; a free model has the payer FREE', async () => {
  const { account } = await gateway.admin.createAccount({ name: 'planned', balanceNanoUsd: 50_000_000_000n });
  const accountId = account?.accountId ?? 0n;
  await gateway.admin.startSubscription({ accountId, plan: 1, period: 1 });
  const readPayers = async (settings: object) => {
    const { key } = await gateway.admin.createApiKey({ accountId, settings });
    const next = { apiKeyId: key?.apiKeyId ?? 0n, model, inputTokens: 1_000 };
    return (await gateway.admin.getKeyNextPayment(next)).payment?.payers.map(({ payer }) => payer);
  };
  expect(await readPayers({})).toEqual([Payer.SUBSCRIPTION, Payer.ACCOUNT]);
  expect(await readPayers({ useSubsFirst: false })).toEqual([Payer.ACCOUNT, Payer.SUBSCRIPTION]);
  expect(await readPayers({ fallbackToPayg: false })).toEqual([Payer.SUBSCRIPTION]);
  const { key } = await gateway.admin.createApiKey({ accountId });
  const apiKeyId = key?.apiKeyId ?? 0n;
  const free = (await gateway.admin.getKeyNextPayment({ apiKeyId, model: 'sim/small:free' })).payment;
  expect(free?.payers).toMatchObject([{ payer: Payer.FREE }]);
  expect(free?.limits.map(({ unit }) => unit)).toEqual(['requests', 'requests']);
});

test('REST, the command line and the dashboard give the same answer; another account gets 404, an unknown model 400', async () => {
  const { id, key } = await makeKey({ label: 'same' });
  const query = `?model=${model}&input_tokens=1000`;
  const rest = await read(`/v1/account/keys/${id}/next${query}`);
  expect(rest).toMatchObject({ status: 200, body: { admitted: true, refusal: null, held: 0.005096 } });
  expect(await read(`/v1/key/next${query}`, key)).toEqual(rest);
  const command = await gateway.cli(['keys', 'next', `${id}`, '--model', model, '--input-tokens', '1000', '--json']);
  expect(command.json).toEqual(rest.body);
  const page = new PageCaller(gateway.url);
  await page.signIn(key);
  const { payment } = await page.client(AccountService).getNextPayment({ own: true, model, inputTokens: 1_000 });
  expect(payment).toEqual(await nextPayment(id));
  const { account } = await gateway.admin.createAccount({ name: 'others', balanceNanoUsd: 0n });
  const others = await gateway.admin.createManagementKey({
    accountId: account?.accountId ?? 0n,
    scopes: ['limits:read'],
  });
  expect((await read(`/v1/account/keys/${id}/next${query}`, others.key?.key)).status).toBe(404);
  expect((await read(`/v1/account/keys/${id}/next?model=nonsense`)).status).toBe(400);
});
