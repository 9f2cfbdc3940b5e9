import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  makeHash,
  openFixture,
  settleAmount,
} from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openFixture({ isInline: true });
});
afterEach(async () => fixture.end());

const settings = (change: Parameters<LedgerFixture['ledger']['updateKey']>[0]['settings']) => ({
  keyId: 1,
  accountId: 1,
  settings: change,
});

test('a key’s balance is moved from the account’s and back; only the key’s balance pays, even if it is 0', async () => {
  const { ledger } = fixture;
  expect(await ledger.updateKey(settings({ balance: 3n * dollar }))).toMatchObject({ balance: 3n * dollar });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 7n * dollar });
  expect(await ledger.admit(makeAdmitCommand(1, { funds: amount(3n * dollar) }))).toMatchObject({
    kind: 'admitted',
    availableNanoUsd: 0n,
  });
  expect(await ledger.settle(settleAmount(1, 2n * dollar))).toMatchObject({ costNanoUsd: 2n * dollar });
  expect(await ledger.findKey(1, 1)).toMatchObject({ balance: dollar, usageToday: 2n * dollar });
  expect(await ledger.updateKey(settings({ balance: 0n }))).toMatchObject({ balance: 0n });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 8n * dollar, held: 0n });
  expect(await ledger.admit(makeAdmitCommand(2, { funds: amount(1n) }))).toMatchObject({
    code: 'insufficient_balance',
    denial: { used: 0n, max: 0n },
  });
  expect(await ledger.updateKey(settings({ balance: null }))).toMatchObject({ balance: null });
  expect(await ledger.admit(makeAdmitCommand(3, { funds: amount(8n * dollar) }))).toMatchObject({ kind: 'admitted' });
});

test('a change that moves money fails completely if that money is held', async () => {
  const { ledger } = fixture;
  await ledger.admit(makeAdmitCommand(1, { funds: amount(4n * dollar) }));
  expect(await ledger.updateKey(settings({ balance: 6n * dollar + 1n, label: 'no' }))).toBe('insufficient');
  expect(await ledger.findKey(1, 1)).toMatchObject({ balance: null, label: '' });
  expect(await ledger.addCredit({ accountId: 1, amount: -6n * dollar - 1n, note: '' })).toBe('insufficient');
  expect(await ledger.updateKey(settings({ balance: 6n * dollar, label: 'yes' }))).toMatchObject({
    balance: 6n * dollar,
    label: 'yes',
  });
  await ledger.admit(makeAdmitCommand(2, { funds: amount(2n * dollar) }));
  expect(await ledger.updateKey(settings({ balance: 2n * dollar - 1n }))).toBe('insufficient');
  expect(await ledger.updateKey(settings({ balance: null }))).toBe('insufficient');
  expect(await ledger.updateKey(settings({ balance: 2n * dollar }))).toMatchObject({ balance: 2n * dollar });
  // The first hold was made on the account's balance, and stays there.
  expect(await ledger.settle(settleAmount(1, dollar))).toMatchObject({ costNanoUsd: dollar });
  expect(await ledger.settle(settleAmount(2, dollar))).toMatchObject({ costNanoUsd: dollar });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 7n * dollar, held: 0n });
  expect(await ledger.findKey(1, 1)).toMatchObject({ balance: dollar });
});

test('a deleted key’s money moves back at once, held money when its hold ends', async () => {
  const { ledger } = fixture;
  await ledger.updateKey(settings({ balance: 5n * dollar }));
  await ledger.admit(makeAdmitCommand(1, { funds: amount(2n * dollar) }));
  await ledger.admit(makeAdmitCommand(2, { funds: amount(dollar) }));
  expect(await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'revoked' })).toMatchObject({
    balance: 3n * dollar,
  });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 7n * dollar });
  expect(await ledger.extend({ id: 1, nanoUsd: 1n })).toMatchObject({ kind: 'denied' });
  // The cost is above the hold, and another hold covers all remaining money.
  expect(await ledger.settle(settleAmount(1, 3n * dollar))).toMatchObject({
    costNanoUsd: 2n * dollar,
    writtenOffNanoUsd: dollar,
  });
  expect(await ledger.settle(settleAmount(2, 400_000_000n))).toMatchObject({ costNanoUsd: 400_000_000n });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 7_600_000_000n });
  expect(await ledger.listKeys(1)).toEqual([]);
  expect(await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'enabled' })).toBe('not_found');
  expect(await ledger.updateKey(settings({ label: 'x' }))).toBe('not_found');
  expect(await ledger.setMonthlyLimit({ keyId: 1, limit: 1n })).toBe('not_found');
});

test('if a hold of a deleted key is voided, its money goes to the account', async () => {
  const { ledger } = fixture;
  await ledger.updateKey(settings({ balance: dollar }));
  await ledger.admit(makeAdmitCommand(1, { funds: amount(dollar) }));
  await ledger.setKeyState({ keyId: 1, accountId: undefined, state: 'revoked' });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 9n * dollar });
  await ledger.void(1, 'gateway_failure');
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar });
});

test('a new key gets at most what the account has; a refused command makes no key', async () => {
  const { ledger } = fixture;
  const key = { accountId: 1, hash: makeHash('new'), masked: 'sk-tg-new' };
  expect(await ledger.createKey({ ...key, settings: { balance: 10n * dollar + 1n } })).toBe('insufficient');
  expect(await ledger.createKey({ ...key, accountId: 9, settings: {} })).toBe('not_found');
  expect(await ledger.listKeys(1)).toHaveLength(1);
  expect(await ledger.createKey({ ...key, settings: { balance: 10n * dollar, label: 'all' } })).toEqual({
    keyId: 2,
    accountId: 1,
    expiresAtMs: undefined,
    groupId: null,
    tags: {},
    metadata: '{}',
    keepBodies: null,
    paused: false,
    revoked: false,
    masked: 'sk-tg-new',
    createdAtMs: fixture.clock.nowMs,
    label: 'all',
    dailyLimit: 0,
    minuteLimit: 0,
    allowedModels: null,
    balance: 10n * dollar,
    usageToday: 0n,
    usageMinute: 0,
    lastUsedAtMs: undefined,
    lowBalance: null,
    held: 0n,
    useSubsFirst: true,
    fallbackToPayg: true,
    disabled: false,
    monthlyLimit: undefined,
  });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 0n });
});

test('another account’s key is not found', async () => {
  const { ledger } = fixture;
  await ledger.createAccount({ name: 'other', balance: 0n });
  expect(await ledger.findKey(1, 2)).toBeUndefined();
  expect(await ledger.updateKey({ keyId: 1, accountId: 2, settings: { label: 'mine' } })).toBe('not_found');
  expect(await ledger.setKeyState({ keyId: 1, accountId: 2, state: 'revoked' })).toBe('not_found');
  expect(await ledger.listActivity({ accountId: 2, keyId: 1, limit: 10, offset: 0 })).toEqual([]);
});

test('an update changes only the given settings; a key has the time of its last use', async () => {
  const { ledger } = fixture;
  await ledger.updateKey(
    settings({ label: 'a', dailyLimit: 5, minuteLimit: 6, useSubsFirst: false, fallbackToPayg: false }),
  );
  await ledger.updateKey(settings({ minuteLimit: 0 }));
  expect(await ledger.findKey(1, 1)).toMatchObject({
    label: 'a',
    dailyLimit: 5,
    minuteLimit: 0,
    useSubsFirst: false,
    fallbackToPayg: false,
    lastUsedAtMs: undefined,
    usageMinute: 0,
  });
  await ledger.updateKey(settings({ fallbackToPayg: true }));
  await ledger.admit(makeAdmitCommand(1));
  const usedAt = fixture.clock.nowMs;
  fixture.clock.step(86_400_000);
  expect(await ledger.findKey(1, undefined)).toMatchObject({ lastUsedAtMs: usedAt, usageMinute: 0, usageToday: 0n });
});

test('management keys have their own scopes and states', async () => {
  const { ledger } = fixture;
  const made = await ledger.createManagementKey({
    accountId: 1,
    hash: makeHash('m2'),
    masked: 'mk',
    scopes: ['keys:read'],
  });
  expect(made).toEqual({
    keyId: 2,
    accountId: 1,
    masked: 'mk',
    scopes: ['keys:read'],
    disabled: false,
    createdAtMs: fixture.clock.nowMs,
  });
  expect(await ledger.createManagementKey({ accountId: 7, hash: makeHash('m3'), masked: '', scopes: [] })).toBe(
    'not_found',
  );
  expect(await ledger.setManagementKeyScopes({ keyId: 2, scopes: ['account:read'] })).toMatchObject({
    scopes: ['account:read'],
  });
  expect(await ledger.setManagementKeyState({ keyId: 2, state: 'disabled' })).toMatchObject({ disabled: true });
  expect(await ledger.findCredential(makeHash('m2'))).toMatchObject({ disabled: true, scopes: ['account:read'] });
  await ledger.setManagementKeyState({ keyId: 2, state: 'revoked' });
  expect(await ledger.findCredential(makeHash('m2'))).toBeUndefined();
  expect(await ledger.listManagementKeys(1)).toMatchObject([{ keyId: 1 }]);
  expect(await ledger.setManagementKeyState({ keyId: 2, state: 'enabled' })).toBe('not_found');
  expect(await ledger.setManagementKeyScopes({ keyId: 2, scopes: [] })).toBe('not_found');
});

test('money above 2^53 nano-dollars stays exact', async () => {
  const { ledger } = fixture;
  const much = 9_007_199_254_740_993n;
  const account = await ledger.createAccount({ name: 'rich', balance: much });
  expect(account.balance).toBe(much);
  await ledger.createKey({ accountId: account.accountId, hash: makeHash('rich'), masked: '', settings: {} });
  await ledger.admit(makeAdmitCommand(1, { funds: amount(much) }, 'rich'));
  expect(await ledger.settle(settleAmount(1, much - 1n))).toMatchObject({ costNanoUsd: much - 1n });
  expect(await ledger.findAccount(account.accountId)).toMatchObject({ balance: 1n, held: 0n });
});
