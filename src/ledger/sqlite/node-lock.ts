import { join } from 'node:path';
import Database from 'better-sqlite3';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import { sqliteCode } from '../../lib/sqlite/database.ts';

// Keeps the connections referenced: otherwise they would be garbage-collected, and their locks released.
const locks = new Map<string, Database.Database>();

/**
 * Makes this process the only one that serves the data directory, until `release`. The lock belongs to the operating system, so a killed
 * process leaves none behind. Throws `LedgerStartError` (`locked`) if another process has it.
 */
export function acquireNodeLock(dataDir: string): { release(): void } {
  const path = join(dataDir, 'lock.sqlite');
  let db: Database.Database | undefined;
  try {
    db = new Database(path, { timeout: 0 });
    db.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    db?.close();
    if (sqliteCode(error)?.startsWith('SQLITE_BUSY') === true) {
      throw new LedgerStartError(
        'locked',
        `Another gateway is running on the data directory ${dataDir}. Stop it first.`,
        error,
      );
    }
    const reason = error instanceof Error ? error.message : String(error);
    throw new LedgerStartError('unreadable', `The data directory ${dataDir} can't be locked: ${reason}.`, error);
  }
  const held = db;
  locks.set(path, held);
  return {
    release() {
      locks.delete(path);
      held.close();
    },
  };
}
