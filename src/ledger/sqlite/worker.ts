import { workerData } from 'node:worker_threads';
import { type Connection, openForWriting, injectedSqliteError } from '../../lib/sqlite/database.ts';
import { serveCalls } from '../../lib/threads/serve-calls.ts';
import type { DailyLimitUnit, Plans } from '../plans.ts';
import { Commits } from './commits.ts';
import { Engine, type SuspendedAccount } from './engine.ts';
import { type FaultPlan, Faults } from './fault.ts';
import { checkInvariants } from './invariants.ts';
import { checkpoint, refuseDamaged, refusingDamage } from '../../lib/sqlite/log-file.ts';
import { migrateLedger } from './schema.ts';
import { LogState } from './log-state.ts';
import { WalSync } from './wal-sync.ts';
import type { WireCommand, WireReply } from './wire.ts';

/** The data with which the writer's thread starts. */
export interface WriterData {
  readonly path: string;
  readonly dailyLimitUnit: DailyLimitUnit;
  readonly plans: Plans;
  readonly writeOffMax: bigint | undefined;
  readonly nowMs: number;
  /** True for the first writer of a process: it voids the holds that an earlier process has left, and checks the invariants. */
  readonly first: boolean;
  /** See `LogState`. */
  readonly log: SharedArrayBuffer;
  /** True to look for damage first, because an earlier process did not end properly. */
  readonly checksFile: boolean;
  readonly fault: FaultPlan | undefined;
}

/** The message that the writer's thread posts when it is ready. */
export interface WriterReady {
  /** How many of the gateway's own holds were voided because an earlier process had left them. */
  readonly voidedHolds: number;
  readonly violations: readonly string[];
  /** Accounts that were suspended at the start. */
  readonly suspended: readonly SuspendedAccount[];
}

const damageAdvice =
  'Restore the data directory from a backup, or rescue what can be read: sqlite3 ledger.sqlite .recover.';

const { path, dailyLimitUnit, plans, writeOffMax, nowMs, first, checksFile, fault, ...data } = workerData as WriterData;
const db = refusingDamage(path, damageAdvice, open);
// Recovery uses a separate engine, so that injected faults begin with the first command.
const recovering = new Engine(db, { dailyLimitUnit, plans, writeOffMax });
const voidedHolds = first ? recovering.recover(nowMs) : 0;
recovering.finish();
const faults = fault === undefined ? undefined : new Faults(fault, injectedSqliteError);
const engine = new Engine(db, { dailyLimitUnit, plans, writeOffMax, ...(faults === undefined ? {} : { faults }) });
const violations = first ? checkInvariants(db, 'fast') : [];
const log = new LogState(data.log);
const sync = new WalSync(path);

function open(): Connection {
  const opened = openForWriting(path, 'NORMAL');
  if (checksFile) refuseDamaged(opened, path, damageAdvice);
  migrateLedger(opened, nowMs, dailyLimitUnit);
  return opened;
}

/** Makes a checkpoint in the writer's own thread. Nothing is committed meanwhile, so the next commit starts the log again if all its pages were moved. */
function shortenLog(): void {
  const { pages, isMoved } = checkpoint(db, 'PASSIVE');
  log.pages = isMoved ? 0 : pages;
}

const commits = new Commits({
  commit(batch) {
    const replies = engine.run(batch);
    log.addCommit();
    if (log.isLong) shortenLog();
    faults?.step('reply');
    return replies;
  },
  onCommitted(post) {
    const suspended = engine.takeSuspended();
    if (suspended.length > 0) post('notice', suspended);
  },
  sync(onSynced) {
    sync.run(error => {
      faults?.step('sync');
      if (error === null) faults?.step('reply');
      onSynced(error);
    });
  },
});

serveCalls<WireCommand, WireReply>(
  {
    run(batch, post, isOwner) {
      faults?.step('message');
      commits.run(batch, post, isOwner);
    },
    addCaller() {
      commits.share();
    },
    end() {
      engine.finish();
      checkpoint(db, 'TRUNCATE');
      sync.close();
      db.close();
    },
  },
  { voidedHolds, violations, suspended: recovering.takeSuspended() } satisfies WriterReady,
);
