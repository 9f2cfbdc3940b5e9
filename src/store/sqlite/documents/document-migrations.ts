import { type Migration, readMigrations } from '../../../lib/sqlite/migrations.ts';

/** Returns the migrations of the documents' file, in order. */
export function documentMigrations(): Migration[] {
  return readMigrations(new URL('migrations/', import.meta.url));
}
