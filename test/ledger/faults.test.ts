import { afterEach, expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { brokenLoad } from './broken-load.ts';
import { makeAdmitCommand, amount, type LedgerFixture, dollar, openFixture, plans, settleAmount } from './fixture.ts';

/** If a step of the writer's thread fails, replies to callers are still correct. In `test/long` every step fails in turn. */

test.each([
  ['message', 'exit'],
  ['reply', 'exit'],
  ['commit', 'exit'],
  ['sync', 'exit'],
  ['commit', 'SQLITE_FULL'],
] as const)('if any %s ends with %s, nothing acknowledged is lost and nothing stays held', async (point, kind) => {
  for (let nth = 1; nth <= 2; nth++) {
    expect(await brokenLoad({ point, kind, nth, times: 1 })).toMatchObject({ fired: 1 });
  }
});

test.each([
  ['message', 'exit'],
  ['sync', 'exit'],
  ['commit', 'SQLITE_FULL'],
  ['commit', 'bug'],
] as const)('the same if the third %s ends with %s, with callers in two workers', async (point, kind) => {
  expect(await brokenLoad({ point, kind, nth: 3, times: 1 }, 2)).toMatchObject({ fired: 1 });
});

test('a writer that dies in the middle of a statement is started again, and nothing is lost', async () => {
  for (const nth of [1, 23, 57]) {
    expect(await brokenLoad({ point: 'statement', kind: 'exit', nth, times: 1 })).toMatchObject({ fired: 1 });
  }
});

let fixture: LedgerFixture | undefined;
afterEach(async () => {
  await fixture?.end();
  fixture = undefined;
});

async function refused(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    value => value,
    (error: unknown) => (error instanceof GatewayError ? [error.code, error.facts.retryAfterMs] : error),
  );
}

test('while the disk is full, admits are refused at once and settles wait; both work again when it has room', async () => {
  fixture = await openFixture({ isInline: true });
  const { dataDir, clock } = fixture;
  await fixture.ledger.close();
  // The first commit is that of the admit. The next four fail: the settle, the credit, and the first repeat of each.
  const fault = { point: 'commit', kind: 'SQLITE_FULL', nth: 2, times: 4 } as const;
  fixture.ledger = await openSqliteLedger({ dataDir, clock, dailyLimitUnit: 'dollars', plans, fault });
  const { ledger } = fixture;
  // Starts the reader's thread now, because that may take longer than the disk is full.
  await ledger.findAccount(1);
  expect(await ledger.admit(makeAdmitCommand(1, { funds: amount(5n) }))).toMatchObject({ kind: 'admitted' });
  let settled = false;
  const settle = ledger.settle(settleAmount(1, 5n)).then(reply => {
    settled = true;
    return reply;
  });
  expect(await refused(ledger.addCredit({ accountId: 1, amount: 7n, note: '' }))).toEqual(['overloaded', 1000]);
  expect(settled).toBe(false);
  expect(await refused(ledger.admit(makeAdmitCommand(2)))).toEqual(['overloaded', 1000]);
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar, held: 5n });
  expect(await settle).toEqual({ kind: 'settled', costNanoUsd: 5n, writtenOffNanoUsd: 0n });
  expect(await ledger.admit(makeAdmitCommand(3))).toMatchObject({ kind: 'admitted' });
  await ledger.void(3, 'cancelled');
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar - 5n, held: 0n });
});

test('with 20,000 commands waiting, further admits are refused, but never settles or voids', async () => {
  fixture = await openFixture();
  const { ledger } = fixture;
  await ledger.admit(makeAdmitCommand(1, { funds: amount(5n) }));
  await ledger.admit(makeAdmitCommand(2, { funds: amount(5n) }));
  const waiting = Array.from({ length: 20_000 }, (_, n) =>
    ledger.admit(makeAdmitCommand(10 + n, { funds: undefined })),
  );
  const one = refused(ledger.admit(makeAdmitCommand(3, { funds: undefined })));
  const settle = ledger.settle(settleAmount(1, 5n));
  const voided = ledger.void(2, 'cancelled');
  expect(await one).toEqual(['overloaded', 1000]);
  expect(await settle).toMatchObject({ kind: 'settled' });
  expect(await voided).toBe('voided');
  const replies = await Promise.all(waiting);
  expect(replies.filter(reply => reply.kind === 'admitted')).toHaveLength(20_000);
});

test('closing waits until all earlier commands are durable, and later ones are refused', async () => {
  fixture = await openFixture();
  const { ledger } = fixture;
  const sent = Array.from({ length: 100 }, (_, n) => ledger.admit(makeAdmitCommand(1 + n, { funds: amount(1n) })));
  const closed = ledger.close();
  expect(await refused(ledger.admit(makeAdmitCommand(500)))).toEqual(['overloaded', 1000]);
  expect((await Promise.all(sent)).every(reply => reply.kind === 'admitted')).toBe(true);
  await closed;
  await fixture.open();
  expect(fixture.ledger.voidedHoldsAtStart).toBe(100);
});
