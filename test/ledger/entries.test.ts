/** Each change of a balance that is not a request is an entry of the balance that it changes, with the balance after it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { amount, type LedgerFixture, makeAdmitCommand, makeHash, openFixture, settleAmount } from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openFixture({ balance: 100n, isInline: true });
});
afterEach(() => fixture.end());

/** Returns the entries of the account, oldest first. */
async function listEntries(): Promise<unknown[]> {
  const rows = await fixture.ledger.listEntries({ accountId: 1, limit: 100, offset: 0 });
  return rows
    .toReversed()
    .map(({ entryId, kind, keyId, groupId, amount: added, balanceAfter, writtenOff }) => [
      entryId,
      kind,
      keyId,
      groupId,
      added,
      balanceAfter,
      writtenOff,
    ]);
}

test('credit and moves to keys and groups have the balance after them', async () => {
  const { ledger } = fixture;
  await ledger.addCredit({ accountId: 1, amount: 30n, note: '' });
  const group = await ledger.createGroup({ accountId: 1, settings: { name: 'team', balance: 20n } });
  if (typeof group === 'string') throw new Error(group);
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { balance: 7n } });
  await ledger.updateKey({ keyId: 1, accountId: 1, settings: { balance: 5n } });
  expect(await listEntries()).toEqual([
    [1, 'opening', null, null, 100n, 100n, 0n],
    [2, 'credit', null, null, 30n, 130n, 0n],
    [3, 'move', null, null, -20n, 110n, 0n],
    [4, 'move', null, group.groupId, 20n, 20n, 0n],
    [5, 'move', null, null, -7n, 103n, 0n],
    [6, 'move', 1, null, 7n, 7n, 0n],
    [7, 'move', null, null, 2n, 105n, 0n],
    [8, 'move', 1, null, -2n, 5n, 0n],
  ]);
});

test('a write-off is an entry of the balance that paid the rest', async () => {
  const { ledger } = fixture;
  const group = await ledger.createGroup({ accountId: 1, settings: { name: 'team', balance: 10n } });
  if (typeof group === 'string') throw new Error(group);
  const { groupId } = group;
  await ledger.createKey({ accountId: 1, hash: makeHash('of group'), masked: '', settings: { groupId } });
  await ledger.createKey({ accountId: 1, hash: makeHash('own'), masked: '', settings: { balance: 10n } });
  for (const [index, key] of ['key', 'of group', 'own'].entries()) {
    await ledger.admit(makeAdmitCommand(index + 1, { funds: amount(1n) }, key));
    await ledger.settle(settleAmount(index + 1, 1000n));
  }
  const [ofAccount, ofGroup, ofKey] = (await listEntries()).slice(-3);
  expect(ofAccount).toMatchObject([expect.any(Number), 'write_off', null, null, 0n, 0n, 920n]);
  expect(ofGroup).toMatchObject([expect.any(Number), 'write_off', null, groupId, 0n, 0n, 990n]);
  expect(ofKey).toMatchObject([expect.any(Number), 'write_off', 3, null, 0n, 0n, 990n]);
});
