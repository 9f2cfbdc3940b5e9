import { readdirSync, statSync } from 'node:fs';
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
