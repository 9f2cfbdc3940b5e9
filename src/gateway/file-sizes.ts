import { readdirSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** The databases of the data directory, by the names that they have there. */
const databases: readonly (readonly [file: string, name: string])[] = [
  ['ledger', 'ledger.sqlite'],
  ['ledger_wal', 'ledger.sqlite-wal'],
  ['content', 'content.db'],
  ['content_wal', 'content.db-wal'],
];

/** Returns the sizes of the data directory's databases in bytes; one that is not there is left out. */
export function readFileSizes(dataDir: string): Record<string, number> {
  const names = new Set(readdirSync(dataDir));
  const there = databases.filter(([, name]) => names.has(name));
  return Object.fromEntries(
    there.map(([file, name]) => [file, statSync(join(dataDir, name), { throwIfNoEntry: false })?.size ?? 0]),
  );
}

/** The folder of the data directory with the column files, and its name as a part of what is stored. */
export const columnsFolder = 'columns';
/** As often as column files change. */
const measuredMs = 300_000;

/**
 * Returns a function that returns the sizes of the data directory's databases and column files in bytes. The column files, of which there can be thousands, are measured in the
 * background, once at the start and at most every five minutes after that.
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

/** Returns the size of all files below a folder, in bytes; 0 if there is none. Files that disappear meanwhile do not count. */
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
