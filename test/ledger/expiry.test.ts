import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  makeAdmitCommand,
  type LedgerFixture,
  dollar,
  estimate,
  makeHash,
  openFixture,
  settleAmount,
} from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openFixture({ isInline: true });
});
afterEach(() => fixture.end());

const key = { accountId: 1, hash: makeHash('new'), masked: 'sk-tg-new' };
const ofNewKey = { key: { hash: makeHash('new') } };

test('a key is refused from the millisecond of its expiry on, and works again with a later expiry', async () => {
  const { ledger, clock } = fixture;
  const expiresAtMs = clock.nowMs + 1000;
  expect(await ledger.createKey({ ...key, settings: { expiresAtMs } })).toMatchObject({ keyId: 2, expiresAtMs });
  clock.nowMs = expiresAtMs - 1;
  expect(await ledger.findCredential(makeHash('new'))).not.toHaveProperty('expired');
  expect(await ledger.admit(makeAdmitCommand(1, ofNewKey))).toMatchObject({ kind: 'admitted', keyId: 2 });
  clock.nowMs = expiresAtMs;
  expect(await ledger.findCredential(makeHash('new'))).toMatchObject({ keyId: 2, expiresAtMs, expired: true });
  expect(await ledger.admit(makeAdmitCommand(2, ofNewKey))).toMatchObject({ kind: 'denied', code: 'invalid_api_key' });
  await ledger.updateKey({ keyId: 2, accountId: 1, settings: { expiresAtMs: null } });
  expect(await ledger.findCredential(makeHash('new'))).toMatchObject({ expiresAtMs: undefined });
  expect(await ledger.admit(makeAdmitCommand(2, ofNewKey))).toMatchObject({ kind: 'admitted' });
  await ledger.settle(settleAmount(1, 0n));
  await ledger.settle(settleAmount(2, 0n));
});

test('an expired key’s balance moves back to its account (held money when its hold ends), even if the process was not running at the time', async () => {
  const { ledger, clock } = fixture;
  const expiresAtMs = clock.nowMs + 1000;
  await ledger.createKey({ ...key, settings: { balance: 4n * dollar, expiresAtMs } });
  const hold = { ...ofNewKey, funds: estimate(), expiresAtMs: clock.nowMs + 3_600_000 };
  const admitted = await ledger.admit(makeAdmitCommand(1, hold));
  if (admitted.kind !== 'admitted') throw new Error('not admitted');
  const { heldNanoUsd: held } = admitted;
  expect(held).toBeGreaterThan(0n);
  await fixture.ledger.close();
  clock.nowMs = expiresAtMs;
  await fixture.open();
  expect(await fixture.ledger.findKey(2, 1)).toMatchObject({ balance: held });
  expect(await fixture.ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar - held });
  expect(await fixture.ledger.settle(settleAmount(1, 3n))).toMatchObject({ kind: 'settled', costNanoUsd: 3n });
  expect(await fixture.ledger.findKey(2, 1)).toMatchObject({ balance: 0n });
  expect(await fixture.ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar - 3n });
});

test('an expired key’s balance has moved back when the account is next read, without any other command', async () => {
  const { ledger, clock } = fixture;
  await ledger.createKey({ ...key, settings: { balance: 4n * dollar, expiresAtMs: clock.nowMs + 1000 } });
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 6n * dollar });
  clock.nowMs += 1000;
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar });
});
