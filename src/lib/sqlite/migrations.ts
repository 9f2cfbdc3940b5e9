import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { LedgerStartError } from './start-error.ts';
import type { Connection } from './database.ts';

/** A change of the schema. There are no migrations back. A released migration never changes, not even its comments, because its checksum is stored. */
export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
}

/** Returns the migrations in a folder: the files `NNNN-name.sql`, in order. */
export function readMigrations(folder: URL): Migration[] {
  const files = readdirSync(folder).filter(file => file.endsWith('.sql'));
  return files.sort().map(name => ({
    number: Number.parseInt(name, 10),
    name: name.slice(0, -'.sql'.length),
    sql: readFileSync(new URL(name, folder), 'utf8'),
  }));
}

function checksum(migration: Migration): string {
  return createHash('sha256').update(migration.sql).digest('hex');
}

/** Returns the migrations that were applied to a file; empty for a new one. */
function applied(db: Connection): { number: bigint; name: string; checksum: string }[] {
  const known = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migration'").get();
  if (known === undefined) return [];
  return db
    .prepare<[], { number: bigint; name: string; checksum: string }>(
      'SELECT number, name, checksum FROM migration ORDER BY number',
    )
    .all();
}

/** Returns how many migrations a file has; 0 for a new one. */
export function countMigrations(db: Connection): number {
  return applied(db).length;
}

/**
 * Throws `LedgerStartError` if a file can't be used by a program with these migrations: `newer` if it has migrations
 * that the program lacks, `changed` if one differs. Returns how many of them the file has. `file`: its name for messages.
 */
export function checkMigrations(db: Connection, migrations: readonly Migration[], file: string): number {
  const done = applied(db);
  for (const [index, row] of done.entries()) {
    const own = migrations[index];
    if (own === undefined) {
      throw new LedgerStartError(
        'newer',
        `The ${file} was written by a newer Tollgate (migration ${row.name}). Start that version, or restore a backup made before the upgrade.`,
      );
    }
    if (own.number !== Number(row.number) || checksum(own) !== row.checksum) {
      throw new LedgerStartError(
        'changed',
        `The ${file} was made by a different program: its migration ${row.name} is not this program's ${own.name}.`,
      );
    }
  }
  return done.length;
}

/**
 * Migrates a file, each migration in a separate transaction. Throws like `checkMigrations`, or SQLite's
 * error.
 */
export function migrate(db: Connection, migrations: readonly Migration[], nowMs: number, file: string): void {
  for (const migration of migrations.slice(checkMigrations(db, migrations, file))) {
    db.transaction(() => {
      db.exec(
        `CREATE TABLE IF NOT EXISTS migration (
           number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at_ms INTEGER NOT NULL
         ) STRICT`,
      );
      db.exec(migration.sql);
      db.prepare('INSERT INTO migration (number, name, checksum, applied_at_ms) VALUES (?, ?, ?, ?)').run(
        migration.number,
        migration.name,
        checksum(migration),
        nowMs,
      );
    }).immediate();
  }
}
