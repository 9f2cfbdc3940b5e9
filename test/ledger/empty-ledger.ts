import { mkdirSync, writeFileSync } from 'node:fs';
import { migrateLedger } from '../../src/ledger/sqlite/schema.ts';
import { ledgerPath } from '../../src/ledger/sqlite/verify.ts';
import { openForWriting } from '../../src/lib/sqlite/database.ts';

let empty: Buffer | undefined;

/** Writes a ledger without accounts into a data directory, as the first start makes it: its migrations take 50 ms of processor time. */
export function writeEmptyLedger(dataDir: string): void {
  if (empty === undefined) {
    const db = openForWriting(':memory:');
    migrateLedger(db, 0);
    empty = db.serialize();
    db.close();
  }
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  writeFileSync(ledgerPath(dataDir), empty, { mode: 0o600 });
}
