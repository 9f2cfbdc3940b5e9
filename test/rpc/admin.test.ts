import { afterAll, beforeAll, expect, test } from 'vitest';
import { KeyState, Plan, PlanPeriod } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { type ControlPlane, dollar, catchRefusal, startControlPlane } from './control-plane.ts';

let plane: ControlPlane;
beforeAll(async () => {
  plane = await startControlPlane();
});
afterAll(() => plane.close());

async function newAccount(balanceNanoUsd = 10n * dollar): Promise<bigint> {
  const { account } = await plane.admin.createAccount({ name: 'someone', balanceNanoUsd });
  return account?.accountId ?? 0n;
}

test('accounts are created, listed oldest first, and shown', async () => {
  const { admin, clock } = plane;
  const { account } = await admin.createAccount({ name: 'acme', balanceNanoUsd: 5n * dollar });
  const facts = { name: 'acme', balanceNanoUsd: 5n * dollar, heldNanoUsd: 0n, createdAtMs: BigInt(clock.now()) };
  expect(account).toMatchObject(facts);
  const accountId = account?.accountId ?? 0n;
  expect((await admin.getAccount({ accountId })).account).toMatchObject(facts);
  const later = await newAccount();
  const ids = (await admin.listAccounts({})).accounts.map(each => each.accountId);
  expect(ids.indexOf(accountId)).toBeLessThan(ids.indexOf(later));
});

test('credit is added and taken, but never more than the balance', async () => {
  const { admin } = plane;
  const accountId = await newAccount(dollar);
  const add = async (amountNanoUsd: bigint) =>
    (await admin.addCredit({ accountId, amountNanoUsd, note: 'test' })).account?.balanceNanoUsd;
  expect(await add(2n * dollar)).toBe(3n * dollar);
  expect(await add(-dollar)).toBe(2n * dollar);
  const { code, param } = await catchRefusal(add(-2n * dollar - 1n));
  expect([code, param]).toEqual(['validation_error', 'balance']);
  expect((await catchRefusal(add(0n))).param).toBe('amount');
  expect(await add(-2n * dollar)).toBe(0n);
});

test('keys of any account are made, disabled, enabled and revoked', async () => {
  const { admin } = plane;
  const accountId = await newAccount();
  const { key } = await admin.createApiKey({ accountId, settings: { label: 'a', balanceNanoUsd: dollar } });
  const apiKeyId = key?.apiKeyId ?? 0n;
  expect(key?.key).toMatch(/^sk-tg-[0-9A-Za-z]{43}$/);
  const set = async (state: KeyState) => (await admin.setApiKeyState({ apiKeyId, state })).key?.disabled;
  expect([await set(KeyState.DISABLED), await set(KeyState.ENABLED)]).toEqual([true, false]);
  expect((await catchRefusal(set(KeyState.UNSPECIFIED))).param).toBe('state');
  const ids = async () => (await admin.listApiKeys({ accountId })).keys.map(each => each.apiKeyId);
  expect(await ids()).toEqual([apiKeyId]);
  await set(KeyState.REVOKED);
  expect(await ids()).toEqual([]);
  expect((await admin.getAccount({ accountId })).account?.balanceNanoUsd).toBe(10n * dollar);
});

test('a monthly limit is set and removed', async () => {
  const { admin } = plane;
  const { key } = await admin.createApiKey({ accountId: await newAccount() });
  const apiKeyId = key?.apiKeyId ?? 0n;
  const set = async (limit?: bigint) => {
    const answer = await admin.setMonthlyLimit({ apiKeyId, ...(limit === undefined ? {} : { limitNanoUsd: limit }) });
    return answer.key?.monthlyLimitNanoUsd;
  };
  expect([await set(dollar / 2n), await set()]).toEqual([dollar / 2n, undefined]);
  expect((await catchRefusal(set(-1n))).param).toBe('monthly_limit');
});

test('management keys have the given scopes, in a fixed order; no scopes and unknown ones are refused', async () => {
  const { admin } = plane;
  const accountId = await newAccount();
  const { key } = await admin.createManagementKey({ accountId, scopes: ['keys:read', 'keys:create', 'keys:read'] });
  expect(key?.key).toMatch(/^mk-tg-[0-9A-Za-z]{43}$/);
  expect(key?.scopes).toEqual(['keys:create', 'keys:read']);
  const managementKeyId = key?.managementKeyId ?? 0n;
  const set = async (scopes: string[]) => (await admin.setManagementKeyScopes({ managementKeyId, scopes })).key?.scopes;
  expect((await set(['all']))?.length).toBe(15);
  expect(await set(['account:read'])).toEqual(['account:read']);
  expect((await catchRefusal(set([]))).param).toBe('scopes');
  expect((await catchRefusal(set(['account:read', 'root']))).param).toBe('scopes.1');
  expect((await catchRefusal(set(['all', 'keys:read']))).param).toBe('scopes.0');
  const { keys } = await admin.listManagementKeys({ accountId });
  expect(keys.map(each => [each.managementKeyId, each.scopes, each.key.length])).toEqual([
    [managementKeyId, ['account:read'], 15],
  ]);
});

test('objects that do not exist are not found, and the error names them', async () => {
  const { admin } = plane;
  const id = 424_242n;
  const calls: [string, () => Promise<unknown>][] = [
    ['There is no account 424242.', () => admin.getAccount({ accountId: id })],
    ['There is no account 424242.', () => admin.addCredit({ accountId: id, amountNanoUsd: 1n })],
    ['There is no account 424242.', () => admin.createApiKey({ accountId: id })],
    ['There is no account 424242.', () => admin.listApiKeys({ accountId: id })],
    ['There is no account 424242.', () => admin.createManagementKey({ accountId: id, scopes: ['all'] })],
    ['There is no account 424242.', () => admin.listManagementKeys({ accountId: id })],
    ['There is no API key 424242.', () => admin.setApiKeyState({ apiKeyId: id, state: KeyState.ENABLED })],
    ['There is no API key 424242.', () => admin.setMonthlyLimit({ apiKeyId: id })],
    [
      'There is no management key 424242.',
      () => admin.setManagementKeyScopes({ managementKeyId: id, scopes: ['all'] }),
    ],
    [
      'There is no management key 424242.',
      () => admin.setManagementKeyState({ managementKeyId: id, state: KeyState.ENABLED }),
    ],
  ];
  for (const [message, call] of calls) {
    const detail = await catchRefusal(call());
    expect([detail.code, detail.message]).toEqual(['not_found', message]);
  }
});

test('wrong values are refused with the name of their field', async () => {
  const { admin } = plane;
  const accountId = await newAccount();
  const calls: [string, () => Promise<unknown>][] = [
    ['name', () => admin.createAccount({ name: '' })],
    ['name', () => admin.createAccount({ name: ' \t' })],
    ['name', () => admin.createAccount({ name: 'x'.repeat(201) })],
    ['balance', () => admin.createAccount({ name: 'x', balanceNanoUsd: -1n })],
    ['balance', () => admin.createApiKey({ accountId, settings: { balanceNanoUsd: 11n * dollar } })],
    ['allowed_models.0', () => admin.createApiKey({ accountId, settings: { allowedModels: { models: ['nothing'] } } })],
    ['note', () => admin.addCredit({ accountId, amountNanoUsd: 1n, note: 'x'.repeat(1_001) })],
    ['limit', () => admin.listVoidedHolds({ limit: 1_001 })],
  ];
  for (const [param, call] of calls) {
    const detail = await catchRefusal(call());
    expect([detail.param, detail.code]).toEqual([param, 'validation_error']);
  }
});

test('a plan is started, shown and cancelled; an account has at most one, and must be able to pay for it', async () => {
  const { admin, clock } = plane;
  const accountId = await newAccount(20n * dollar);
  const core = { accountId, plan: Plan.CORE, period: PlanPeriod.MONTHLY };
  expect((await catchRefusal(admin.getSubscription({ accountId }))).code).toBe('not_found');
  expect((await catchRefusal(admin.cancelSubscription({ accountId }))).code).toBe('not_found');
  const { subscription } = await admin.startSubscription(core);
  expect(subscription).toMatchObject({
    ...core,
    startedAtMs: BigInt(clock.now()),
    cancelled: false,
    tokens: 35_000_000n,
    tokensUsed: 0n,
    tokensHeld: 0n,
    freeLeftToday: 50,
  });
  expect((await admin.getAccount({ accountId })).account?.balanceNanoUsd).toBe(4_010_000_000n);
  expect((await admin.getSubscription({ accountId })).subscription).toEqual(subscription);
  expect((await catchRefusal(admin.startSubscription(core))).code).toBe('conflict');
  expect((await admin.cancelSubscription({ accountId })).subscription).toMatchObject({ cancelled: true });
  const poor = await newAccount(15n * dollar);
  const { code, param } = await catchRefusal(admin.startSubscription({ ...core, accountId: poor }));
  expect([code, param]).toEqual(['validation_error', 'balance']);
  expect((await admin.getAccount({ accountId: poor })).account?.balanceNanoUsd).toBe(15n * dollar);
});

test.each([
  [{ plan: Plan.UNSPECIFIED, period: PlanPeriod.MONTHLY }, 'plan'],
  [{ plan: Plan.CORE, period: PlanPeriod.UNSPECIFIED }, 'period'],
])('an invalid plan is refused, and the error names the field: %j', async (what, field) => {
  const { code, param } = await catchRefusal(plane.admin.startSubscription({ accountId: await newAccount(), ...what }));
  expect([code, param]).toEqual(['validation_error', field]);
  const nobody = plane.admin.startSubscription({ accountId: 999_999n, plan: Plan.CORE, period: PlanPeriod.MONTHLY });
  expect((await catchRefusal(nobody)).code).toBe('not_found');
});
