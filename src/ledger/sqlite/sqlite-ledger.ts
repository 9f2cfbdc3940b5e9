import type { Clock } from '../../lib/clock.ts';
import { makeDirectory } from '../../lib/make-directory.ts';
import { type Connection, openForReading } from '../../lib/sqlite/database.ts';
import { endedEarly, holdLog, refuseShared, removeLog } from '../../lib/sqlite/log-file.ts';
import { ColumnBuilding } from '../columns/column-building.ts';
import { CommandLedger, type CommandWriter } from '../command-ledger.ts';
import type { Ledger } from '../ledger.ts';
import type { DailyLimitUnit, Plans } from '../plans.ts';
import { Reader } from '../reader/reader.ts';
import { Checkpoints } from './checkpoints.ts';
import type { FaultPlan } from './fault.ts';
import { type LedgerWatch, unwatched } from './ledger-watch.ts';
import { LogState } from './log-state.ts';
import { acquireNodeLock } from './node-lock.ts';
import { readingFrom } from './request-commands.ts';
import { ledgerPath } from './verify.ts';
import { type CommitFacts, Writer } from './writer.ts';

const settleMsDefault = 10_000;

/** The options of the ledger. */
export interface SqliteLedgerOptions {
  /** The data directory; it is created if it does not exist. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** The unit of keys' `daily_limit`. */
  readonly dailyLimitUnit: DailyLimitUnit;
  /** The prices and contents of plans, as configured when the ledger is opened. */
  readonly plans: Plans;
  /** An account is suspended if more nano-dollars than this have been written off; absent: never. */
  readonly writeOffMax?: bigint | undefined;
  /** How long a bounded settle waits for storage; absent: 10 s. */
  readonly settleMs?: number;
  /** Called for every committed batch of commands. */
  readonly observe?: (commit: CommitFacts) => void;
  /** Called for failures; absent: not reported. */
  readonly watch?: LedgerWatch;
  /** True to look for damage first; absent: only if the last process that wrote the file did not close it. */
  readonly checksFile?: boolean;
  /** Tests only: the fault of the first writer. */
  readonly fault?: FaultPlan;
}

/** The ledger on a SQLite file, with the findings of its start. */
export interface SqliteLedger extends Ledger {
  /** How many of the gateway's own holds a crash had left. They were voided, and are listed for the operator. */
  readonly voidedHoldsAtStart: number;
  /** Violated invariants, in words; normally none. */
  readonly violationsAtStart: readonly string[];
  /** Shared with workers: see `KnownCredentials`. */
  readonly credentialVersion: SharedArrayBuffer;
  /** Sends an encoded command of a worker. */
  relay: Writer['relay'];
  /** See `Writer.connect`. */
  connect: Writer['connect'];
}

/**
 * Opens the ledger of a data directory for this process alone. Throws `LedgerStartError` if another process has it open, if a newer
 * program wrote it, or if it can't be used.
 */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<SqliteLedger> {
  const { dataDir, clock, dailyLimitUnit, plans, writeOffMax, observe, fault } = options;
  const { settleMs = settleMsDefault, watch = unwatched } = options;
  makeDirectory(dataDir);
  const lock = acquireNodeLock(dataDir);
  let held: Connection | undefined;
  try {
    const path = ledgerPath(dataDir);
    // This must be read before a checkpoint changes the file.
    const { checksFile = endedEarly(path) } = options;
    refuseShared(path, `Another process uses the ledger ${path}. Stop it first.`);
    held = holdLog(path);
    const log = new LogState();
    const data = { path, dailyLimitUnit, plans, writeOffMax, log: log.memory, checksFile, fault };
    const tools = { now: () => clock.now(), observe, settleMs, watch };
    const { writer, voidedHolds, violations, suspended } = await Writer.start(data, tools);
    for (const account of suspended) watch.suspended(account);
    const checkpoints = new Checkpoints({ path, log: log.memory }, cause => writer.lose(cause));
    const columns = new ColumnBuilding(path, () => clock.now());
    const db = openForReading(path);
    // Read here, because the reader would start its thread for it at each start, which takes 15 MB.
    const webhooks = db.prepare('SELECT 1 FROM webhook WHERE removed = 0 LIMIT 1');
    const credentialVersion = new SharedArrayBuffer(4);
    const wroteOff = (id: number, nanoUsd: bigint): void => watch.wroteOff(id, nanoUsd);
    const send: CommandWriter['send'] = (command, decode, isBounded) => writer.send(command, decode, isBounded);
    const ledger = new CommandLedger({
      writer,
      startReader: () => new Reader({ path, plans }, nowMs => writer.send(['sweep', nowMs], value => value)),
      hasWebhooks: () => webhooks.get() !== undefined,
      ...readingFrom({ send, clock, db, credentialVersion, wroteOff }),
      async close(reader) {
        await writer.drain();
        await columns.end();
        await reader.close();
        await checkpoints.end();
        await writer.close();
        // This connection is closed last: see `holdLog`.
        db.close();
        removeLog(path);
        lock.release();
      },
    });
    return Object.assign(ledger, {
      voidedHoldsAtStart: voidedHolds,
      violationsAtStart: violations,
      credentialVersion,
      relay: writer.relay.bind(writer),
      connect: writer.connect.bind(writer),
    });
  } catch (error) {
    lock.release();
    throw error;
  } finally {
    held?.close();
  }
}
