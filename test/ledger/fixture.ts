import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../src/lib/clock.ts';
import type { LimitRow, NewLimit } from '../../src/ledger/ledger.ts';
import {
  openSqliteLedger,
  type SqliteLedger,
  type SqliteLedgerOptions,
} from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { dollar, makeHash, plans } from './commands.ts';
import { writeEmptyLedger } from './empty-ledger.ts';
import { openInlineLedger } from './inline-ledger.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { openForReading } from '../../src/lib/sqlite/database.ts';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';

export {
  amount,
  dollar,
  estimate,
  makeAdmitCommand,
  makeHash,
  makeSettleCommand,
  noUsage,
  plans,
  settleAmount,
  sheet,
} from './commands.ts';

/** Shared parts of the ledger's tests: a ledger, a clock that tests set, functions that make commands, a temporary directory. */

/** A clock whose time changes only when a test sets or steps it. */
export class TestClock implements Clock {
  nowMs: number;

  constructor(start: string | number = '2026-05-10T12:00:00Z') {
    this.nowMs = typeof start === 'number' ? start : Date.parse(start);
  }

  now(): number {
    return this.nowMs;
  }

  /** Moves the clock by `byMs`; back if negative. */
  step(byMs: number): void {
    this.nowMs += byMs;
  }

  set(time: string): void {
    this.nowMs = Date.parse(time);
  }
}

/** Makes an empty directory. Returns its path and how to remove it. */
export function temporaryDirectory(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'tollgate-ledger-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** A ledger of either engine. */
export type TestLedger = SqliteLedger | PostgresLedger;

/** A ledger with account 1 and its key 1 (named "key"), in a temporary directory. */
export interface LedgerFixture {
  readonly clock: TestClock;
  readonly dataDir: string;
  ledger: TestLedger;
  /** CPU time of the last opening, in ms, over all threads. It does not include other work on the machine. */
  openingCpuMs: number;
  /** Opens the ledger after it was closed. */
  open(): Promise<void>;
  /** Closes the ledger and opens it again. */
  reopen(): Promise<void>;
  /** Runs a query on the file or the database. */
  query(text: string): Promise<readonly Record<string, unknown>[]>;
  /** Makes the database fail until the returned function is called; undefined on SQLite, where the option `fault` does that. */
  readonly failDatabase: (() => Promise<() => Promise<void>>) | undefined;
  /** Closes the ledger, checks every invariant, and removes its directory. Throws if an invariant does not hold. */
  end(): Promise<void>;
}

/** Makes a limit of one request a day of key 1, with these changes. Throws if the ledger refuses it. */
export async function makeLimit(ledger: LedgerFixture['ledger'], change: Partial<NewLimit>): Promise<LimitRow> {
  const made = await ledger.createLimit({
    accountId: 1,
    scope: 'key',
    scopeId: 1,
    unit: 'requests',
    window: 'day',
    max: 1n,
    timeZone: 'UTC',
    models: null,
    endUsers: 'all',
    action: 'refuse',
    raised: null,
    locked: false,
    ...change,
  });
  if (typeof made === 'string') throw new Error(made);
  return made;
}

/** Opens a ledger for a test; `balance` in nano-dollars. `isInline`: on SQLite it has no threads, see `openInlineLedger`. */
export async function openFixture(
  options: Partial<SqliteLedgerOptions> & { balance?: bigint; isInline?: boolean } = {},
): Promise<LedgerFixture> {
  const directory = temporaryDirectory();
  const clock = new TestClock();
  const { balance = 10n * dollar, isInline = false, ...rest } = options;
  const all: SqliteLedgerOptions = { dataDir: directory.path, clock, dailyLimitUnit: 'dollars', plans, ...rest };
  const { open, verify, query, failDatabase } = await chooseEngine(all, isInline);
  const first = await open();
  await first.bootstrap({
    accountName: 'default',
    balance,
    apiKey: { hash: makeHash('key'), masked: 'sk-tg-abcd…wxyz' },
    managementKey: { hash: makeHash('management'), masked: 'mk-tg-abcd…wxyz', scopes: ['keys:read'] },
  });
  const fixture: LedgerFixture = {
    clock,
    dataDir: directory.path,
    ledger: first,
    openingCpuMs: 0,
    async open() {
      const before = process.cpuUsage();
      fixture.ledger = await open();
      const { user, system } = process.cpuUsage(before);
      fixture.openingCpuMs = (user + system) / 1000;
    },
    async reopen() {
      await fixture.ledger.close();
      await fixture.open();
    },
    query,
    failDatabase,
    async end() {
      const openViolations = await verify(fixture.ledger);
      await fixture.ledger.close();
      const violations = openViolations ?? verifyLedgerFile(directory.path);
      directory.remove();
      if (violations.length > 0) throw new Error(violations.join('\n'));
    },
  };
  return fixture;
}

/** True if the tests of the ledger run on PostgreSQL (`npm run test:postgres`). */
export const isOnPostgres = process.env['TOLLGATE_TEST_ENGINE'] === 'postgres';

interface TestEngine {
  /** Environment variables that give the URL of the ledger's database to a gateway or a `tollgate` command; none on SQLite. */
  readonly environment: Readonly<Record<string, string>>;
  open(): Promise<TestLedger>;
  /** Returns the violations in an open ledger; undefined on SQLite, where its file is checked after it is closed. */
  verify(ledger: TestLedger): Promise<string[] | undefined>;
  query(text: string): Promise<readonly Record<string, unknown>[]>;
  /** Only on PostgreSQL. */
  readonly failDatabase: LedgerFixture['failDatabase'];
}

/** Returns the engine on which the tests run, for a ledger with these options. On PostgreSQL it gets a new database. */
export async function chooseEngine(options: SqliteLedgerOptions, isInline = false): Promise<TestEngine> {
  if (!isOnPostgres) {
    writeEmptyLedger(options.dataDir);
    const query = (text: string): Promise<readonly Record<string, unknown>[]> => {
      const db = openForReading(join(options.dataDir, 'ledger.sqlite'));
      const rows = db.prepare<[], Record<string, unknown>>(text).all();
      db.close();
      return Promise.resolve(rows);
    };
    return {
      open: () => (isInline ? Promise.resolve(openInlineLedger(options)) : openSqliteLedger(options)),
      verify: () => Promise.resolve(undefined),
      query,
      failDatabase: undefined,
      environment: {},
    };
  }
  const { dataDir: _, fault: __, ...same } = options;
  // Imported lazily: it needs Vitest, which processes that tests start don't have.
  const { closeDatabase, createLedgerDatabase } = await import('../postgres/ledger-database.ts');
  const url = await createLedgerDatabase();
  return {
    open: () => openPostgresLedger({ ...same, url, drivesTime: true }),
    verify: ledger => ledger.verify(),
    failDatabase: () => closeDatabase(url),
    environment: { TOLLGATE_DATABASE_URL: url },
    query: async text => {
      const connection = await PostgresConnection.open({ url });
      const rows = await connection.query(text);
      await connection.end();
      return rows;
    },
  };
}
