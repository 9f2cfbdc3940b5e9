import { workerData } from 'node:worker_threads';
import { openForWriting, sqliteFailure } from '../../lib/sqlite/database.ts';
import { serveCalls } from '../../lib/threads/serve-calls.ts';
import type { DailyLimitUnit, Plans } from '../ledger.ts';
import { Engine } from './engine.ts';
import { type FaultPlan, Faults } from './fault.ts';
import { checkInvariants } from './invariants.ts';
import { migrateLedger } from './schema.ts';
import { WalSync } from './wal-sync.ts';
import { waitsForSync, type WireCommand, type WireReply } from './wire.ts';

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

/** What the writer says when it is ready. */
export interface WriterReady {
  /** Holds of the gateway's own that an earlier process left: given back. */
  readonly voidedHolds: number;
  readonly violations: readonly string[];
}

const { path, dailyLimitUnit, plans, nowMs, first, commits, fault } = workerData as WriterData;
const db = openForWriting(path, 'NORMAL');
migrateLedger(db, nowMs, dailyLimitUnit);
// By an engine of its own, so that faults on purpose begin with the first command.
const voidedHolds = first ? new Engine(db, { dailyLimitUnit, plans }).recover(nowMs) : 0;
const faults = fault === undefined ? undefined : new Faults(fault, sqliteFailure);
const engine = new Engine(db, { dailyLimitUnit, plans, ...(faults === undefined ? {} : { faults }) });
const violations = first ? checkInvariants(db, 'fast') : [];
const count = new Int32Array(commits);
const sync = new WalSync(path);

// A batch is one transaction, then one sync, for which the next batches do not wait.
serveCalls<WireCommand, WireReply>(
  {
    run(batch, post) {
      faults?.step('message');
      const replies = engine.run(batch);
      Atomics.add(count, 0, 1);
      const waits = batch.map(waitsForSync);
      const later = replies.filter((_, index) => waits[index] === true);
      faults?.step('reply');
      post(
        'now',
        later.length === 0 ? replies : replies.map((reply, index) => (waits[index] === true ? undefined : reply)),
      );
      if (later.length === 0) return;
      sync.run(error => {
        faults?.step('sync');
        // What is on the disk is not known: the next writer sends it again.
        if (error !== null) throw error;
        faults?.step('reply');
        post('later', later);
      });
    },
    end() {
      db.pragma('wal_checkpoint(TRUNCATE)');
      sync.close();
      db.close();
    },
  },
  { voidedHolds, violations } satisfies WriterReady,
);
