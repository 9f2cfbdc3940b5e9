import { migratePostgres } from '../../src/lib/postgres/migrations.ts';
import { readMigrations } from '../../src/lib/sqlite/migrations.ts';
import { createDatabase } from './server.ts';

/** Makes a database with the tables of a gateway. Tests copy it, which is much faster than migrating each database. Returns its URL. */
export async function makeTemplate(serverUrl: string): Promise<string> {
  const url = await createDatabase(serverUrl);
  const src = new URL('../../src/', import.meta.url);
  const ledger = readMigrations(new URL('ledger/postgres/migrations/', src));
  await migratePostgres({ url }, { part: 'ledger', migrations: ledger });
  const documents = readMigrations(new URL('store/postgres/migrations/', src));
  await migratePostgres({ url }, { part: 'documents', migrations: documents });
  return url;
}
