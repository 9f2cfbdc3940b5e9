import Database from 'better-sqlite3';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import type { SuspendedAccount } from '../../src/ledger/sqlite/engine.ts';
import { unwatched } from '../../src/ledger/sqlite/ledger-watch.ts';
import { publicRequestId } from '../../src/lib/ids.ts';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  isOnPostgres,
  makeHash,
  openFixture,
  plans,
  settleAmount,
} from './fixture.ts';

/** Faults of the ledger: suspended accounts (reported, without effect on other accounts), repeated commands, the lock of the directory, damage that is found at the start. */

let fixture: LedgerFixture;
/** The write-offs that were reported, as the id of the request and the amount. */
const writeOffs: [id: number, nanoUsd: bigint][] = [];
afterEach(() => fixture.end());

/** Opens the fixture; `isInline`: without threads. Returns the list to which suspended accounts are added. */
async function openWatched(balance = 10n * dollar, isInline = false): Promise<SuspendedAccount[]> {
  const reports: SuspendedAccount[] = [];
  writeOffs.length = 0;
  const watch = {
    ...unwatched,
    suspended: (account: SuspendedAccount) => void reports.push(account),
    wroteOff: (id: number, nanoUsd: bigint) => void writeOffs.push([id, nanoUsd]),
  };
  fixture = await openFixture({ balance, watch, writeOffMax: dollar, isInline });
  return reports;
}

async function change(sql: string): Promise<void> {
  const db = new Database(join(fixture.dataDir, 'ledger.sqlite'));
  db.pragma('foreign_keys = OFF');
  db.exec(sql);
  db.close();
}

async function makeOther(): Promise<number> {
  const { accountId } = await fixture.ledger.createAccount({ name: 'other', balance: 10n * dollar });
  await fixture.ledger.createKey({ accountId, hash: makeHash('other'), masked: '', settings: {} });
  return accountId;
}

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)(
  'a row that breaks a sweep suspends its account, which is reported, and the holds of other accounts still end',
  async () => {
    const reports = await openWatched();
    const other = await makeOther();
    const expiresAtMs = fixture.clock.nowMs + 1000;
    await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(5n), expiresAtMs }));
    await fixture.ledger.admit(makeAdmitCommand(2, { funds: amount(7n), expiresAtMs }, 'other'));
    await fixture.ledger.close();
    // The hold of account 1 can't be voided, because the row that counts it is missing.
    await change('CREATE TABLE lost AS SELECT * FROM key_day WHERE key_id = 1; DELETE FROM key_day WHERE key_id = 1');
    fixture.clock.step(2000);
    await fixture.open();
    expect(reports).toEqual([{ accountId: 1, reason: 'damaged', cause: 'a row is missing' }]);
    expect(await fixture.ledger.findAccount(other)).toMatchObject({ held: 0n, suspended: null });
    expect(await fixture.ledger.findAccount(1)).toMatchObject({ held: 5n, suspended: 'damaged' });
    expect(await fixture.ledger.admit(makeAdmitCommand(3, { funds: amount(1n) }))).toMatchObject({
      code: 'account_suspended',
    });
    expect(await fixture.ledger.admit(makeAdmitCommand(4, { funds: amount(1n) }, 'other'))).toMatchObject({
      kind: 'admitted',
    });
    await fixture.ledger.void(4, 'cancelled');
    // The operator repairs the row and resumes the account.
    await fixture.ledger.close();
    await change('INSERT INTO key_day SELECT * FROM lost; DROP TABLE lost');
    await fixture.open();
    expect(await fixture.ledger.resumeAccount(1)).toMatchObject({ suspended: null });
    expect(await fixture.ledger.admit(makeAdmitCommand(5, { funds: amount(1n) }))).toMatchObject({ kind: 'admitted' });
    await fixture.ledger.void(5, 'cancelled');
    expect(await fixture.ledger.findAccount(1)).toMatchObject({ held: 0n });
  },
);

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)(
  'a damaged row that is met while the ledger runs suspends its account; commands of other accounts succeed',
  async () => {
    const reports = await openWatched();
    await makeOther();
    const expiresAtMs = fixture.clock.nowMs + 1000;
    await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(5n), expiresAtMs }));
    await fixture.ledger.admit(makeAdmitCommand(2, { funds: amount(7n) }, 'other'));
    await fixture.ledger.close();
    await change('UPDATE account SET held = 4 WHERE id = 1');
    await fixture.open();
    fixture.clock.step(2000);
    // A negative hold violates a constraint of the row, so writing it fails.
    expect(await fixture.ledger.admit(makeAdmitCommand(3, { funds: amount(1n) }, 'other'))).toMatchObject({
      kind: 'admitted',
    });
    await expect.poll(() => reports).toMatchObject([{ accountId: 1, reason: 'damaged' }]);
    await fixture.ledger.void(3, 'cancelled');
    await fixture.ledger.close();
    await change('UPDATE account SET held = 5 WHERE id = 1');
    await fixture.open();
    await fixture.ledger.resumeAccount(1);
    expect(await fixture.ledger.findAccount(1)).toMatchObject({ held: 0n });
  },
);

test('each write-off is reported, and an account with more write-offs than allowed is suspended until it is resumed', async () => {
  const reports = await openWatched(10n, true);
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(5n) }));
  expect(await fixture.ledger.settle(settleAmount(1, dollar + 10n))).toMatchObject({ writtenOffNanoUsd: dollar });
  expect(await fixture.ledger.findAccount(1)).toMatchObject({ suspended: null });
  await fixture.ledger.addCredit({ accountId: 1, amount: 10n, note: '' });
  await fixture.ledger.admit(makeAdmitCommand(2, { funds: amount(5n) }));
  await fixture.ledger.settle(settleAmount(2, 11n));
  await expect.poll(() => reports).toEqual([{ accountId: 1, reason: 'write_offs' }]);
  expect(writeOffs).toEqual([
    [1, dollar],
    [2, 1n],
  ]);
  expect(await fixture.ledger.admit(makeAdmitCommand(3, { funds: undefined }))).toMatchObject({
    code: 'account_suspended',
  });
  expect(await fixture.ledger.resumeAccount(1)).toMatchObject({ suspended: null });
  await fixture.ledger.addCredit({ accountId: 1, amount: 10n, note: '' });
  expect(await fixture.ledger.admit(makeAdmitCommand(4, { funds: amount(5n) }))).toMatchObject({ kind: 'admitted' });
  expect(await fixture.ledger.resumeAccount(99)).toBe('not_found');
});

test('a credit with a reference is added once, whatever comes between, and another credit can’t use its reference', async () => {
  await openWatched(undefined, true);
  const credit = { accountId: 1, amount: 5n, note: 'gift', reference: 'invoice 7' };
  expect(await fixture.ledger.addCredit(credit)).toMatchObject({ balance: 10n * dollar + 5n });
  for (let n = 0; n < 1100; n += 1)
    await fixture.ledger.addCredit({ accountId: 1, amount: n % 2 === 0 ? 1n : -1n, note: '' });
  await fixture.reopen();
  expect(await fixture.ledger.addCredit(credit)).toMatchObject({ balance: 10n * dollar + 5n });
  expect(await fixture.ledger.addCredit({ ...credit, amount: 6n })).toBe('conflict');
  const both = [
    fixture.ledger.addCredit({ ...credit, reference: 'b' }),
    fixture.ledger.addCredit({ ...credit, reference: 'b' }),
  ];
  expect(await Promise.all(both)).toMatchObject([{ balance: 10n * dollar + 10n }, { balance: 10n * dollar + 10n }]);
});

test('an admission that repeats id and public id is a repeat; the same id with another public id is a defect', async () => {
  await openWatched(undefined, true);
  const id = 1_790_000_000_000 * 4096;
  const requestId = publicRequestId(id);
  expect(await fixture.ledger.admit(makeAdmitCommand(id, { requestId }))).toMatchObject({ kind: 'admitted' });
  expect(await fixture.ledger.admit(makeAdmitCommand(id, { requestId }))).toMatchObject({ kind: 'admitted' });
  await expect(fixture.ledger.admit(makeAdmitCommand(id, { requestId: publicRequestId(id) }))).rejects.toMatchObject({
    code: 'internal',
  });
  await fixture.ledger.void(id, 'cancelled');
});

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)('a second gateway is refused although the lock file was deleted', async () => {
  await openWatched();
  for (const end of ['', '-journal']) rmSync(join(fixture.dataDir, `lock.sqlite${end}`), { force: true });
  const program = `
    import { openSqliteLedger } from ${JSON.stringify(join(import.meta.dirname, '../../src/ledger/sqlite/sqlite-ledger.ts'))};
    import { plans } from ${JSON.stringify(join(import.meta.dirname, 'fixture.ts'))};
    const clock = { now: () => Date.now() };
    await openSqliteLedger({ dataDir: ${JSON.stringify(fixture.dataDir)}, clock, dailyLimitUnit: 'dollars', plans })
      .then(() => console.log('opened'), error => console.log(error.code));`;
  const { spawnSync } = await import('node:child_process');
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  expect(child.stdout).toBe('locked\n');
});

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)(
  'a ledger that was not closed is checked at the start, and a damaged one does not start',
  async () => {
    await openWatched();
    for (let id = 1; id <= 400; id += 1)
      await fixture.ledger.admit(makeAdmitCommand(id, { funds: undefined, requestId: 'x'.repeat(200) + id }));
    for (let id = 1; id <= 400; id += 1) await fixture.ledger.settle(settleAmount(id, 0n));
    const { copyFileSync, mkdirSync, openSync, statSync, writeSync } = await import('node:fs');
    // Copies the database files as a killed process leaves them, then destroys one page.
    const left = join(fixture.dataDir, 'left');
    mkdirSync(left);
    for (const end of ['', '-wal'])
      copyFileSync(join(fixture.dataDir, `ledger.sqlite${end}`), join(left, `ledger.sqlite${end}`));
    expect(statSync(join(left, 'ledger.sqlite-wal')).size).toBeGreaterThan(0);
    const db = new Database(join(left, 'ledger.sqlite'));
    const page = Number(db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'usage'").pluck().get());
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
    writeSync(openSync(join(left, 'ledger.sqlite'), 'r+'), Buffer.alloc(4096, 7), 0, 4096, (page - 1) * 4096);
    writeSync(openSync(join(left, 'ledger.sqlite-wal'), 'w'), Buffer.alloc(32));
    const refused = openSqliteLedger({ dataDir: left, clock: fixture.clock, dailyLimitUnit: 'dollars', plans });
    await expect(refused).rejects.toMatchObject({
      name: 'LedgerStartError',
      code: 'damaged',
      message: expect.stringContaining('Restore the data directory'),
    });
  },
);
