import { overloaded } from '../../errors/overloaded.ts';
import { isDatabaseFailure } from '../../lib/postgres/errors.ts';
import { migratePostgres, SchemaError } from '../../lib/postgres/migrations.ts';
import type { PostgresPool } from '../../lib/postgres/pool.ts';
import type { Sendable, Value } from '../../lib/postgres/values.ts';
import { readMigrations } from '../../lib/sqlite/migrations.ts';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';

/** The SQL expression for the current time of the database's clock, in ms. */
export const nowMs = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** Returns the SQL condition that an instance's lease has not ended. `boot`: the column with the instance's number. */
export const isAlive = (boot: string): string =>
  `EXISTS (SELECT 1 FROM instance i WHERE i.boot = ${boot} AND i.lease_until_ms > ${nowMs})`;

/** The parts of the database that the stores need. */
export interface StoreDatabase {
  readonly pool: PostgresPool;
  /** Returns the number of this gateway's instance, which changes if its lease ends. */
  readonly boot: () => number;
}

/** A row: values by the column names of its statement. */
export type Row = Record<string, Value>;

/** Migrates the tables of the stores; the ledger's must be up to date already. Throws `LedgerStartError` if the tables are newer than the program. */
export async function migrateStores(url: string): Promise<void> {
  try {
    const migrations = readMigrations(new URL('migrations/', import.meta.url));
    await migratePostgres({ url }, { part: 'documents', migrations });
  } catch (thrown) {
    if (thrown instanceof SchemaError) throw new LedgerStartError('newer', thrown.message, thrown);
    throw thrown;
  }
}

/** Runs a statement. Throws `overloaded` if the database can't be used now; even then the statement may have taken effect. */
export async function query({ pool }: StoreDatabase, text: string, values: readonly Sendable[] = []): Promise<Row[]> {
  try {
    return await pool.query(text, values);
  } catch (thrown) {
    throw isDatabaseFailure(thrown) ? overloaded('Content can’t be stored now.', thrown) : thrown;
  }
}

/** Returns a value of a row as bytes. Throws if it is anything else. */
export function toBytes(value: Value | undefined): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new Error('a column that must have bytes has another value');
}
