import Database from 'better-sqlite3';

/** A connection to one of the gateway's databases. It reads every integer as a bigint, because numbers would round money above 2^53. */
export type Connection = Database.Database;

/** A prepared statement: `get` and `all` read, `run` writes. */
export interface Query<P extends unknown[], R> {
  get(...values: P): R | undefined;
  all(...values: P): R[];
  run(...values: P): { readonly changes: number; readonly lastInsertRowid: number | bigint };
}

/** How long a statement waits for the lock of another connection. */
const busyMs = 5000;

/**
 * Opens a connection for the writer, in WAL mode. The caller makes the checkpoints, because SQLite does not report that an
 * automatic one has failed. FULL: a commit is on the disk when it returns. NORMAL: a commit is in the operating system's
 * cache, and on the disk after the next sync of the log, which the caller makes.
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

/**
 * Opens a read-only connection. A statement sees everything that was committed before it began. Throws if the file
 * does not exist.
 */
export function openForReading(path: string): Connection {
  const db = new Database(path, { readonly: true, fileMustExist: true, timeout: busyMs });
  db.defaultSafeIntegers(true);
  db.pragma('query_only = ON');
  db.pragma('cache_size = -16384');
  return db;
}

/** Returns the SQLite code of an error ("SQLITE_FULL"); undefined if it is not an error of SQLite. */
export function sqliteCode(thrown: unknown): string | undefined {
  return thrown instanceof Database.SqliteError ? thrown.code : undefined;
}

/** Returns whether reading, writing or syncing a file failed. */
export function isIoFailure(thrown: unknown): thrown is Error {
  return sqliteCode(thrown)?.startsWith('SQLITE_IOERR') === true;
}

/** Returns whether the error means that accepted writes may be lost, or that the file is damaged. */
export function mayLoseWrites(thrown: unknown): thrown is Error {
  const code = sqliteCode(thrown) ?? '';
  return ['SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_DIR_FSYNC', 'SQLITE_CORRUPT', 'SQLITE_NOTADB'].some(prefix =>
    code.startsWith(prefix),
  );
}

/** Rebuilds an error of SQLite that was caught on another thread, from its message and its code ("SQLITE_FULL"). */
export function sqliteError(message: string, code: string): Error {
  return new Database.SqliteError(message, code);
}

/** Returns an error like SQLite's, which a test injects as a fault. */
export function injectedSqliteError(code: string): Error {
  return sqliteError(`${code} on purpose`, code);
}

/**
 * Returns whether storage itself failed (full, unreadable, busy): no command caused it, so a caller can roll back its whole transaction and
 * retry it. Other errors, such as a violated constraint, are caused by a single command.
 */
export function isStorageFailure(thrown: unknown): boolean {
  const code = sqliteCode(thrown);
  if (code === undefined) return false;
  return !['SQLITE_CONSTRAINT', 'SQLITE_MISMATCH', 'SQLITE_TOOBIG', 'SQLITE_RANGE'].some(prefix =>
    code.startsWith(prefix),
  );
}
