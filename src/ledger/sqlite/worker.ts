import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { openForWriting, sqliteFailure } from '../../lib/sqlite/database.ts';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import type { DailyLimitUnit, Plans } from '../ledger.ts';
import { Engine } from './engine.ts';
import { type FaultPlan, Faults } from './fault.ts';
import { checkInvariants } from './invariants.ts';
import { migrateLedger } from './schema.ts';
import { WalSync } from './wal-sync.ts';
import { waitsForSync, type WireCommand, type WriterMessage } from './wire.ts';

/** What the writer is started with. */
export interface WriterData {
  readonly path: string;
  readonly dailyLimitUnit: DailyLimitUnit;
  readonly plans: Plans;
  readonly nowMs: number;
  /** The first writer of a process: what an earlier process left is given back, and the invariants are checked. */
  readonly first: boolean;
  /** Counts commits, for the checkpointer. */
  readonly commits: SharedArrayBuffer;
  readonly fault: FaultPlan | undefined;
}

/** What the writer says when it is ready, or why it can't be. */
export type WriterReady =
  | { readonly ready: true; readonly voidedHolds: number; readonly violations: string[] }
  | { readonly ready: false; readonly code: LedgerStartError['code'] | undefined; readonly message: string };

/** Serves batches until it is told to close: each is one transaction, then one sync, which the next batches do not wait for. */
function serve(port: MessagePort, data: WriterData): void {
  const { dailyLimitUnit, plans } = data;
  const db = openForWriting(data.path, 'NORMAL');
  migrateLedger(db, data.nowMs);
  // By an engine of its own, so that faults on purpose begin with the first command.
  const voidedHolds = data.first ? new Engine(db, { dailyLimitUnit, plans }).recover(data.nowMs) : 0;
  const faults = data.fault === undefined ? undefined : new Faults(data.fault, sqliteFailure);
  const engine = new Engine(db, { dailyLimitUnit, plans, ...(faults === undefined ? {} : { faults }) });
  const violations = data.first ? checkInvariants(db, 'fast') : [];
  const commits = new Int32Array(data.commits);
  const sync = new WalSync(data.path);
  const post = (message: WriterMessage): void => {
    faults?.step('reply');
    port.postMessage(message);
  };
  port.postMessage({ ready: true, voidedHolds, violations } satisfies WriterReady);

  port.on('message', (batch: WireCommand[] | 'close') => {
    faults?.step('message');
    if (batch === 'close') {
      db.pragma('wal_checkpoint(TRUNCATE)');
      sync.close();
      db.close();
      port.close();
      return;
    }
    const replies = engine.run(batch);
    Atomics.add(commits, 0, 1);
    const later = replies.filter((_, index) => waits(batch[index]));
    post(['committed', replies.filter((_, index) => !waits(batch[index]))]);
    if (later.length === 0) return;
    sync.run(error => {
      faults?.step('sync');
      // What is on the disk is not known: the next writer sends it again.
      if (error !== null) throw error;
      post(['synced', later]);
    });
  });
}

function waits(command: WireCommand | undefined): boolean {
  return command !== undefined && waitsForSync(command);
}

if (parentPort !== null) {
  try {
    serve(parentPort, workerData as WriterData);
  } catch (error) {
    const code = error instanceof LedgerStartError ? error.code : undefined;
    const message = error instanceof Error ? error.message : String(error);
    parentPort.postMessage({ ready: false, code, message } satisfies WriterReady);
    parentPort.close();
  }
}
