import { inject } from 'vitest';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { createDatabase } from './server.ts';

/** Makes a database with a gateway's tables. Returns its URL. */
export function createLedgerDatabase(): Promise<string> {
  return createDatabase(inject('postgresUrl'), nameOf(inject('ledgerTemplate')));
}

/** Drops a database, even if there are connections to it. */
export async function dropDatabase(url: string): Promise<void> {
  const connection = await PostgresConnection.open({ url: inject('postgresUrl') });
  await connection.script(`DROP DATABASE IF EXISTS ${nameOf(url)} WITH (FORCE)`, 30_000);
  await connection.end();
}

function nameOf(url: string): string {
  return new URL(url.replace('postgres://postgres@/', 'postgres://postgres@socket/')).pathname.slice(1);
}
