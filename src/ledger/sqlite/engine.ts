import type { PriceSheet } from '../../generation/price.ts';
import { type Connection, isStorageFailure, mayLoseWrites, type Query, sqliteCode } from '../../lib/sqlite/database.ts';
import { StorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { Suspension } from '../ledger.ts';
import type { DailyLimitUnit, Plans } from '../plans.ts';
import { administer } from '../rules/administration.ts';
import { admit, type ResolvedAdmit, previewAdmission } from '../rules/admit.ts';
import type { Context } from '../rules/context.ts';
import { extend } from '../rules/extend.ts';
import { settle, voidRequest } from '../rules/settle.ts';
import { suspend } from '../rules/suspensions.ts';
import { type EndOne, recover, sweep } from '../rules/sweep.ts';
import { remindOfExpiry, reportDelivery } from '../rules/webhooks.ts';
import { readRefusal, readWindows } from '../rules/windows.ts';
import { type Faults, WriterDeath } from './fault.ts';
import { Pruning } from './pruning.ts';
import { Sql } from './sql.ts';
import { StoredRows } from './stored-rows.ts';
import {
  decodeAdmit,
  decodeSettle,
  encodeAdmitReply,
  encodeSettleReply,
  readPrices,
  type WireCommand,
  type WireReply,
} from './wire.ts';

/** The settings of limits and plans, and the faults to inject. */
export interface EngineOptions {
  readonly dailyLimitUnit: DailyLimitUnit;
  readonly plans: Plans;
  /** See `Context.writeOffMax`. */
  readonly writeOffMax?: bigint | undefined;
  readonly faults?: Faults;
}

/** An account that was suspended, and why. */
export interface SuspendedAccount {
  readonly accountId: number;
  readonly reason: Suspension;
  /** The error, if a row is broken. */
  readonly cause?: string;
}

const sheetsMax = 10_000;

/**
 * The only writer of the file: runs the rules over batches of commands, in the order of arrival; each batch is one
 * transaction.
 */
export class Engine {
  readonly #db: Connection;
  readonly #faults: Faults | undefined;
  readonly #rows: StoredRows;
  readonly #context: Context;
  readonly #pruning: Pruning;
  readonly #probe: Query<[], unknown>;
  readonly #sheets = new Map<string, PriceSheet>();
  /** Suspensions that `takeSuspended` has not returned yet; the first `#stored` of them are committed. */
  #suspended: SuspendedAccount[] = [];
  #stored = 0;

  /** The file must have the current schema. */
  constructor(db: Connection, { dailyLimitUnit, plans, writeOffMax, faults }: EngineOptions) {
    this.#db = db;
    this.#faults = faults;
    const sql = new Sql(db, faults);
    this.#rows = new StoredRows(sql);
    this.#pruning = new Pruning(sql, this.#rows);
    const onSuspended = (accountId: number, reason: Suspension): void => {
      this.#suspended.push({ accountId, reason });
    };
    this.#context = { rows: this.#rows, plans, dailyLimitUnit, writeOffMax, onSuspended };
    this.#probe = sql.prepare("UPDATE meta SET value = value + 1 WHERE name = 'probe'");
  }

  /**
   * Executes a batch and commits it. If storage fails, the replies of all commands that are not committed are `storage`. Throws only `StorageLost` or an injected
   * `WriterDeath`; the writer must then end.
   */
  run(batch: readonly WireCommand[]): WireReply[] {
    try {
      return this.#transact(batch);
    } catch (error) {
      this.#rollBack(error);
      if (isStorageFailure(error)) return batch.map(() => describe('storage', error));
    }
    // A command failed. Each command is run again separately, so that only the faulty one fails. If storage fails, the later commands get the
    // same reply, because they may depend on that command.
    let failure: WireReply | undefined;
    return batch.map(command => {
      const reply = failure ?? this.#runInOwnTransaction(command);
      if (reply[0] === 'storage') failure = reply;
      return reply;
    });
  }

  /** Voids the holds that earlier processes of this gateway left behind, and sweeps. Returns the number of those holds. */
  recover(nowMs: number): number {
    try {
      const voided = recover(this.#context, nowMs);
      this.#commit(false);
      return voided;
    } catch (error) {
      this.#rollBack(error);
      if (isStorageFailure(error)) throw error;
      return recover(this.#context, nowMs, this.#endInOwnTransaction);
    }
  }

  /** Writes the uses of limits that are only in memory, so that the next process need not count them again. */
  finish(): void {
    try {
      this.#rows.flush();
      this.#rows.finishUses();
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#rollBack(error);
      if (!isStorageFailure(error)) throw error;
    }
  }

  /** Returns the accounts that were suspended since the last call. */
  takeSuspended(): SuspendedAccount[] {
    const taken = this.#suspended.splice(0, this.#stored);
    this.#stored = 0;
    return taken;
  }

  /** Ends one expired row in a separate transaction. If that fails, suspends its account, and everything else continues. */
  readonly #endInOwnTransaction: EndOne = (accountId, end) => {
    try {
      end();
      this.#commit(false);
    } catch (error) {
      this.#rollBack(error);
      if (isStorageFailure(error)) throw error;
      suspend(this.#rows, accountId, 'damaged');
      this.#suspended.push({ accountId, reason: 'damaged', cause: errorMessage(error) });
      this.#commit(false);
    }
  };

  /** Ends everything that is due. If a row fails, starts again with a separate transaction for each row. */
  #sweep(nowMs: number): void {
    try {
      sweep(this.#context, nowMs);
      this.#commit(false);
    } catch (error) {
      this.#rollBack(error);
      if (isStorageFailure(error)) throw error;
      sweep(this.#context, nowMs, this.#endInOwnTransaction);
    }
  }

  #runInOwnTransaction(command: WireCommand): WireReply {
    let outcome: 'storage' | 'failed' = 'storage';
    try {
      // What the sweep has ended stays ended, even if the command fails.
      this.#sweep(command[1]);
      outcome = 'failed';
      return this.#transact([command])[0] ?? describe(outcome, undefined);
    } catch (error) {
      this.#rollBack(error);
      return describe(isStorageFailure(error) ? 'storage' : outcome, error);
    }
  }

  #transact(batch: readonly WireCommand[]): WireReply[] {
    const replies = batch.map((command): WireReply => {
      sweep(this.#context, command[1]);
      return ['done', this.#execute(command)];
    });
    this.#commit(batch.some(command => command[0] === 'probe'));
    return replies;
  }

  #commit(isProbe: boolean): void {
    this.#rows.flush();
    if (isProbe) this.#probe.run();
    this.#faults?.step('commit');
    this.#db.exec('COMMIT');
    this.#stored = this.#suspended.length;
  }

  #rollBack(error: unknown): void {
    if (error instanceof WriterDeath) throw error;
    if (mayLoseWrites(error)) throw new StorageLost(error);
    // If the disk is full, SQLite has already rolled back.
    if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
    this.#rows.clear();
    this.#suspended.length = this.#stored;
  }

  #execute(command: WireCommand): unknown {
    const context = this.#context;
    const nowMs = command[1];
    switch (command[0]) {
      case 'admit':
        return encodeAdmitReply(admit(context, this.#resolveAdmit(command), nowMs));
      case 'preview':
        return previewAdmission(context, this.#resolveAdmit(command[2]), nowMs);
      case 'settle': {
        const settlement = decodeSettle(command);
        const prices = this.#sheet(settlement.prices);
        const priceId = this.#rows.labels.price(settlement.prices, prices);
        const providerId = this.#rows.labels.provider(settlement.provider);
        return encodeSettleReply(settle(context, { ...settlement, prices, priceId, providerId }, nowMs));
      }
      case 'extend':
        return extend(context, { command: command[2], extension: command[3] }, nowMs);
      case 'void':
        return voidRequest(context, command[2], command[3], nowMs);
      case 'windows': {
        const key = this.#rows.keys.get(command[2]);
        return key === undefined ? [] : readWindows(this.#rows, key, command[3], nowMs);
      }
      case 'refusal': {
        const key = this.#rows.keys.get(command[2]);
        return key === undefined ? 0 : readRefusal(this.#rows, key, nowMs);
      }
      case 'admin':
        return administer(context, command[2], nowMs);
      case 'report':
        reportDelivery(this.#rows, command[2], nowMs);
        return undefined;
      case 'remind':
        remindOfExpiry(this.#rows, nowMs);
        return undefined;
      case 'prune':
        return this.#pruning.run(command[2], nowMs);
      case 'uses':
        // The commit then writes these uses, which are otherwise only in memory.
        this.#rows.showUses(command[2], nowMs);
        return undefined;
      case 'sweep':
      case 'sync':
      case 'probe':
        return undefined;
    }
  }

  #resolveAdmit(command: Parameters<typeof decodeAdmit>[0]): ResolvedAdmit {
    const admission = decodeAdmit(command);
    const { labels } = this.#rows;
    return {
      ...admission,
      modelId: labels.model(admission.model),
      endUserId: labels.endUser(admission.endUser),
      endpointId: labels.endpoint(admission.endpoint),
      batchId: labels.batch(admission.batchId),
    };
  }

  #sheet(text: string): PriceSheet {
    const known = this.#sheets.get(text);
    if (known !== undefined) return known;
    if (this.#sheets.size >= sheetsMax) this.#sheets.clear();
    const sheet = readPrices(text);
    this.#sheets.set(text, sheet);
    return sheet;
  }
}

function describe(outcome: 'failed' | 'storage', error: unknown): WireReply {
  return [outcome, errorMessage(error), sqliteCode(error)];
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
