import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import { openForWriting, sqliteFailure } from '../../lib/sqlite/database.ts';
import { Engine } from './engine.ts';
import { type FaultPlan, Faults } from './fault.ts';
import type { DailyLimitUnit } from '../rules/funds.ts';
import { checkInvariants } from './invariants.ts';

import type { Plans } from '../ledger.ts';
import { migrateLedger } from './schema.ts';
import type { WireCommand } from './wire.ts';

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

const batchMax = 4096;

/** Serves batches until it is told to close: whatever waits, up to the most of a batch, is one transaction. */
function serve(port: MessagePort, data: WriterData): void {
  const db = openForWriting(data.path);
  migrateLedger(db, data.nowMs);
  // By an engine of its own, so that faults on purpose begin with the first command.
  const { dailyLimitUnit, plans } = data;
  const voidedHolds = data.first ? new Engine(db, { dailyLimitUnit, plans }).recover(data.nowMs) : 0;
  const faults = data.fault === undefined ? undefined : new Faults(data.fault, sqliteFailure);
  const engine = new Engine(db, { dailyLimitUnit, plans, ...(faults === undefined ? {} : { faults }) });
  const violations = data.first ? checkInvariants(db, 'fast') : [];
  const commits = new Int32Array(data.commits);
  port.postMessage({ ready: true, voidedHolds, violations } satisfies WriterReady);

  const waiting: WireCommand[] = [];
  let closing = false;
  const take = (message: WireCommand[] | 'close'): void => {
    faults?.step('message');
    if (message === 'close') closing = true;
    else waiting.push(...message);
  };
  port.on('message', (first: WireCommand[] | 'close') => {
    take(first);
    while (waiting.length > 0) {
      while (waiting.length < batchMax) {
        const more: { message: WireCommand[] | 'close' } | undefined = receiveMessageOnPort(port);
        if (more === undefined) break;
        take(more.message);
      }
      const replies = engine.run(waiting.splice(0, batchMax));
      Atomics.add(commits, 0, 1);
      faults?.step('reply');
      port.postMessage(replies);
    }
    if (!closing) return;
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
    port.close();
  });
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
