import { existsSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { checkLedgerFile, ledgerPath } from '../../ledger/sqlite/verify.ts';
import { isoTime } from '../../lib/clock.ts';
import { makeDirectory } from '../../lib/make-directory.ts';
import { Snapshot } from '../../lib/sqlite/snapshot.ts';
import { version } from '../../lib/version.ts';
import { BackupError } from './backup-error.ts';
import { copyFile, type FileSum, sumFile, syncFolders } from './copy-file.ts';
import { backupsFolder, type DataFiles, listDataFiles, restoreMark } from './data-files.ts';
import { type Manifest, writeManifest } from './manifest.ts';

/** The directory to back up, and the target. */
export interface BackupOptions {
  readonly dataDir: string;
  /** Created with mode 0700; if it exists, it must be empty. */
  readonly target: string;
  /** Returns the current time in ms. */
  readonly now: () => number;
}

/**
 * Copies a data directory to a new folder, with or without a running gateway: all databases as of one moment, then the files. Checks the invariants of the copied ledger, unless an older version of the program wrote it. Throws `BackupError`, or
 * the error of the file system or SQLite; then the copy is removed.
 */
export async function makeBackup({ dataDir, target, now }: BackupOptions): Promise<Manifest> {
  checkSource(dataDir);
  const isNew = makeTarget(dataDir, target);
  try {
    const found = listDataFiles(dataDir);
    const snapshot = new Snapshot(found.databases.map(path => join(dataDir, path)));
    let createdAt: string;
    const files: Manifest['files'] = [];
    try {
      createdAt = isoTime(now());
      // Lists the files again: a document in the snapshot may name an image that was stored after the first listing.
      files.push(
        ...(await copyAll(dataDir, target, { ...listDataFiles(dataDir), databases: found.databases }, snapshot)),
      );
    } finally {
      snapshot.close();
    }
    const check = checkLedgerFile(target);
    if (check !== 'older' && check.length > 0) {
      throw new BackupError(`The ledger violates its invariants; nothing was backed up: ${check.join('; ')}`);
    }
    await syncFolders(
      target,
      files.map(({ path }) => path),
    );
    const manifest = { tollgate: version, created_at: createdAt, files };
    await writeManifest(target, manifest);
    return manifest;
  } catch (error) {
    removeMade(target, isNew);
    throw error;
  }
}

function checkSource(dataDir: string): void {
  if (!existsSync(ledgerPath(dataDir))) throw new BackupError(`There is no ledger in ${dataDir}.`);
  if (existsSync(join(dataDir, restoreMark))) {
    throw new BackupError(`A restore to ${dataDir} was not finished: there is nothing to back up.`);
  }
}

/** Creates the folder. Returns false if it existed, and throws if it was not empty or would be part of its own backup. */
function makeTarget(dataDir: string, target: string): boolean {
  const own = realpathSync(dataDir);
  const place = relative(own, join(resolveNewPath(dirname(resolve(target))), basename(resolve(target))));
  const isInside = place === '' || !(place.startsWith('..') || resolve(place) === place);
  if (isInside && !place.startsWith(`${backupsFolder}/`)) {
    throw new BackupError(
      `${target} is in the data directory, which would then be part of its own backup. Name a folder elsewhere, or one in ${join(dataDir, backupsFolder)}.`,
    );
  }
  const isNew = !existsSync(target);
  makeDirectory(target);
  if (!isNew && readdirSync(target).length > 0) {
    throw new BackupError(`${target} is not empty. Name a new folder for the backup.`);
  }
  return isNew;
}

/** Returns a folder's path with links resolved; its last parts may not exist yet. */
function resolveNewPath(path: string): string {
  if (existsSync(path) || dirname(path) === path) return realpathSync(path);
  return join(resolveNewPath(dirname(path)), basename(path));
}

async function copyAll(
  dataDir: string,
  target: string,
  { databases, files }: DataFiles,
  snapshot: Snapshot,
): Promise<Manifest['files']> {
  const copied: ({ path: string } & FileSum)[] = [];
  for (const path of databases) {
    makeDirectory(dirname(join(target, path)));
    await snapshot.copy(join(dataDir, path), join(target, path));
    copied.push({ path, ...(await sumFile(join(target, path))) });
  }
  for (const path of files) {
    const sum = await copyIfThere(join(dataDir, path), join(target, path));
    if (sum !== undefined) copied.push({ path, ...sum });
  }
  return copied;
}

/** Copies a file; returns undefined if it is gone, for example because it is an image that has expired. */
async function copyIfThere(source: string, target: string): Promise<FileSum | undefined> {
  try {
    return await copyFile(source, target);
  } catch (error) {
    if (existsSync(source)) throw error;
    return undefined;
  }
}

function removeMade(target: string, isNew: boolean): void {
  if (isNew) rmSync(target, { recursive: true, force: true });
  else for (const name of readdirSync(target)) rmSync(join(target, name), { recursive: true, force: true });
}
