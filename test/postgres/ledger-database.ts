import { inject } from 'vitest';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { createDatabase, readDatabaseName } from './server.ts';

/** Makes a database with a gateway's tables. Returns its URL. */
export function createLedgerDatabase(): Promise<string> {
  return createDatabase(inject('postgresUrl'), readDatabaseName(inject('ledgerTemplate')));
}

/** Ends every connection to a database and refuses new ones, as if it could not be reached. Returns how to open it again. */
export async function closeDatabase(url: string): Promise<() => Promise<void>> {
  const name = readDatabaseName(url);
  const allow = async (isAllowed: boolean): Promise<void> => {
    const connection = await PostgresConnection.open({ url: inject('postgresUrl') });
    await connection.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS ${isAllowed}`);
    if (!isAllowed)
      await connection.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1::name', [name]);
    await connection.end();
  };
  await allow(false);
  return () => allow(true);
}

/** Drops a database, even if there are connections to it. */
export async function dropDatabase(url: string): Promise<void> {
  const connection = await PostgresConnection.open({ url: inject('postgresUrl') });
  await connection.script(`DROP DATABASE IF EXISTS ${readDatabaseName(url)} WITH (FORCE)`, 30_000);
  await connection.end();
}
