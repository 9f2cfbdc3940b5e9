import { createHash } from 'node:crypto';
import type { Migration } from '../sqlite/migrations.ts';
import { PostgresConnection, type PostgresOptions } from './connection.ts';
import { ConnectionLost } from './errors.ts';

/** Thrown if a newer or a different program has written the database. The message is for the operator. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

/** How long a migration may take, and how long it waits for another process that migrates. */
const migrationMs = 600_000;

/** One part of the schema, and its migrations in order. */
export interface SchemaPart {
  /** The name of the part, which is also the key of its row in `schema_version`. */
  readonly part: string;
  readonly migrations: readonly Migration[];
}

/** The number of the advisory lock for creating the table of versions: an arbitrary number, the same in every process. */
const creationLock = 8_105_111;

/**
 * Migrates a part of a database's schema. Each migration is a transaction that locks the part's row in
 * `schema_version`, so that several processes run each migration only once, and an interrupted run continues with the
 * next migration. Throws `SchemaError` if the database is newer than the program, or if other migrations made it.
 */
export async function migratePostgres(options: PostgresOptions, schema: SchemaPart): Promise<void> {
  const connection = await PostgresConnection.open(options);
  try {
    await createVersions(connection, schema.part);
    const checksums = schema.migrations.map(each => createHash('sha256').update(each.sql).digest('hex'));
    for (;;) if (!(await migrateNext(connection, schema, checksums))) return;
  } finally {
    await connection.end();
  }
}

async function createVersions(connection: PostgresConnection, part: string): Promise<void> {
  // `IF NOT EXISTS` alone fails if two processes create the table at the same time.
  await connection.script(
    `BEGIN; SELECT pg_advisory_xact_lock(${creationLock}); CREATE TABLE IF NOT EXISTS schema_version (
       part text PRIMARY KEY, version integer NOT NULL, checksums text NOT NULL DEFAULT ''); COMMIT`,
  );
  await connection.query(
    'INSERT INTO schema_version (part, version) VALUES ($1::text, 0) ON CONFLICT (part) DO NOTHING',
    [part],
  );
}

/** Runs the next migration. Returns false if there is none. */
async function migrateNext(
  connection: PostgresConnection,
  { part, migrations }: SchemaPart,
  checksums: readonly string[],
): Promise<boolean> {
  await connection.script('BEGIN');
  try {
    const [row] = await connection.query(
      'SELECT version, checksums FROM schema_version WHERE part = $1::text FOR UPDATE',
      [part],
      migrationMs,
    );
    const version = Number(row?.['version'] ?? 0n);
    checkVersion(part, { version, appliedChecksums: String(row?.['checksums'] ?? '') }, checksums);
    const next = migrations[version];
    if (next !== undefined) {
      await connection.script(next.sql, migrationMs);
      await connection.query(
        'UPDATE schema_version SET version = $2::integer, checksums = $3::text WHERE part = $1::text',
        [part, version + 1, checksums.slice(0, version + 1).join(' ')],
      );
    }
    await connection.script('COMMIT');
    return next !== undefined;
  } catch (error) {
    if (!(error instanceof ConnectionLost)) await connection.script('ROLLBACK');
    throw error;
  }
}

/** `appliedChecksums`: the SHA-256 of each applied migration, separated by spaces. */
function checkVersion(
  part: string,
  { version, appliedChecksums }: { readonly version: number; readonly appliedChecksums: string },
  checksums: readonly string[],
): void {
  if (version > checksums.length) {
    throw new SchemaError(
      `The database was written by a newer Tollgate (schema of ${part}: ${version}, this program knows ${checksums.length}). Start that version, or restore a backup made before the upgrade.`,
    );
  }
  if (appliedChecksums !== checksums.slice(0, version).join(' ')) {
    throw new SchemaError(`The database's schema of ${part} was not made by this program's migrations.`);
  }
}
