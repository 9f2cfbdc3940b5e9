/** How many records are read for pages and sums: the cost must not grow with the number of records in the ledger. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { addUsageRows } from '../../bench/usage-rows.ts';
import { ColumnBuilder } from '../../src/ledger/columns/build.ts';
import { ColumnFile } from '../../src/ledger/columns/column-file.ts';
import { ColumnStore } from '../../src/ledger/columns/column-store.ts';
import type { AnalyticsQuery } from '../../src/ledger/ledger.ts';
import { Activity } from '../../src/ledger/reader/activity.ts';
import { Analytics } from '../../src/ledger/reader/analytics.ts';
import { HistoryReads } from '../../src/ledger/reader/history.ts';
import { migrateLedger } from '../../src/ledger/sqlite/schema.ts';
import { type Connection, openForWriting } from '../../src/lib/sqlite/database.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const endMs = Date.parse('2028-03-01T12:00:00Z');
/** The number of records, 2,000 on each day. */
const rows = 6_000;
const startMs = endMs - 3 * dayMs;

const folder = mkdtempSync(join(tmpdir(), 'tollgate-rows-'));
let db: Connection;
/** The column files of all days except the last, of which only half is over. */
let columns: ColumnStore;
/** Records read from the ledger, and numbers read from column files. */
let read = 0;
let numbers = 0;

beforeAll(() => {
  db = openForWriting(join(folder, 'ledger.sqlite'));
  migrateLedger(db, startMs);
  db.exec("INSERT INTO account (id, name, balance, held, created_at_ms, entries) VALUES (1, '', 1000000, 0, 0, 0)");
  addUsageRows(db, { rows, startMs, endMs, rareEvery: 2_000 }, step => {
    // One request ran for a day and was one of the last to end.
    if (step === 'addUsage')
      db.exec(`CREATE TEMP TABLE one AS SELECT * FROM usage WHERE id = ${(rows * 2) / 3 + 1};
        UPDATE one SET id = ${rows + 1}, request = 1, latency_ms = ${endMs - 1000} - created_at_ms; INSERT INTO usage SELECT * FROM one`);
  });
  columns = new ColumnStore(join(folder, 'columns'));
  const sizes = { recordsOfDaysMin: 500, recordsOfHoursMin: 5_000, recordsOfDayMax: 10_000, recordsCombinedMin: 1 };
  expect(new ColumnBuilder(db, columns, sizes).run(endMs, true)).toBe(3);
  const readColumn = ColumnFile.prototype.read;
  vi.spyOn(ColumnFile.prototype, 'read').mockImplementation(function count(this: ColumnFile, name, span, into) {
    const found = readColumn.call(this, name, span, into);
    numbers += typeof found === 'number' ? 0 : found.length;
    return found;
  });
  // Each record that a statement reads is counted.
  db.function('count_read', (_id: unknown) => {
    read += 1;
    return 1n;
  });
  db.exec('CREATE TEMP VIEW usage AS SELECT * FROM main.usage WHERE count_read(id)');
});
afterAll(() => {
  db.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  read = 0;
  numbers = 0;
});

test('a page of 100 entries and charges reads fewer than 500 of 6,000 records', () => {
  const page = new HistoryReads(db).movements({ accountId: 1, limit: 100, offset: 0, startMs });
  expect(page).toHaveLength(100);
  // This request began long before all others on the page.
  expect(page.some(({ createdAtMs }) => createdAtMs === endMs - 1000)).toBe(true);
  // The page's records are read three times: to find where it starts, to show them, and for their request ids. The records of the ten minutes before them may have
  // ended later, and are read once.
  expect(read).toBeLessThan(500);
});

test('the balances of an old page are computed without the charges that came after it', () => {
  const query = { accountId: 1, limit: 100, offset: 0, endMs: startMs + dayMs };
  const page = new HistoryReads(db, columns).movements(query);
  expect(page).toHaveLength(100);
  // The page's records, and those that are in no file yet: half a day.
  expect(read).toBeLessThan(1_800);
  expect(page).toEqual(new HistoryReads(db).movements(query));
});

function sum(query: Partial<AnalyticsQuery>): number {
  const all = { accountId: 1, startMs: 0, endMs: startMs + 1.5 * dayMs, granularity: 'day', limit: 1000 } as const;
  return new Analytics(db, columns).read({ ...all, groupBy: 'none', ...query }).length;
}

test('sums by day read the combined rows of column files instead of records, and each column only once', () => {
  const files = columns.list(1).slice(0, 2);
  const headers = files.map(stored => {
    const file = columns.open(1, stored);
    file?.close();
    return file?.header;
  });
  const records = headers.reduce((total, header) => total + (header?.rows ?? 0), 0);
  const combined = headers.reduce((total, header) => total + (header?.combined?.rows ?? 0), 0);
  expect([records, combined > 0, combined < records * 0.7]).toEqual([2_999, true, true]);
  expect(sum({ groupBy: { tag: 'team' }, provider: 'provider-1' })).toBeGreaterThan(10);
  // Two columns for filters or groups, and nine for amounts.
  expect(numbers).toBeLessThanOrEqual(combined * 11);
  expect(read).toBe(0);
});

test('the requests of a rare provider are found in column files, and only they are read from the ledger', () => {
  const filter = { accountId: 1, limit: 100, offset: 0, provider: 'provider-4', endMs: startMs + 2.3 * dayMs };
  expect(new Activity(db, columns).list(filter)).toHaveLength(2);
  // Each is read once to find it by its time, and once to show it.
  expect(read).toBe(4);
});
