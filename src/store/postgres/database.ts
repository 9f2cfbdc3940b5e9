import { overloaded } from '../../errors/overloaded.ts';
import { isDatabaseFailure } from '../../lib/postgres/errors.ts';
import { migratePostgres, SchemaError } from '../../lib/postgres/migrations.ts';
import type { PostgresPool } from '../../lib/postgres/pool.ts';
import type { Sendable, Value } from '../../lib/postgres/values.ts';
import { readMigrations } from '../../lib/sqlite/migrations.ts';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';

/** Now, by the database's clock, in ms. */
export const nowMs = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** Is true of instances that hold a lease; `boot` names the column. */
export const isAlive = (boot: string): string =>
  `EXISTS (SELECT 1 FROM instance i WHERE i.boot = ${boot} AND i.lease_until_ms > ${nowMs})`;

/** The database as the stores use it. */
export interface StoreDatabase {
  readonly pool: PostgresPool;
  /** Returns the number of this gateway's instance, which changes if its lease has ended. */
  readonly boot: () => number;
}

/** A row as its statement names it. */
export type Row = Record<string, Value>;

/** Brings the tables of the stores up to date; those of the ledger must be. Throws `LedgerStartError` if they are newer than the program. */
export async function migrateStores(url: string): Promise<void> {
  try {
    const migrations = readMigrations(new URL('migrations/', import.meta.url));
    await migratePostgres({ url }, { part: 'documents', migrations });
  } catch (thrown) {
    if (thrown instanceof SchemaError) throw new LedgerStartError('newer', thrown.message, thrown);
    throw thrown;
  }
}

/** Runs a statement. Throws `overloaded` if the database can't be used now; the statement may have been done then. */
export async function query({ pool }: StoreDatabase, text: string, values: readonly Sendable[] = []): Promise<Row[]> {
  try {
    return await pool.query(text, values);
  } catch (thrown) {
    throw isDatabaseFailure(thrown) ? overloaded('Content can’t be stored now.', thrown) : thrown;
  }
}

/** Reads bytes of a row. */
export function toBytes(value: Value | undefined): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new Error('a row has no bytes where they belong');
}
