import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LedgerStartError } from '../../src/lib/sqlite/start-error.ts';
import { openSqliteLedger, type SqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import {
  makeAdmitCommand,
  amount,
  type LedgerFixture,
  dollar,
  makeHash,
  isOnPostgres,
  openFixture,
  plans,
  settleAmount,
  temporaryDirectory,
} from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openFixture();
});
afterEach(async () => fixture.end());

/** Simulates a crash: the fixture goes on with a copy of the files that was made while the ledger ran. */
async function crash(whileRunning: () => Promise<void>): Promise<void> {
  await whileRunning();
  const left = temporaryDirectory();
  cpSync(fixture.dataDir, left.path, { recursive: true });
  await fixture.ledger.close();
  for (const file of readdirSync(fixture.dataDir)) rmSync(join(fixture.dataDir, file));
  cpSync(left.path, fixture.dataDir, { recursive: true });
  left.remove();
  await fixture.open();
}

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)(
  'holds that a crash left are released and listed; holds with an expiry (of other services than the gateway) stay',
  async () => {
    const { clock } = fixture;
    const admittedAtMs = clock.nowMs;
    await crash(async () => {
      await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(dollar) }));
      await fixture.ledger.admit(
        makeAdmitCommand(2, { funds: amount(2n * dollar), expiresAtMs: clock.nowMs + 3_600_000 }),
      );
      await fixture.ledger.admit(makeAdmitCommand(3, { funds: amount(3n * dollar) }));
      await fixture.ledger.settle(settleAmount(3, dollar));
      clock.step(1000);
    });
    const { ledger } = fixture;
    expect(ledger.voidedHoldsAtStart).toBe(1);
    expect(ledger.violationsAtStart).toEqual([]);
    expect(await ledger.findAccount(1)).toMatchObject({ balance: 9n * dollar, held: 2n * dollar });
    expect(await ledger.listVoidedHolds(10)).toEqual([
      {
        id: 1,
        accountId: 1,
        keyId: 1,
        model: 'acme/large',
        heldNanoUsd: dollar,
        admittedAtMs,
        voidedAtMs: clock.nowMs,
        reason: 'restarted',
      },
    ]);
    expect(await ledger.settle(settleAmount(1, 5n))).toMatchObject({ kind: 'not_held' });
    expect(await ledger.settle(settleAmount(2, 5n))).toMatchObject({ kind: 'settled', costNanoUsd: 5n });
    // An interrupted task is admitted again under its own id.
    expect(await ledger.admit(makeAdmitCommand(1, { funds: amount(dollar) }))).toMatchObject({
      kind: 'admitted',
      heldNanoUsd: dollar,
    });
    expect(await ledger.settle(settleAmount(1, 5n))).toMatchObject({ kind: 'settled', costNanoUsd: 5n });
  },
);

test('the windows of a minute and a day count the same after a restart or crash as before, voids included', async () => {
  const { clock } = fixture;
  await fixture.ledger.updateKey({ keyId: 1, accountId: 1, settings: { minuteLimit: 4 } });
  const free = { free: true, funds: undefined, model: 'acme/small:free' };
  await crash(async () => {
    await fixture.ledger.admit(makeAdmitCommand(1, free));
    await fixture.ledger.admit(makeAdmitCommand(2, free));
    await fixture.ledger.admit(makeAdmitCommand(3, free));
    await fixture.ledger.settle(settleAmount(2, 0n));
    await fixture.ledger.void(3, 'rejected');
  });
  expect(await fixture.ledger.windows(1, true)).toMatchObject([
    { limit: 'minute_limit', remaining: 1 },
    { limit: 'free_minute', remaining: 17 },
    { limit: 'free_day', remaining: 197 },
  ]);
  clock.step(59_999);
  await fixture.reopen();
  expect(await fixture.ledger.windows(1, true)).toMatchObject([
    { remaining: 1 },
    { remaining: 17 },
    { remaining: 197 },
  ]);
  clock.step(1);
  await fixture.reopen();
  expect(await fixture.ledger.windows(1, true)).toMatchObject([
    { remaining: 4 },
    { remaining: 20 },
    { remaining: 197 },
  ]);
});

test('a hold of another service expires by the clock, whenever it is next read, and is listed', async () => {
  const { ledger, clock } = fixture;
  const expiresAtMs = clock.nowMs + 1000;
  expect(await ledger.admit(makeAdmitCommand(1, { funds: amount(10n * dollar), expiresAtMs }))).toMatchObject({
    expiresAtMs,
  });
  expect(
    await ledger.admit(makeAdmitCommand(1, { funds: amount(10n * dollar), expiresAtMs: expiresAtMs + 7 })),
  ).toMatchObject({
    kind: 'admitted',
    expiresAtMs,
  });
  clock.step(999);
  expect(await ledger.admit(makeAdmitCommand(2, { funds: amount(1n) }))).toMatchObject({
    code: 'insufficient_balance',
  });
  expect(await ledger.findAccount(1)).toMatchObject({ held: 10n * dollar });
  clock.step(1);
  expect(await ledger.listVoidedHolds(1)).toMatchObject([{ id: 1, voidedAtMs: expiresAtMs, reason: 'expired' }]);
  expect(await ledger.findAccount(1)).toMatchObject({ held: 0n });
  expect(await ledger.settle(settleAmount(1, 1n))).toMatchObject({ kind: 'not_held' });
});

test('the money of an expired hold is available to the next command, and an extended expiry is kept', async () => {
  const { ledger, clock } = fixture;
  const expiresAtMs = clock.nowMs + 1000;
  await ledger.admit(makeAdmitCommand(1, { funds: amount(4n * dollar), expiresAtMs }));
  await ledger.admit(makeAdmitCommand(2, { funds: amount(6n * dollar), expiresAtMs }));
  expect(await ledger.extend({ id: 2, nanoUsd: 0n, expiresAtMs: expiresAtMs + 5000 })).toMatchObject({
    kind: 'extended',
    heldNanoUsd: 6n * dollar,
    expiresAtMs: expiresAtMs + 5000,
  });
  clock.step(1000);
  expect(await ledger.admit(makeAdmitCommand(3, { funds: amount(4n * dollar + 1n) }))).toMatchObject({
    kind: 'denied',
  });
  expect(await ledger.admit(makeAdmitCommand(4, { funds: amount(4n * dollar) }))).toMatchObject({ kind: 'admitted' });
  expect(await ledger.extend({ id: 1, nanoUsd: 0n })).toMatchObject({ kind: 'not_held' });
  expect(await ledger.settle(settleAmount(2, 1n))).toMatchObject({ kind: 'settled' });
});

test('new ids are above all that the gateway has used, whatever the clock says and whatever ids other services use', async () => {
  expect(fixture.ledger.lastId).toBe(0);
  await fixture.ledger.admit(makeAdmitCommand(7_000_000_000_000_000));
  await fixture.ledger.admit(makeAdmitCommand(9_007_199_254_740_991, { expiresAtMs: fixture.clock.nowMs + 1000 }));
  await fixture.ledger.admit(makeAdmitCommand(5));
  fixture.clock.step(-365 * 86_400_000);
  await fixture.reopen();
  expect(fixture.ledger.lastId).toBe(7_000_000_000_000_000);
  expect(fixture.ledger.violationsAtStart).toEqual([]);
});

// Only SQLite: its directory is locked.
test.skipIf(isOnPostgres)(
  'a second ledger on the same directory is refused, in this process and in another',
  async () => {
    const options = { dataDir: fixture.dataDir, clock: fixture.clock, dailyLimitUnit: 'dollars', plans } as const;
    await expect(openSqliteLedger(options)).rejects.toMatchObject({ name: 'LedgerStartError', code: 'locked' });
    const script = `
    import { openSqliteLedger } from ${JSON.stringify(join(import.meta.dirname, '../../src/ledger/sqlite/sqlite-ledger.ts'))};
    import { plans } from ${JSON.stringify(join(import.meta.dirname, 'fixture.ts'))};
    const clock = { now: () => Date.now() };
    await openSqliteLedger({ dataDir: ${JSON.stringify(fixture.dataDir)}, clock, dailyLimitUnit: 'dollars', plans })
      .then(() => console.log('opened'), error => console.log(error.code, error.message));`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', chunk => {
      said += String(chunk);
    });
    await once(child, 'exit');
    expect(said).toBe(`locked Another gateway is running on the data directory ${fixture.dataDir}. Stop it first.\n`);
  },
);

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)(
  'a file that a newer version wrote, that has other migrations, or that is not a ledger is refused with the reason',
  async () => {
    const path = join(fixture.dataDir, 'ledger.sqlite');
    await fixture.ledger.close();
    const open = async (change: (db: Database.Database) => void): Promise<unknown> => {
      const db = new Database(path);
      change(db);
      db.close();
      const options = { dataDir: fixture.dataDir, clock: fixture.clock, dailyLimitUnit: 'dollars', plans } as const;
      return openSqliteLedger(options).catch((error: unknown) => error);
    };
    const newer = await open(db => db.exec("INSERT INTO migration VALUES (9000, '9000-from-the-future', 'x', 1)"));
    expect(newer).toBeInstanceOf(LedgerStartError);
    expect(newer).toMatchObject({
      code: 'newer',
      message:
        'The ledger was written by a newer Tollgate (migration 9000-from-the-future). Start that version, or restore a backup made before the upgrade.',
    });
    expect(() => verifyLedgerFile(fixture.dataDir)).toThrow(/newer Tollgate/);
    const changed = await open(db =>
      db.exec("DELETE FROM migration WHERE number = 9000; UPDATE migration SET checksum = 'x' || checksum"),
    );
    expect(changed).toMatchObject({ code: 'changed' });
    const mended = await open(db => db.exec('UPDATE migration SET checksum = substr(checksum, 2)'));
    fixture.ledger = mended as SqliteLedger;
    expect(fixture.ledger.violationsAtStart).toEqual([]);

    const other = temporaryDirectory();
    writeFileSync(
      join(other.path, 'ledger.sqlite'),
      'this is no ledger, and it is longer than a header of a hundred bytes is'.repeat(9),
    );
    const refused = openSqliteLedger({ dataDir: other.path, clock: fixture.clock, dailyLimitUnit: 'dollars', plans });
    await expect(refused).rejects.toMatchObject({ name: 'LedgerStartError', code: 'unreadable' });
    expect(() => verifyLedgerFile(join(other.path, 'nothing'))).toThrow('There is no ledger in');
    other.remove();
  },
);

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)(
  'verify reads the file of a closed or running ledger, and finds what was tampered with',
  async () => {
    await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(100n) }));
    expect(verifyLedgerFile(fixture.dataDir)).toEqual([]);
    expect(await fixture.ledger.verify()).toEqual([]);
    await fixture.ledger.settle(settleAmount(1, 40n));
    const db = new Database(join(fixture.dataDir, 'ledger.sqlite'));
    db.exec('UPDATE account SET balance = balance + 1');
    db.close();
    const violation =
      'violated: an account’s balance is its credits, less what was moved to keys and groups and what its plans and requests cost; account 1 has 9999999961, but its entries and costs add up to 9999999960';
    expect(await fixture.ledger.verify()).toEqual([violation]);
    await fixture.reopen();
    expect(fixture.ledger.violationsAtStart).toEqual([violation]);
    await fixture.ledger.close();
    expect(verifyLedgerFile(fixture.dataDir)).toEqual([violation]);
    const again = new Database(join(fixture.dataDir, 'ledger.sqlite'));
    again.exec('UPDATE account SET balance = balance - 1');
    again.close();
    await fixture.open();
  },
);

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)('records and entries can’t be changed or deleted', async () => {
  await fixture.ledger.admit(makeAdmitCommand(1, { funds: amount(100n) }));
  await fixture.ledger.settle(settleAmount(1, 400n * dollar));
  await fixture.ledger.admit(makeAdmitCommand(2, { funds: undefined }));
  await fixture.ledger.void(2, 'rejected');
  const db = new Database(join(fixture.dataDir, 'ledger.sqlite'));
  for (const table of ['usage', 'entry', 'voided']) {
    expect(() => db.exec(`DELETE FROM ${table}`)).toThrow('only inserted');
    expect(() => db.exec(`UPDATE ${table} SET account_id = account_id`)).toThrow('only inserted');
  }
  expect(() => db.exec('UPDATE account SET balance = -1')).toThrow('CHECK');
  db.close();
});

// Only SQLite: the test changes the file.
test.skipIf(isOnPostgres)('a ledger with 2,000 holds of a crash opens with less than a second of work', async () => {
  await crash(async () => {
    await fixture.ledger.createKey({ accountId: 1, hash: makeHash('many'), masked: '', settings: {} });
    await Promise.all(
      Array.from({ length: 2000 }, (_, n) =>
        fixture.ledger.admit(makeAdmitCommand(n + 1, { funds: amount(1n) }, 'many')),
      ),
    );
  });
  expect(fixture.ledger.voidedHoldsAtStart).toBe(2000);
  expect(fixture.openingCpuMs).toBeLessThan(1000);
});
