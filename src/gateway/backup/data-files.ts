import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** The files of a data directory, as paths relative to it, sorted. */
export interface DataFiles {
  /** Copied by SQLite, because a gateway may write them. */
  readonly databases: readonly string[];
  /** Secrets and images: each is written or replaced in one step, never changed in place. */
  readonly files: readonly string[];
}

/** The folder of a data directory that may contain backups; backups leave it out. */
export const backupsFolder = 'backups';

/** Exists in a data directory while a restore into it is incomplete. Its text tells the operator why no gateway starts there. */
export const restoreMark = 'restore.incomplete';

/** Files that belong to the running process, and databases and files that are being written. */
const passing = /(?:^lock\.sqlite|^restore\.incomplete$|-wal$|-shm$|-journal$|\.draft$)/;

const magic = 'SQLite format 3\0';

/** Lists a data directory. Throws the file system's error. */
export function listDataFiles(dataDir: string): DataFiles {
  const paths = listFiles(dataDir).filter(path => !path.startsWith(`${backupsFolder}/`) && !passing.test(path));
  const databases = paths.filter(path => isDatabase(join(dataDir, path)));
  return { databases, files: paths.filter(path => !databases.includes(path)) };
}

/** Returns every file below a folder, as sorted relative paths with `/`. A file that disappears meanwhile is left out. */
export function listFiles(folder: string, below = ''): string[] {
  const paths: string[] = [];
  for (const name of readdirSync(join(folder, below)).sort()) {
    const path = below === '' ? name : `${below}/${name}`;
    // Links are followed: an operator may keep the images on another disk.
    const found = statSync(join(folder, path), { throwIfNoEntry: false });
    if (found?.isDirectory() === true) paths.push(...listFiles(folder, path));
    else if (found?.isFile() === true) paths.push(path);
  }
  return paths;
}

function isDatabase(path: string): boolean {
  // All content of a new database may still be in its log.
  if (existsSync(`${path}-wal`)) return true;
  const start = Buffer.alloc(magic.length);
  const file = openSync(path, 'r');
  try {
    readSync(file, start, 0, start.length, 0);
  } finally {
    closeSync(file);
  }
  return start.toString('latin1') === magic;
}
