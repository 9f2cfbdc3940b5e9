import { Worker } from 'node:worker_threads';
import type { Environment } from '../config/env.ts';
import type { LedgerCheck } from '../core/configuration-admin.ts';
import { systemClock } from '../lib/clock.ts';
import { siblingModule } from '../lib/sibling-module.ts';

/** Returns what checks every invariant of the ledger while the gateway runs. Calls at the same time share one run. */
export function ledgerCheck({ dataDir, databaseUrl }: Environment): () => Promise<LedgerCheck> {
  let running: Promise<LedgerCheck> | undefined;
  const check = async (): Promise<LedgerCheck> => {
    const startedAtMs = systemClock.now();
    const violations = await (databaseUrl === undefined ? checkFile(dataDir) : checkDatabase(databaseUrl));
    return { violations, startedAtMs, durationMs: systemClock.now() - startedAtMs };
  };
  return () => {
    running ??= check().finally(() => {
      running = undefined;
    });
    return running;
  };
}

async function checkDatabase(url: string): Promise<readonly string[]> {
  const { verifyDatabase } = await import('../ledger/postgres/verify.ts');
  return verifyDatabase(url);
}

/** Rejects with what the thread threw. */
function checkFile(dataDir: string): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(siblingModule(import.meta.url, 'ledger-check-thread'), { workerData: { dataDir } });
    thread.unref();
    thread.once('message', resolve);
    thread.once('error', reject);
    thread.once('exit', code => reject(new Error(`the check of the ledger ended with ${code}`)));
  });
}
