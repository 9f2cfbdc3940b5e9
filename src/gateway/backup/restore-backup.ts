import { closeSync, existsSync, fsyncSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { acquireNodeLock } from '../../ledger/sqlite/node-lock.ts';
import { checkLedgerFile } from '../../ledger/sqlite/verify.ts';
import { makeDirectory } from '../../lib/make-directory.ts';
import { BackupError } from './backup-error.ts';
import { copyFile, syncFolders } from './copy-file.ts';
import { restoreMark } from './data-files.ts';
import { type Manifest, readCheckedManifest } from './manifest.ts';
import { findOldDirectory, type RevokedSince, revokeSince } from './revoke-since.ts';

/** The backup, and its destination. */
export interface RestoreOptions {
  /** The folder of the backup. */
  readonly source: string;
  /** The directory to restore to. It must be empty; if it does not exist, it is created. */
  readonly dataDir: string;
  /** The data directory that was in use until now; absent: the one whose folder `backups` has the backup, if any. */
  readonly oldDataDir?: string | undefined;
}

/** A restored backup. */
export interface Restored {
  readonly manifest: Manifest;
  /** Undefined: an older version of the program wrote the backup, whose keys this one can't change. */
  readonly revoked: RevokedSince | undefined;
}

/**
 * Restores a complete backup to an empty data directory, without the rights that ended after it was made, as far as they are known. Throws `BackupError` if the backup is incomplete or was changed, or if the directory is not empty; then nothing was written. If it fails or is killed later, no gateway starts on the directory until the directory is emptied.
 */
export async function restoreBackup({ source, dataDir, oldDataDir }: RestoreOptions): Promise<Restored> {
  if (!existsSync(source)) throw new BackupError(`There is no backup ${source}.`);
  const old = findOldDirectory(source, oldDataDir);
  const manifest = await readCheckedManifest(source);
  makeDirectory(dataDir);
  checkEmpty(dataDir);
  const lock = acquireNodeLock(dataDir);
  try {
    // Checked again, because a gateway may have started and ended before the lock was taken.
    checkEmpty(dataDir, 'lock.sqlite');
    markIncomplete(dataDir);
    await copyBack(source, dataDir, manifest);
    const violations = checkLedgerFile(dataDir);
    if (violations !== 'older' && violations.length > 0) {
      throw new BackupError(`The ledger of ${source} violates its invariants: ${violations.join('; ')}`);
    }
    const revoked = violations === 'older' ? undefined : await revokeSince(dataDir, old);
    rmSync(join(dataDir, restoreMark));
    await syncFolders(dataDir, []);
    return { manifest, revoked };
  } finally {
    lock.release();
  }
}

/** Throws `BackupError` if a restore to this data directory was not finished, so that it may contain only a part of a backup. */
export function refuseUnfinishedRestore(dataDir: string): void {
  if (!existsSync(join(dataDir, restoreMark))) return;
  throw new BackupError(
    `A restore to the data directory ${dataDir} has not ended. Empty the directory, then run tollgate restore again.`,
  );
}

/** Throws `BackupError` if the directory has files. `own`: a prefix of names of files that may be there. */
function checkEmpty(dataDir: string, own?: string): void {
  const others = readdirSync(dataDir).filter(name => own === undefined || !name.startsWith(own));
  if (others.length === 0) return;
  throw new BackupError(
    `The data directory ${dataDir} is not empty. A backup is restored to an empty one: name it with --data-dir or TOLLGATE_DATA_DIR.`,
  );
}

function markIncomplete(dataDir: string): void {
  const file = openSync(join(dataDir, restoreMark), 'wx', 0o600);
  writeSync(file, 'A restore has not ended. Empty this directory, then run tollgate restore again.\n');
  fsyncSync(file);
  closeSync(file);
}

async function copyBack(source: string, dataDir: string, { files }: Manifest): Promise<void> {
  for (const { path, bytes, sha256 } of files) {
    const copied = await copyFile(join(source, path), join(dataDir, path));
    if (copied.bytes !== bytes || copied.sha256 !== sha256) {
      throw new BackupError(`${join(source, path)} was changed while it was restored. Empty ${dataDir} and try again.`);
    }
  }
  await syncFolders(
    dataDir,
    files.map(({ path }) => path),
  );
}
