import { afterEach, beforeEach, expect, test } from 'vitest';
import { publicRequestId } from '../../src/lib/ids.ts';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  estimate,
  makeHash,
  openFixture,
  settleAmount,
  makeSettleCommand,
} from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openFixture();
});
afterEach(async () => fixture.end());

test('a hold covers the input and the first slice of output, and a settle replaces it with the real cost', async () => {
  const { ledger } = fixture;
  const admitted = await ledger.admit(makeAdmitCommand(1));
  expect(admitted).toEqual({
    kind: 'admitted',
    id: 1,
    accountId: 1,
    keyId: 1,
    heldNanoUsd: 4_196_000n,
    outputTokens: 1024,
    outputTokensAvailable: 2_498_951,
    availableNanoUsd: 9_995_804_000n,
    windows: [],
  });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar, held: 4_196_000n });
  expect(await ledger.settle(makeSettleCommand(1, 50))).toEqual({
    kind: 'settled',
    costNanoUsd: 300_000n,
    writtenOffNanoUsd: 0n,
  });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 9_999_700_000n, held: 0n });
});

test('a record keeps the tokens, prices and multipliers of its cost, and is found by its request id, only in its own account', async () => {
  const { ledger } = fixture;
  const requestId = publicRequestId(7);
  await ledger.admit(makeAdmitCommand(7, { requestId }));
  await ledger.settle(makeSettleCommand(7, 50, { multiplierPermille: 2000, serviceTier: 'priority' }));
  const found = await ledger.findActivity(1, requestId);
  expect(found?.row).toMatchObject({ requestId, model: 'acme/large', costNanoUsd: 600_000n, serviceTier: 'priority' });
  expect(found?.row.timeline).toMatchObject({ firstEventMs: 50, provider: 'local', attemptCount: 1 });
  expect(found?.row.timeline?.admittedNanoUsd).toBeGreaterThanOrEqual(600_000n / 2n);
  const common = { multiplierPermille: 2000, discountPermille: 0, paidBy: 'account' };
  expect(found?.lines).toEqual([
    { kind: 'input', tokens: 100, pricePicoUsd: 1_000_000n, ...common },
    { kind: 'output', tokens: 50, pricePicoUsd: 4_000_000n, ...common },
  ]);
  await ledger.createAccount({ name: 'other', balance: 0n });
  expect(await ledger.findActivity(2, requestId)).toBeUndefined();
  // Another public id of the same request: a part of it is random.
  expect(await ledger.findActivity(1, publicRequestId(7))).toBeUndefined();
});

test('a repeated settle returns the same and charges once; a settle with another charge is a conflict', async () => {
  const { ledger } = fixture;
  await ledger.admit(makeAdmitCommand(1));
  const first = await ledger.settle(makeSettleCommand(1, 50));
  expect(await ledger.settle(makeSettleCommand(1, 50))).toEqual(first);
  expect(await ledger.settle(makeSettleCommand(1, 51))).toEqual({ ...first, kind: 'conflict' });
  expect(await ledger.void(1, 'cancelled')).toBe('not_held');
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 9_999_700_000n, held: 0n });
});

test('a repeated admit holds once and returns the same, also after it was settled; an admit that differs is a conflict', async () => {
  const { ledger } = fixture;
  const first = await ledger.admit(makeAdmitCommand(1));
  expect(await ledger.admit(makeAdmitCommand(1))).toEqual(first);
  expect(await ledger.findAccount(1)).toMatchObject({ held: 4_196_000n });
  expect(await ledger.admit(makeAdmitCommand(1, { model: 'acme/small' }))).toMatchObject({
    kind: 'denied',
    code: 'conflict',
  });
  expect(await ledger.admit(makeAdmitCommand(1, { funds: amount(5n) }))).toMatchObject({
    kind: 'denied',
    code: 'conflict',
  });
  await ledger.settle(makeSettleCommand(1, 50));
  expect(await ledger.admit(makeAdmitCommand(1))).toMatchObject({
    kind: 'admitted',
    heldNanoUsd: 4_196_000n,
    outputTokens: 1024,
  });
  expect(await ledger.findAccount(1)).toMatchObject({ held: 0n });
});

test('a voided hold is released and leaves no record; a repeated void returns the same', async () => {
  const { ledger } = fixture;
  await ledger.admit(makeAdmitCommand(1));
  expect(await ledger.void(1, 'rejected')).toBe('voided');
  expect(await ledger.void(1, 'rejected')).toBe('voided');
  expect(await ledger.void(2, 'rejected')).toBe('not_held');
  expect(await ledger.settle(makeSettleCommand(1, 50))).toMatchObject({ kind: 'not_held' });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar, held: 0n });
  expect(await ledger.listActivity({ accountId: 1, limit: 10, offset: 0 })).toEqual([]);
  // Only holds that a restart or an expiry voided are listed.
  expect(await ledger.listVoidedHolds(10)).toEqual([]);
});

test('if the balance pays for less than the wanted slice, the request gets the tokens that it pays for; a request that can’t be paid at all is refused', async () => {
  const { ledger } = fixture;
  await ledger.addCredit({ accountId: 1, amount: -10n * dollar + 1_000_000n, note: '' });
  // After 100,000 for the input, 900,000 pay for 225 output tokens at 4,000. 100 are granted first, so that another such request fits; an extension gets the other 125.
  expect(await ledger.admit(makeAdmitCommand(1))).toMatchObject({
    kind: 'admitted',
    outputTokens: 100,
    outputTokensAvailable: 125,
    heldNanoUsd: 500_000n,
    availableNanoUsd: 500_000n,
  });
  expect(await ledger.extend({ id: 1, outputTokens: 1024 })).toMatchObject({
    kind: 'extended',
    outputTokens: 125,
    outputTokensAvailable: 0,
  });
  expect(await ledger.admit(makeAdmitCommand(2))).toEqual({
    kind: 'denied',
    code: 'insufficient_balance',
    denial: { limit: 'balance', unit: 'nano_usd', used: 1_000_000n, max: 1_000_000n },
    neededNanoUsd: 164_000n,
    windows: [],
  });
  expect(await ledger.extend({ id: 1, outputTokens: 1 })).toEqual({
    kind: 'denied',
    outputTokens: 0,
    heldNanoUsd: 1_000_000n,
    outputTokensAvailable: 0,
  });
});

test('a request is refused if the balance does not cover its input and the least output, to the nano-dollar', async () => {
  const { ledger } = fixture;
  const least = 100_000n + 16n * 4000n;
  await ledger.addCredit({ accountId: 1, amount: -10n * dollar + least - 1n, note: '' });
  expect(await ledger.admit(makeAdmitCommand(1))).toMatchObject({ kind: 'denied', code: 'insufficient_balance' });
  await ledger.addCredit({ accountId: 1, amount: 1n, note: '' });
  expect(await ledger.admit(makeAdmitCommand(1))).toMatchObject({
    kind: 'admitted',
    outputTokens: 16,
    heldNanoUsd: least,
  });
});

test('a request without a price needs no money; one with a price needs a positive balance, even if its estimate is 0', async () => {
  const { ledger } = fixture;
  await ledger.addCredit({ accountId: 1, amount: -10n * dollar, note: '' });
  expect(await ledger.admit(makeAdmitCommand(1, { funds: undefined }))).toMatchObject({
    kind: 'admitted',
    heldNanoUsd: 0n,
    outputTokens: Infinity,
    outputTokensAvailable: Infinity,
  });
  expect(await ledger.admit(makeAdmitCommand(2, { funds: amount(0n) }))).toMatchObject({
    code: 'insufficient_balance',
  });
  expect(await ledger.settle(makeSettleCommand(1, 50, { multiplierPermille: 0 }))).toMatchObject({ costNanoUsd: 0n });
});

test('`extend` may grant a part of the tokens, but an amount only completely', async () => {
  const { ledger } = fixture;
  await ledger.addCredit({ accountId: 1, amount: -10n * dollar + 200_000n, note: '' });
  await ledger.admit(makeAdmitCommand(1, { funds: estimate({ outputTokensWanted: 20 }) }));
  expect(await ledger.extend({ id: 1, outputTokens: 100 })).toEqual({
    kind: 'extended',
    outputTokens: 5,
    heldNanoUsd: 200_000n,
    outputTokensAvailable: 0,
  });
  expect(await ledger.extend({ id: 1, nanoUsd: 1n })).toMatchObject({ kind: 'denied', heldNanoUsd: 200_000n });
  expect(await ledger.extend({ id: 9, outputTokens: 1 })).toMatchObject({ kind: 'not_held', outputTokens: 0 });
  await ledger.addCredit({ accountId: 1, amount: 7n, note: '' });
  expect(await ledger.extend({ id: 1, nanoUsd: 7n })).toMatchObject({ kind: 'extended', heldNanoUsd: 200_007n });
});

test('a cost beyond the hold is debited from money that no other hold covers; the rest is written off', async () => {
  const { ledger } = fixture;
  await ledger.addCredit({ accountId: 1, amount: -10n * dollar + 100n, note: '' });
  await ledger.admit(makeAdmitCommand(1, { funds: amount(30n) }));
  await ledger.admit(makeAdmitCommand(2, { funds: amount(50n) }));
  expect(await ledger.settle(settleAmount(1, 1000n))).toEqual({
    kind: 'settled',
    costNanoUsd: 50n,
    writtenOffNanoUsd: 950n,
  });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 50n, held: 50n });
  expect(await ledger.settle(settleAmount(2, 50n))).toMatchObject({ costNanoUsd: 50n, writtenOffNanoUsd: 0n });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 0n, held: 0n });
  expect(await ledger.listActivity({ accountId: 1, limit: 10, offset: 0 })).toMatchObject([
    { costNanoUsd: 50n, writtenOffNanoUsd: 0n },
    { costNanoUsd: 50n, writtenOffNanoUsd: 950n },
  ]);
});

test('keys and management keys are found by their hash until they are revoked; other hashes are not found', async () => {
  const { ledger } = fixture;
  expect(await ledger.findCredential(makeHash('key'))).toEqual({
    kind: 'api_key',
    keyId: 1,
    accountId: 1,
    disabled: false,
    scopes: [],
    allowedModels: null,
    hasWindow: false,
    keepBodies: null,
  });
  expect(await ledger.findCredential(makeHash('management'))).toMatchObject({
    kind: 'management_key',
    scopes: ['keys:read'],
  });
  expect(await ledger.findCredential(makeHash('nobody'))).toBeUndefined();
  await ledger.setKeyState({ keyId: 1, accountId: undefined, state: 'disabled' });
  expect(await ledger.findCredential(makeHash('key'))).toMatchObject({ disabled: true });
  await ledger.setKeyState({ keyId: 1, accountId: 1, state: 'revoked' });
  expect(await ledger.findCredential(makeHash('key'))).toBeUndefined();
});

test('the first account is created once', async () => {
  const again = { hash: makeHash('again'), masked: '' };
  const made = await fixture.ledger.bootstrap({
    accountName: 'again',
    balance: 1n,
    apiKey: again,
    managementKey: { ...again, scopes: [] },
  });
  expect(made).toBe(false);
  expect(await fixture.ledger.listAccounts()).toMatchObject([{ accountId: 1, name: 'default', balance: 10n * dollar }]);
});
