import { inject } from 'vitest';
import { migratePostgres } from '../../src/lib/postgres/migrations.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { readMigrations } from '../../src/lib/sqlite/migrations.ts';
import { createDatabase } from './server.ts';

/** URL of this process's migrated template. Copying it is much faster than migrating each database. */
let template: Promise<string> | undefined;

async function makeTemplate(): Promise<string> {
  const url = await createDatabase(inject('postgresUrl'));
  const migrations = readMigrations(new URL('../../src/ledger/postgres/migrations/', import.meta.url));
  await migratePostgres({ url }, { part: 'ledger', migrations });
  return url;
}

/** Makes a database with the ledger's tables. Returns its URL. */
export async function createLedgerDatabase(): Promise<string> {
  template ??= makeTemplate();
  const source = await template;
  return createDatabase(inject('postgresUrl'), readDatabaseName(source));
}

/** Drops a database, even if there are connections to it. */
export async function dropDatabase(url: string): Promise<void> {
  const connection = await PostgresConnection.open({ url: inject('postgresUrl') });
  await connection.script(`DROP DATABASE IF EXISTS ${readDatabaseName(url)} WITH (FORCE)`, 30_000);
  await connection.end();
}

function readDatabaseName(url: string): string {
  return new URL(url.replace('postgres://postgres@/', 'postgres://postgres@socket/')).pathname.slice(1);
}
