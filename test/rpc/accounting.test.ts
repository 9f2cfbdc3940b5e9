import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { type ControlPlane, dollar, catchRefusal, startControlPlane } from './control-plane.ts';

const hourMs = 3_600_000;
let plane: ControlPlane;
beforeAll(async () => {
  plane = await startControlPlane();
});
afterAll(() => plane.close());

let lastId = 0n;
const nextId = (): bigint => (lastId += 1n);

/** Makes an account with a key. */
async function makeAccount(balanceNanoUsd = 10n * dollar, settings = {}) {
  const { admin, client } = plane;
  const { account } = await admin.createAccount({ name: 'customer', balanceNanoUsd });
  const accountId = account?.accountId ?? 0n;
  const { key } = await admin.createApiKey({ accountId, settings });
  const managementKey = await admin.createManagementKey({ accountId, scopes: ['all'] });
  const state = async () => {
    const answer = await admin.getAccount({ accountId });
    return { balance: answer.account?.balanceNanoUsd, held: answer.account?.heldNanoUsd };
  };
  return {
    accountId,
    apiKeyId: key?.apiKeyId ?? 0n,
    state,
    account: client(AccountService, managementKey.key?.key ?? ''),
  };
}

test('work is admitted, extended and settled at its cost, and is in the account’s activity', async () => {
  const { accounting, clock } = plane;
  const { apiKeyId, state, account } = await makeAccount();
  const id = nextId();
  const admitted = await accounting.admit({ id, apiKeyId, model: 'acme/render', amountNanoUsd: dollar });
  expect(admitted).toMatchObject({
    heldNanoUsd: dollar,
    availableNanoUsd: 9n * dollar,
    limits: [],
    expiresAtMs: BigInt(clock.now() + hourMs),
  });
  expect(await accounting.extend({ id, amountNanoUsd: dollar / 2n })).toMatchObject({
    heldNanoUsd: (3n * dollar) / 2n,
  });
  expect(await state()).toEqual({ balance: 10n * dollar, held: (3n * dollar) / 2n });
  const settle = { id, costNanoUsd: dollar / 4n, usage: { inputTokens: 7, outputTokens: 9 }, latencyMs: 1_234n };
  expect(await accounting.settle(settle)).toMatchObject({ costNanoUsd: dollar / 4n, writtenOffNanoUsd: 0n });
  expect(await state()).toEqual({ balance: 10n * dollar - dollar / 4n, held: 0n });
  expect((await account.listActivity({})).records).toMatchObject([
    {
      model: 'acme/render',
      apiKeyId,
      costNanoUsd: dollar / 4n,
      latencyMs: 1_234n,
      usage: { inputTokens: 7, outputTokens: 9 },
    },
  ]);
});

test('repeats of admit, settle and void return the same and count once', async () => {
  const { accounting } = plane;
  const { apiKeyId, state } = await makeAccount();
  const [id, other] = [nextId(), nextId()];
  const admit = { id, apiKeyId, model: 'acme/render', amountNanoUsd: dollar };
  const first = await accounting.admit(admit);
  plane.clock.advance(1_000);
  expect(await accounting.admit(admit)).toEqual(first);
  expect((await state()).held).toBe(dollar);
  for (const changed of [
    { amountNanoUsd: 2n },
    { model: 'acme/other' },
    { apiKeyId: (await makeAccount()).apiKeyId },
  ]) {
    expect((await catchRefusal(accounting.admit({ ...admit, ...changed }))).code).toBe('conflict');
  }
  const settled = await accounting.settle({ id, costNanoUsd: 5n });
  expect(await accounting.settle({ id, costNanoUsd: 5n })).toEqual(settled);
  const conflict = await catchRefusal(accounting.settle({ id, costNanoUsd: 6n }));
  expect([conflict.code, conflict.param]).toEqual(['conflict', 'cost']);
  await accounting.admit({ ...admit, id: other });
  await accounting.void({ id: other });
  await accounting.void({ id: other });
  expect(await state()).toEqual({ balance: 10n * dollar - 5n, held: 0n });
});

test('work that was voided or never admitted can’t be settled, extended or voided', async () => {
  const { accounting } = plane;
  const { apiKeyId, account } = await makeAccount();
  const voided = nextId();
  await accounting.admit({ id: voided, apiKeyId, model: 'acme/render', amountNanoUsd: dollar });
  await accounting.void({ id: voided });
  const unknown = nextId();
  const calls = [
    () => accounting.settle({ id: voided, costNanoUsd: 1n }),
    () => accounting.extend({ id: voided, amountNanoUsd: 1n }),
    () => accounting.settle({ id: unknown, costNanoUsd: 1n }),
    () => accounting.extend({ id: unknown, amountNanoUsd: 1n }),
    () => accounting.void({ id: unknown }),
  ];
  for (const call of calls) expect((await catchRefusal(call())).code).toBe('not_found');
  expect((await account.listActivity({})).records).toEqual([]);
});

test('a denial names the limit, its use, its maximum and its reset time, and counts nowhere', async () => {
  const { accounting } = plane;
  const poor = await makeAccount(dollar);
  const broke = await catchRefusal(
    accounting.admit({ id: nextId(), apiKeyId: poor.apiKeyId, model: 'm', amountNanoUsd: dollar + 1n }),
  );
  expect([broke.code, broke.httpStatus, broke.denial?.limit, broke.denial?.unit, broke.denial?.max]).toEqual([
    'insufficient_balance',
    429,
    'balance',
    'nano_usd',
    dollar,
  ]);
  expect(broke.tip).toContain(`npx tollgate credits add ${poor.accountId} `);
  expect(await poor.state()).toEqual({ balance: dollar, held: 0n });

  const { apiKeyId } = await makeAccount(dollar, { minuteLimit: 1n });
  const admit = () => accounting.admit({ id: nextId(), apiKeyId, model: 'm', amountNanoUsd: 0n });
  expect((await admit()).limits).toMatchObject([{ limit: 'minute_limit', max: 1n, remaining: 0n }]);
  const denied = await catchRefusal(admit());
  expect([denied.code, denied.denial?.limit, denied.denial?.used, denied.denial?.max]).toEqual([
    'rate_limit',
    'minute_limit',
    1n,
    1n,
  ]);
  expect(Number(denied.retryAfterMs)).toBeGreaterThanOrEqual(59_000);
  expect(Number(denied.retryAfterMs)).toBeLessThanOrEqual(61_000);
  expect(denied.limits).toMatchObject([{ limit: 'minute_limit', remaining: 0n }]);
});

test('allowed models and disabled or revoked keys also apply to the work of other services, and the error names the account’s key', async () => {
  const { accounting, admin } = plane;
  const { apiKeyId } = await makeAccount(dollar, { allowedModels: { models: ['acme/large'] } });
  const admit = (model: string) => accounting.admit({ id: nextId(), apiKeyId, model, amountNanoUsd: 1n });
  await admit('acme/large');
  expect((await catchRefusal(admit('acme/render'))).code).toBe('model_not_allowed');
  await admin.setApiKeyState({ apiKeyId, state: KeyState.DISABLED });
  const disabled = await catchRefusal(admit('acme/large'));
  expect([disabled.code, disabled.param]).toEqual(['key_disabled', 'api_key_id']);
  await admin.setApiKeyState({ apiKeyId, state: KeyState.REVOKED });
  const revoked = await catchRefusal(admit('acme/large'));
  expect([revoked.code, revoked.param]).toEqual(['invalid_api_key', 'api_key_id']);
});

test('at most the balance can be held, and a cost above it is written off', async () => {
  const { accounting } = plane;
  const { apiKeyId, state } = await makeAccount(dollar);
  const id = nextId();
  await accounting.admit({ id, apiKeyId, model: 'm', amountNanoUsd: dollar / 2n });
  const denied = await catchRefusal(accounting.extend({ id, amountNanoUsd: dollar / 2n + 1n }));
  expect(denied.code).toBe('insufficient_balance');
  expect((await state()).held).toBe(dollar / 2n);
  expect(await accounting.settle({ id, costNanoUsd: 3n * dollar })).toMatchObject({
    costNanoUsd: dollar,
    writtenOffNanoUsd: 2n * dollar,
  });
  expect(await state()).toEqual({ balance: 0n, held: 0n });
});

test('a hold that is not settled expires at its announced time, is released and listed', async () => {
  const { accounting, admin, clock } = plane;
  const { apiKeyId, state, accountId } = await makeAccount();
  const [short, standard, prolonged] = [nextId(), nextId(), nextId()];
  const work = { apiKeyId, model: 'acme/render', amountNanoUsd: dollar };
  await accounting.admit({ ...work, id: short, expiresInMs: 60_000n });
  await accounting.admit({ ...work, id: standard });
  await accounting.admit({ ...work, id: prolonged });
  await accounting.extend({ id: prolonged, amountNanoUsd: 0n, expiresInMs: BigInt(3 * hourMs) });
  clock.advance(59_999);
  expect((await state()).held).toBe(3n * dollar);
  clock.advance(1);
  expect((await catchRefusal(accounting.settle({ id: short, costNanoUsd: 1n }))).code).toBe('not_found');
  expect((await state()).held).toBe(2n * dollar);
  clock.advance(hourMs);
  expect((await catchRefusal(accounting.extend({ id: standard, amountNanoUsd: 1n }))).code).toBe('not_found');
  expect(await state()).toEqual({ balance: 10n * dollar, held: dollar });
  const { holds } = await admin.listVoidedHolds({});
  const own = holds.filter(hold => hold.accountId === accountId);
  expect(own.map(hold => [hold.id, hold.model, hold.amountNanoUsd, hold.reason])).toEqual([
    [standard, 'acme/render', dollar, 'expired'],
    [short, 'acme/render', dollar, 'expired'],
  ]);
  await accounting.settle({ id: prolonged, costNanoUsd: 0n });
});

test('wrong values are refused with the name of their field', async () => {
  const { accounting } = plane;
  const { apiKeyId } = await makeAccount();
  const good = { id: nextId(), apiKeyId, model: 'm', amountNanoUsd: 1n };
  const calls: [string, () => Promise<unknown>][] = [
    ['id', () => accounting.admit({ ...good, id: 0n })],
    ['id', () => accounting.admit({ ...good, id: 2n ** 53n })],
    ['model', () => accounting.admit({ ...good, model: '' })],
    ['model', () => accounting.admit({ ...good, model: 'x'.repeat(201) })],
    ['amount', () => accounting.admit({ ...good, amountNanoUsd: -1n })],
    ['expires_in_ms', () => accounting.admit({ ...good, expiresInMs: 0n })],
    ['expires_in_ms', () => accounting.admit({ ...good, expiresInMs: 2n ** 60n })],
    ['id', () => accounting.extend({ id: -1n, amountNanoUsd: 1n })],
    ['amount', () => accounting.extend({ id: 1n, amountNanoUsd: -1n })],
    ['id', () => accounting.settle({ id: 0n })],
    ['cost', () => accounting.settle({ id: 1n, costNanoUsd: -1n })],
    ['id', () => accounting.void({ id: 0n })],
    // The gateway's requests have such ids, and no other service may release their holds.
    ['id', () => accounting.void({ id: 2n ** 52n })],
    ['id', () => accounting.settle({ id: BigInt(Date.now()) * 4096n })],
  ];
  for (const [param, call] of calls) {
    const detail = await catchRefusal(call());
    expect([detail.param, detail.code]).toEqual([param, 'validation_error']);
  }
  expect((await catchRefusal(accounting.admit({ ...good, apiKeyId: 0n }))).code).toBe('not_found');
});
