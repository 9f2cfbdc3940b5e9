import Database from 'better-sqlite3';

/** A connection to a file of ours. Every integer is read as bigint: money above 2^53 would silently be rounded otherwise. */
export type Connection = Database.Database;

/** A prepared statement; `get` and `all` of reading ones, `run` of the others. */
export interface Query<P extends unknown[], R> {
  get(...values: P): R | undefined;
  all(...values: P): R[];
  run(...values: P): { readonly changes: number; readonly lastInsertRowid: number | bigint };
}

const busyMs = 5000;

/**
 * The writer's connection: WAL, checkpoints left to the caller, because SQLite does not tell when one of its own fails. FULL: every commit is on the disk before it
 * returns. NORMAL: it is with the kernel, and on the disk after the next sync of the log, which is the caller's.
 */
export function openForWriting(path: string, synchronous: 'FULL' | 'NORMAL' = 'FULL'): Connection {
  const db = new Database(path, { timeout: busyMs });
  db.defaultSafeIntegers(true);
  db.pragma('journal_mode = WAL');
  db.pragma(`synchronous = ${synchronous}`);
  db.pragma('wal_autocheckpoint = 0');
  db.pragma('cache_size = -65536');
  db.pragma('foreign_keys = ON');
  return db;
}

/** A connection that only reads. A statement sees all that was committed before it began. Throws where there is no file. */
export function openForReading(path: string): Connection {
  const db = new Database(path, { readonly: true, fileMustExist: true, timeout: busyMs });
  db.defaultSafeIntegers(true);
  db.pragma('query_only = ON');
  db.pragma('cache_size = -16384');
  return db;
}

/** SQLite's code of an error ("SQLITE_FULL"); undefined for errors of other kinds. */
export function sqliteCode(thrown: unknown): string | undefined {
  return thrown instanceof Database.SqliteError ? thrown.code : undefined;
}

/** Whether reading, writing or syncing a file failed. */
export function isIoFailure(thrown: unknown): thrown is Error {
  return sqliteCode(thrown)?.startsWith('SQLITE_IOERR') === true;
}

/** Whether writes may be lost that the operating system had taken, or the file is damaged. */
export function losesWrites(thrown: unknown): thrown is Error {
  const code = sqliteCode(thrown) ?? '';
  return ['SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_DIR_FSYNC', 'SQLITE_CORRUPT', 'SQLITE_NOTADB'].some(bad =>
    code.startsWith(bad),
  );
}

/** An error as SQLite would throw it, for faults on purpose. */
export function sqliteFailure(code: string): Error {
  return new Database.SqliteError(`${code} on purpose`, code);
}

/**
 * Whether storage failed (full, unreadable, busy), and not one command: then the batch is undone and can be tried again. A broken constraint
 * or any other error is the fault of the command that met it.
 */
export function isStorageFailure(thrown: unknown): boolean {
  const code = sqliteCode(thrown);
  if (code === undefined) return false;
  return !['SQLITE_CONSTRAINT', 'SQLITE_MISMATCH', 'SQLITE_TOOBIG', 'SQLITE_RANGE'].some(mild => code.startsWith(mild));
}
