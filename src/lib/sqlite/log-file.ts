import { existsSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { type Connection, isIoFailure, mayLoseWrites, openForReading, openForWriting, sqliteCode } from './database.ts';
import { LedgerStartError } from './start-error.ts';
import { StorageLost } from './storage-lost.ts';

/** How long to wait for another process to close a file when this one starts. */
const sharedMs = 2000;

/** A log after a checkpoint. */
export interface LogAfter {
  readonly pages: number;
  /** Whether all these pages were moved. If no commit was added meanwhile, the next one starts the log again from its beginning. */
  readonly isMoved: boolean;
}

/**
 * Moves committed pages from a database's log into the file. PASSIVE blocks no one and skips pages that readers still need; TRUNCATE waits for
 * these readers and empties the log. Returns what the log is then like. Throws `StorageLost` if reading, writing or
 * syncing failed, else SQLite's error (a full disk, a log that can't be emptied).
 */
export function checkpoint(db: Connection, mode: 'PASSIVE' | 'TRUNCATE'): LogAfter {
  try {
    const [row] = db.pragma(`wal_checkpoint(${mode})`) as { log: number | bigint; checkpointed: number | bigint }[];
    const pages = Number(row?.log ?? 0);
    return { pages, isMoved: Number(row?.checkpointed ?? 0) === pages };
  } catch (error) {
    // When the log is emptied, everything is already in the file and synced, so failing to empty it loses nothing.
    throw isIoFailure(error) && sqliteCode(error) !== 'SQLITE_IOERR_TRUNCATE' ? new StorageLost(error) : error;
  }
}

/** Returns the size of a database's log in bytes; 0 if there is none. */
export function logBytes(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}

/**
 * Returns true if the last process that wrote a file ended without `removeLog`, because its log or the log's index still exists. Must be called
 * before anything opens the file.
 */
export function endedEarly(path: string): boolean {
  return existsSync(`${path}-wal`) || existsSync(`${path}-shm`);
}

/** Removes the empty log of a file that no connection has open. A log that is not empty or can't be removed stays for the next start. */
export function removeLog(path: string): void {
  if (logBytes(path) > 0) return;
  try {
    // SQLite removes the log with the last connection that may write.
    const db = openForWriting(path);
    db.pragma('user_version');
    db.close();
  } catch {
    // The next start then looks for damage, which takes a second.
  }
}

/** Runs `work`, which opens a file. Throws `LedgerStartError` with the advice if the file is damaged or is not a database. */
export function refusingDamage<T>(path: string, advice: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!mayLoseWrites(error)) throw error;
    const [code, what] =
      sqliteCode(error) === 'SQLITE_NOTADB'
        ? (['unreadable', 'is no database'] as const)
        : (['damaged', 'is damaged'] as const);
    throw new LedgerStartError(code, `${path} ${what} (${error.message}). ${advice}`, error);
  }
}

/** Throws `LedgerStartError` if SQLite finds damage in the open file. `advice`: what the operator can do. */
export function refuseDamaged(db: Connection, path: string, advice: string): void {
  const found = db
    .prepare<[], { quick_check: string }>('PRAGMA quick_check(3)')
    .all()
    .map(row => row.quick_check);
  if (found.length === 1 && found[0] === 'ok') return;
  throw new LedgerStartError('damaged', `${path} is damaged (${found.join('; ')}). ${advice}`);
}

/**
 * Opens a connection that keeps SQLite from emptying a file's log when the other connections of this process close, because the operating system may have lost pages of the file. The caller closes it once the file was closed properly. Returns undefined if there is no SQLite file.
 */
export function holdLog(path: string): Connection | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const db = openForReading(path);
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
    return db;
  } catch {
    // If the file can't be opened, opening it for writing reports why.
    return undefined;
  }
}

/** Throws `LedgerStartError` (`locked`) if another process has the file open, even if the lock file is gone. */
export function refuseShared(path: string, message: string): void {
  if (!existsSync(path)) return;
  let db: Connection | undefined;
  try {
    db = new Database(path, { timeout: sharedMs });
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE; ROLLBACK');
  } catch (error) {
    // Anything else that is wrong with the file is reported when it is opened for writing.
    if (sqliteCode(error)?.startsWith('SQLITE_BUSY') === true) throw new LedgerStartError('locked', message, error);
  } finally {
    db?.close();
  }
}
