/** A database of an older version keeps its rows: every row of a table that a migration rebuilds has the same values afterwards. */
import { expect, inject, test } from 'vitest';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { migratePostgres } from '../../src/lib/postgres/migrations.ts';
import { readMigrations } from '../../src/lib/sqlite/migrations.ts';
import { createDatabase } from './server.ts';

const migrations = readMigrations(new URL('../../src/ledger/postgres/migrations/', import.meta.url));

/** Values that the constraints of a table require. Every other column gets a different number. */
const bound: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  account: { balance: 900, held: 800, suspended: 'write_offs' },
  usage_sum: { period: 1, grouped: 4 },
  key_day: { spent: 900, spent_own: 800 },
  hold: { free: 1, payer: 2, payers: 3, first_spent: 4, text: 5 },
};

test('accounts, sums, days and holds of the first schema are the same in the current one', async () => {
  const url = await createDatabase(inject('postgresUrl'));
  await migratePostgres({ url }, { part: 'ledger', migrations: migrations.slice(0, 1) });
  const connection = await PostgresConnection.open({ url });
  const read = async (table: string): Promise<unknown> => {
    const [row] = await connection.query(`SELECT to_jsonb(t)::text AS row FROM ${table} t`);
    return JSON.parse(String(row?.['row']));
  };
  const before: Record<string, unknown> = {};
  for (const [table, given] of Object.entries(bound)) {
    const columns = await connection.query(
      'SELECT column_name AS name FROM information_schema.columns WHERE table_name = $1::text',
      [table],
    );
    const row = Object.fromEntries(columns.map(({ name }, index) => [String(name), index + 100]));
    await connection.query(
      `INSERT INTO ${table} SELECT * FROM jsonb_populate_record(NULL::${table}, $1::text::jsonb)`,
      [JSON.stringify({ ...row, ...given })],
    );
    before[table] = await read(table);
  }
  await connection.end();
  await migratePostgres({ url }, { part: 'ledger', migrations });
  const after = await PostgresConnection.open({ url });
  for (const [table, row] of Object.entries(before)) {
    const [found] = await after.query(`SELECT to_jsonb(t)::text AS row FROM ${table} t`);
    expect(JSON.parse(String(found?.['row']))).toEqual(row);
  }
  const indexes = await after.query("SELECT indexname AS name FROM pg_indexes WHERE tablename = 'hold' ORDER BY 1");
  expect(indexes.map(({ name }) => name)).toEqual(['hold_expiry', 'hold_pkey']);
  await after.end();
});
