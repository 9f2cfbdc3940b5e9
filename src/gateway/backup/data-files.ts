import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** The files of a data directory, as sorted paths relative to it. */
export interface DataFiles {
  /** The databases, which SQLite must copy, because a gateway may be writing them. */
  readonly databases: readonly string[];
  /** All other files, such as secrets and images. They are written or replaced in one step, and never changed in place. */
  readonly files: readonly string[];
}

/** The folder of a data directory in which backups may be. It is not backed up itself. */
export const backupsFolder = 'backups';

/** The name of a file that is in a data directory while a restore to it is incomplete. Its text tells the operator why no gateway starts there. */
export const restoreMark = 'restore.incomplete';

/** Files that are not backed up: those that belong to the running process, and files that are still being written. */
const passing = /(?:^lock\.sqlite|^restore\.incomplete$|-wal$|-shm$|-journal$|\.draft$)/;

const magic = 'SQLite format 3\0';

/** Lists a data directory. Throws the file system's error. */
export function listDataFiles(dataDir: string): DataFiles {
  const paths = listFiles(dataDir).filter(path => !path.startsWith(`${backupsFolder}/`) && !passing.test(path));
  const databases = paths.filter(path => isDatabase(join(dataDir, path)));
  return { databases, files: paths.filter(path => !databases.includes(path)) };
}

/** Returns every file below a folder, as sorted relative paths with `/`. Files that disappear meanwhile are left out. */
export function listFiles(folder: string, below = ''): string[] {
  const paths: string[] = [];
  for (const name of readdirSync(join(folder, below)).sort()) {
    const path = below === '' ? name : `${below}/${name}`;
    // Links are followed, because the operator may keep the images on another disk.
    const found = statSync(join(folder, path), { throwIfNoEntry: false });
    if (found?.isDirectory() === true) paths.push(...listFiles(folder, path));
    else if (found?.isFile() === true) paths.push(path);
  }
  return paths;
}

function isDatabase(path: string): boolean {
  // The database file may be empty, because all content of a new database may still be in its log.
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
