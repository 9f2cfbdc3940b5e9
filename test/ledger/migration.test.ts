import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AnalyticsQuery } from '../../src/ledger/ledger.ts';
import { ledgerMigrations } from '../../src/ledger/sqlite/schema.ts';
import { openSqliteLedger, type SqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { openForWriting } from '../../src/lib/sqlite/database.ts';
import { migrate } from '../../src/lib/sqlite/migrations.ts';
import { makeAdmitCommand, dollar, estimate, plans, settleAmount, temporaryDirectory, TestClock } from './fixture.ts';

/**
 * A data directory as commit 0c78f51 wrote it (16 days of requests by four keys of two accounts, plans, voids, write-offs, a revoked key with held money, live
 * holds of the gateway and of another service), and the results that the ledger of that commit returned. Both were written by a program that ran on that commit.
 */
const folder = join(import.meta.dirname, 'fixtures');
const rows = readFileSync(join(folder, '0c78f51.sql'), 'utf8');
const oldAnswers = JSON.parse(readFileSync(join(folder, '0c78f51.json'), 'utf8'), (_, value: unknown) =>
  typeof value === 'string' && /^\d+n$/.test(value) ? BigInt(value.slice(0, -1)) : value,
) as Record<string, never> & { nowMs: number; keys: unknown[][]; lastId: number };
const oldPlans = {
  ...plans,
  core: { ...plans.core, biweekly: { priceNanoUsd: 2n * dollar, tokens: 10_000 }, freeDailyRequests: 2 },
};

let directory: ReturnType<typeof temporaryDirectory>;
let ledger: SqliteLedger | undefined;
beforeEach(() => {
  directory = temporaryDirectory();
});
afterEach(async () => {
  await ledger?.close();
  expect(verifyLedgerFile(directory.path)).toEqual([]);
  directory.remove();
});

/** Writes the old file, then executes the SQL of `change` on it. */
function writeOldFile(change = ''): void {
  const db = openForWriting(join(directory.path, 'ledger.sqlite'));
  db.pragma('foreign_keys = OFF');
  migrate(db, ledgerMigrations().slice(0, 3), 1, 'ledger');
  db.exec(rows);
  db.exec(change);
  db.close();
}

async function open(): Promise<SqliteLedger> {
  const clock = new TestClock(oldAnswers.nowMs);
  ledger = await openSqliteLedger({ dataDir: directory.path, clock, dailyLimitUnit: 'dollars', plans: oldPlans });
  return ledger;
}

const periods = Object.entries({ hour: 3_600_000, day: 86_400_000 });
/** The sums of records, in the order of their columns. */
const columns = `count(*), sum(state = 'upstream_failed'), sum(input), sum(cache_read), sum(cache_write_5m), sum(cache_write_1h), sum(output),
  sum(reasoning), sum(images), sum(cost), sum(written_off), sum(latency_ms)`;

async function readAnalytics(of: SqliteLedger): Promise<unknown[]> {
  const requested = { startMs: 0, endMs: undefined, limit: 1000 } satisfies Partial<AnalyticsQuery>;
  const found: unknown[] = [];
  for (const accountId of [1, 2]) {
    for (const groupBy of ['none', 'model', 'api_key'] as const) {
      for (const granularity of ['hour', 'day'] as const) {
        found.push(await of.analytics({ ...requested, accountId, groupBy, granularity }));
      }
    }
  }
  return plain(found);
}

/** Returns the recorded sums, plus the two fields that the older program did not have: a provider's cost and the margin, both 0. */
function oldAnalytics(): unknown {
  const sums = oldAnswers['analytics'] as unknown as readonly (readonly object[])[];
  return sums.map(rows => rows.map(row => ({ ...row, providerCostNanoUsd: 0n, marginNanoUsd: 0n })));
}

/** Returns the value as JSON would keep it: without undefined members. Bigints stay bigints. */
function plain<T>(value: T): T {
  const text = JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `${each}n` : each));
  return JSON.parse(text, (_, each: unknown) =>
    typeof each === 'string' && /^\d+n$/.test(each) ? BigInt(each.slice(0, -1)) : each,
  ) as T;
}

test('a file of an older version keeps its keys, records, sums and plans', async () => {
  writeOldFile();
  const opened = await open();
  expect(opened.violationsAtStart).toEqual([]);
  // The holds of the gateway are voided, as at every start.
  expect(opened.voidedHoldsAtStart).toBe(6);
  expect(plain([await opened.listKeys(1), await opened.listKeys(2)])).toEqual(
    oldAnswers.keys.map(keys =>
      keys.map(key =>
        Object.assign(key as object, {
          held: 0n,
          groupId: null,
          tags: {},
          metadata: '{}',
          lowBalance: null,
          keepBodies: null,
          paused: false,
          revoked: false,
        }),
      ),
    ),
  );
  expect(plain(await opened.listManagementKeys(1))).toEqual(oldAnswers['managementKeys']);
  expect(plain(await opened.findSubscription(2))).toEqual(oldAnswers['subscription']);
  const page = { limit: 1000, offset: 0 };
  const activity = [1, 2].map(accountId => opened.listActivity({ accountId, ...page }));
  const records = oldAnswers['activity'] as unknown as object[][];
  expect(plain(await Promise.all(activity))).toEqual(
    records.map(of => of.map(record => ({ ...record, tags: {}, unpriced: [] }))),
  );
  expect(await readAnalytics(opened)).toEqual(oldAnalytics());
  expect(opened.lastId).toBe(oldAnswers.lastId);
  expect(await opened.verify()).toEqual([]);
});

test('a file of an older version keeps its limits and windows', async () => {
  // The program that made the fixture marked requests of any model as free; in the gateway only requests of `:free` models are free, so they get such a model.
  const tables = ['usage', 'hold', 'voided'];
  writeOldFile(`INSERT INTO model (id, name) VALUES (6, 'acme/large:free');
    DROP TRIGGER usage_is_never_changed; DROP TRIGGER voided_is_never_changed;
    ${tables.map(table => `UPDATE ${table} SET model_id = 6 WHERE free = 1;`).join('')}
    DELETE FROM usage_sum WHERE grouped = 'model';
    ${periods.map(([period, ms]) => `INSERT INTO usage_sum SELECT account_id, '${period}', 'model', created_at_ms / ${ms}, model_id, ${columns} FROM usage GROUP BY 1, 4, 5;`).join('')}`);
  const opened = await open();
  const windows = oldAnswers['windows'] as unknown as object[][];
  expect(plain(await Promise.all([1, 2, 3].map(key => opened.windows(key, true))))).toEqual(
    windows.map(ofKey => ofKey.map(window => ({ ...window, unit: 'requests' }))),
  );
  const limits = await opened.listLimits({ accountId: 1 });
  expect(
    limits.map(({ scope, scopeId, unit, window, max, locked }) => [scope, scopeId, unit, window, max, locked]),
  ).toEqual([
    ['account', 1, 'requests', 'minute', 20n, true],
    ['account', 1, 'requests', 'day', 200n, true],
    ['key', 1, 'requests', 'minute', 40n, false],
    ['key', 1, 'usd', 'day', 20n * dollar, false],
    ['key', 1, 'usd', 'month', 30n * dollar, true],
  ]);
});

test('accounts keep their balance and the holds of other services, but not those of the gateway', async () => {
  writeOldFile();
  const opened = await open();
  const [first, second] = oldAnswers['accounts'] as unknown as { balance: bigint }[];
  expect(await opened.findAccount(1)).toMatchObject({ balance: first?.balance, held: dollar + 7n });
  // The revoked key's held money went back to the account when its hold was voided.
  expect(await opened.findAccount(2)).toMatchObject({ balance: (second?.balance ?? 0n) + dollar / 2n, held: 0n });
  expect(await opened.settle(settleAmount(202, 5n))).toMatchObject({ kind: 'settled', costNanoUsd: 5n });
});

test('repeats of commands from before the upgrade are recognized, and new ids follow the old ones', async () => {
  writeOldFile();
  const opened = await open();
  expect(await opened.admit(makeAdmitCommand(219, { funds: estimate() }))).toMatchObject({ kind: 'admitted', id: 219 });
  expect(await opened.admit(makeAdmitCommand(219, { funds: undefined }))).toMatchObject({ code: 'conflict' });
  expect(await opened.void(211, 'cancelled')).toBe('voided');
  expect(await opened.createAccount({ name: 'third', balance: 0n })).toMatchObject({ accountId: 3 });
  expect(await opened.addCredit({ accountId: 2, amount: 1n, note: '' })).toMatchObject({ accountId: 2 });
});

test('sums kept per pair of key and model are converted to sums per key and sums per model', async () => {
  const schema = ledgerMigrations()[0]?.sql ?? '';
  const tables = periods.map(([period, ms]) => {
    const create = new RegExp(`CREATE TABLE usage_${period} [^;]+;`).exec(schema)?.[0] ?? '';
    return `${create} INSERT INTO usage_${period}
      SELECT account_id, created_at_ms / ${ms}, key_id, model_id, ${columns} FROM usage GROUP BY 1, 2, 3, 4;`;
  });
  writeOldFile(
    `DROP TABLE usage_sum; DROP INDEX usage_key_model; DELETE FROM migration WHERE number > 2; ${tables.join('')}`,
  );
  expect(await readAnalytics(await open())).toEqual(oldAnalytics());
});
