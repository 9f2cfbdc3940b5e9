import { readdirSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** The databases of the data directory: the name of each file, and its name in reports. */
const databases: readonly (readonly [file: string, name: string])[] = [
  ['ledger', 'ledger.sqlite'],
  ['ledger_wal', 'ledger.sqlite-wal'],
  ['content', 'content.db'],
  ['content_wal', 'content.db-wal'],
];

/** Returns the sizes of the data directory's databases in bytes. Databases that do not exist are left out. */
export function readFileSizes(dataDir: string): Record<string, number> {
  const names = new Set(readdirSync(dataDir));
  const there = databases.filter(([, name]) => names.has(name));
  return Object.fromEntries(
    there.map(([file, name]) => [file, statSync(join(dataDir, name), { throwIfNoEntry: false })?.size ?? 0]),
  );
}

/** The folder of the data directory with the column files, and its name in reports. */
export const columnsFolder = 'columns';
/** How often column files are measured, which is how often they change. */
const measuredMs = 300_000;

/**
 * Returns a function that returns the sizes of the data directory's databases and column files, in bytes. There can be thousands of column files, so these are measured in the background, at the start and then at most every five minutes.
 */
export function watchFileSizes(dataDir: string): () => Record<string, number> {
  let columns = 0;
  let lastMs = 0;
  const measure = (): void => {
    lastMs = performance.now();
    void readFolderBytes(join(dataDir, columnsFolder)).then(bytes => (columns = bytes));
  };
  measure();
  return () => {
    if (performance.now() - lastMs > measuredMs) measure();
    return { ...readFileSizes(dataDir), ...(columns > 0 && { columns }) };
  };
}

/** Returns the size of all files below a folder, in bytes; 0 if there are none. Files that disappear meanwhile are not counted. */
export async function readFolderBytes(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  let bytes = 0;
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    bytes += await stat(join(entry.parentPath, entry.name)).then(
      ({ size }) => size,
      () => 0,
    );
  }
  return bytes;
}
