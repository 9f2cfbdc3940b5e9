import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { LedgerStartError } from '../start-error.ts';
import { openForReading } from './database.ts';
import { checkInvariants } from './invariants.ts';
import { checkMigrations, ownMigrations } from './migrations.ts';

/** The ledger's file in a data directory. */
export function ledgerPath(dataDir: string): string {
  return join(dataDir, 'ledger.sqlite');
}

/**
 * Runs every invariant over a data directory's ledger, whether or not a gateway runs on it: one snapshot, read only. Answers the violations in
 * words, empty where all hold. Throws `LedgerStartError` where there is no ledger or this program can't read it.
 */
export function verifyLedgerFile(dataDir: string): string[] {
  const path = ledgerPath(dataDir);
  if (!existsSync(path)) throw new LedgerStartError('unreadable', `There is no ledger in ${dataDir}.`);
  const db = openForReading(path);
  try {
    const migrations = ownMigrations();
    if (checkMigrations(db, migrations) < migrations.length) {
      throw new LedgerStartError(
        'unreadable',
        'The ledger was written by an older Tollgate: start this one on it first.',
      );
    }
    return checkInvariants(db, 'full');
  } finally {
    db.close();
  }
}

/** The same on a thread of its own: it reads everything, which takes seconds where there are millions of records. */
export function verifyInWorker(dataDir: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: { verify: dataDir } });
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

// Only where this file is the thread's own program, not where another worker imports it.
if (!isMainThread && isOrder(workerData)) parentPort?.postMessage(verifyLedgerFile(workerData.verify));

function isOrder(data: unknown): data is { verify: string } {
  return typeof data === 'object' && data !== null && 'verify' in data && typeof data.verify === 'string';
}
