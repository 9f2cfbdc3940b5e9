import { parentPort, workerData } from 'node:worker_threads';
import { verifyLedgerFile } from '../ledger/sqlite/verify.ts';

/** Checks a data directory's ledger on a thread of its own: the statements take as long as the ledger is large. */
parentPort?.postMessage(verifyLedgerFile((workerData as { readonly dataDir: string }).dataDir));
