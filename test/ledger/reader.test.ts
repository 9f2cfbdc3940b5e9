import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { Reader } from '../../src/ledger/reader/reader.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  openFixture,
  plans,
  settleAmount,
  makeSettleCommand,
} from './fixture.ts';

let fixture: LedgerFixture;
/** The threads that were started after the ledger was opened. */
let started: Worker[];
const remember = (worker: Worker): void => void started.push(worker);

beforeEach(async () => {
  fixture = await openFixture();
  started = [];
  process.on('worker', remember);
});
afterEach(async () => {
  process.off('worker', remember);
  await fixture.end();
});

/** Ends the reader's nth thread as soon as it starts, like a crash. */
async function kill(nth: number): Promise<void> {
  while (started.length < nth) await nextTurn();
  await started[nth - 1]?.terminate();
}

async function readErrorCode(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'done',
    (error: unknown) => (error instanceof GatewayError ? error.code : error),
  );
}

test('the thread starts with the first read and serves all later ones', async () => {
  const { ledger } = fixture;
  await ledger.admit(makeAdmitCommand(1, { funds: amount(5n) }));
  await ledger.settle(settleAmount(1, 5n));
  expect(started).toHaveLength(0);
  expect(await ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar - 5n });
  expect(await ledger.listActivity({ accountId: 1, limit: 10, offset: 0 })).toMatchObject([{ costNanoUsd: 5n }]);
  expect(started).toHaveLength(1);
});

test('a read that follows a change sees it, and each change returns its result', async () => {
  const { ledger } = fixture;
  for (let round = 1; round <= 200; round++) {
    const label = `round ${round}`;
    expect(await ledger.updateKey({ keyId: 1, accountId: 1, settings: { label } })).toMatchObject({ label });
    expect(await ledger.findKey(1, 1)).toMatchObject({ label });
    expect(await ledger.addCredit({ accountId: 1, amount: 1n, note: '' })).toMatchObject({
      balance: 10n * dollar + BigInt(round),
    });
    expect(await ledger.listAccounts()).toMatchObject([{ balance: 10n * dollar + BigInt(round) }]);
  }
});

test('reads are answered in order while the ledger closes; later ones are refused', async () => {
  const { ledger } = fixture;
  const reads = Array.from({ length: 50 }, () => ledger.findAccount(1));
  const closed = ledger.close();
  expect(await Promise.all(reads)).toEqual(Array.from({ length: 50 }, () => expect.objectContaining({ accountId: 1 })));
  await closed;
  expect(await readErrorCode(ledger.findAccount(1))).toBe('overloaded');
  await fixture.open();
});

test('while 2,000 reads wait, further reads are refused, and the waiting ones are answered', async () => {
  const { ledger } = fixture;
  const waiting = Array.from({ length: 2000 }, () => readErrorCode(ledger.findAccount(1)));
  expect(await readErrorCode(ledger.findAccount(1))).toBe('overloaded');
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['done']));
  expect(await ledger.findAccount(1)).toMatchObject({ accountId: 1 });
});

test('if the thread dies, the next thread answers its reads', async () => {
  const { ledger } = fixture;
  const reads = Array.from({ length: 20 }, () => readErrorCode(ledger.findAccount(1)));
  await kill(1);
  expect(new Set(await Promise.all(reads))).toEqual(new Set(['done']));
  expect(started).toHaveLength(2);
  // If the thread dies while it is idle, the next read starts another one.
  await kill(2);
  expect(await ledger.findAccount(1)).toMatchObject({ accountId: 1 });
  expect(started).toHaveLength(3);
});

test('if the thread dies twice, its reads are refused, and later reads work', async () => {
  const { ledger } = fixture;
  const read = readErrorCode(ledger.findAccount(1));
  await kill(1);
  await kill(2);
  expect(await read).toBe('overloaded');
  expect(await ledger.findAccount(1)).toMatchObject({ accountId: 1 });
});

test('reads are answered while the disk is full', async () => {
  const { dataDir, clock } = fixture;
  await fixture.ledger.close();
  // The first commit is that of the admit; the next six fail: the settle and its repeats.
  const fault = { point: 'commit', kind: 'SQLITE_FULL', nth: 2, times: 6 } as const;
  fixture.ledger = await openSqliteLedger({ dataDir, clock, dailyLimitUnit: 'dollars', plans, fault });
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(5n) }));
  let isSettled = false;
  const settled = fixture.ledger.settle(settleAmount(1, 5n)).then(() => {
    isSettled = true;
  });
  let held = 0;
  while (!isSettled) {
    // Several at once, so that their number does not depend on the machine's load.
    const reads = await Promise.all(Array.from({ length: 10 }, () => fixture.ledger.findAccount(1)));
    held += reads.filter(account => account?.held === 5n).length;
  }
  await settled;
  expect(held).toBeGreaterThan(6);
  expect(await fixture.ledger.findAccount(1)).toMatchObject({ balance: 10n * dollar - 5n, held: 0n });
});

test('a read that throws fails alone', async () => {
  const { ledger } = fixture;
  await ledger.admit(makeAdmitCommand(1));
  await ledger.settle(makeSettleCommand(1, 7));
  const broken = readErrorCode(ledger.listActivity({ accountId: 1, limit: 1.5, offset: 0 }));
  expect(await ledger.findAccount(1)).toMatchObject({ accountId: 1 });
  expect(await broken).toBe('internal');
});

test('reads of a file that is not a database are refused', async () => {
  const path = join(fixture.dataDir, 'no-database');
  writeFileSync(path, 'not a database, although it is as long as the header of one: '.repeat(10));
  const reader = new Reader({ path, plans }, () => Promise.resolve());
  expect(await readErrorCode(reader.read('accounts'))).toBe('overloaded');
  await reader.close();
});

test('`verify` runs on a separate thread, which ends with it', async () => {
  const { ledger } = fixture;
  await ledger.findAccount(1);
  expect(await ledger.verify()).toEqual([]);
  expect(started.map(({ threadId }) => threadId > 0)).toEqual([true, false]);
});
