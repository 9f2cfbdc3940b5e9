import { statSync } from 'node:fs';
import { join } from 'node:path';
import { ledgerMigrations } from '../../ledger/sqlite/schema.ts';
import { ledgerPath } from '../../ledger/sqlite/verify.ts';
import { isoTime } from '../../lib/clock.ts';
import { openForReading, sqliteCode } from '../../lib/sqlite/database.ts';
import { countMigrations } from '../../lib/sqlite/migrations.ts';
import { version } from '../../lib/version.ts';
import { documentMigrations } from '../../store/sqlite/documents/document-migrations.ts';
import { documentsPath } from '../../store/sqlite/documents/sqlite-documents.ts';
import { BackupError } from './backup-error.ts';
import { backupsFolder } from './data-files.ts';

/**
 * Backs up a data directory that an older version has written, before anything in it is changed, so that a downgrade is possible. Returns the folder of the backup; undefined if nothing has to be upgraded. Throws `BackupError` if the backup fails; the data is then unchanged.
 */
export async function backUpBeforeUpgrade(dataDir: string, now: () => number): Promise<string | undefined> {
  const isOlder =
    isBehind(ledgerPath(dataDir), ledgerMigrations().length) ||
    isBehind(documentsPath(dataDir), documentMigrations().length);
  if (!isOlder) return undefined;
  const moment = isoTime(now()).replaceAll(/[:.]/g, '-');
  const target = join(dataDir, backupsFolder, `before-${version}-${moment}`);
  // Loaded only for an upgrade, because other starts are faster without it.
  const { makeBackup } = await import('./make-backup.ts');
  try {
    await makeBackup({ dataDir, target, now });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new BackupError(
      `The data directory was written by an older version and could not be backed up before the upgrade: ${reason} Nothing was changed.`,
    );
  }
  return target;
}

/**
 * Returns true if a database exists and lacks migrations. Returns false for a database of a newer version, or that can't be read, because opening it reports what to do.
 */
function isBehind(path: string, known: number): boolean {
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return false;
  try {
    const db = openForReading(path);
    try {
      const done = countMigrations(db);
      return done > 0 && done < known;
    } finally {
      db.close();
    }
  } catch (error) {
    if (sqliteCode(error) === undefined) throw error;
    return false;
  }
}
