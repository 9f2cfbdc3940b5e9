import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import { openForReading } from '../../lib/sqlite/database.ts';
import { checkInvariants } from './invariants.ts';
import { checkMigrations } from '../../lib/sqlite/migrations.ts';
import { ledgerMigrations } from './schema.ts';

/** Returns the path of the ledger's file in a data directory. */
export function ledgerPath(dataDir: string): string {
  return join(dataDir, 'ledger.sqlite');
}

/**
 * Checks every invariant of a data directory's ledger, on one snapshot and read-only, so that a gateway may be running on it.
 * Returns the violations in words; empty if there are none. Throws `LedgerStartError` if there is no ledger or this program
 * can't read it.
 */
export function verifyLedgerFile(dataDir: string): string[] {
  const checked = checkLedgerFile(dataDir);
  if (checked !== 'older') return checked;
  throw new LedgerStartError('unreadable', 'The ledger was written by an older Tollgate: start this one on it first.');
}

/** Like `verifyLedgerFile`, but returns `older` if an older Tollgate wrote the ledger, whose invariants this version can't check. */
export function checkLedgerFile(dataDir: string): string[] | 'older' {
  const path = ledgerPath(dataDir);
  if (!existsSync(path)) throw new LedgerStartError('unreadable', `There is no ledger in ${dataDir}.`);
  const db = openForReading(path);
  try {
    const migrations = ledgerMigrations();
    if (checkMigrations(db, migrations, 'ledger') < migrations.length) return 'older';
    return checkInvariants(db, 'full');
  } finally {
    db.close();
  }
}
