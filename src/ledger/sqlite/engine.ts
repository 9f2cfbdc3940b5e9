import type { PriceSheet } from '../../generation/price.ts';
import { type Connection, isStorageFailure, type Query, sqliteCode } from '../../lib/sqlite/database.ts';
import type { DailyLimitUnit, Plans } from '../ledger.ts';
import { administer } from '../rules/administration.ts';
import { admit } from '../rules/admit.ts';
import type { Context } from '../rules/context.ts';
import { extend } from '../rules/extend.ts';
import { settle, voidRequest } from '../rules/settle.ts';
import { recover, sweep } from '../rules/sweep.ts';
import { readWindows } from '../rules/windows.ts';
import { type Faults, WriterDeath } from './fault.ts';
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

/** How the engine reads limits, the plans that accounts can have, and its faults on purpose. */
export interface EngineOptions {
  readonly dailyLimitUnit: DailyLimitUnit;
  readonly plans: Plans;
  readonly faults?: Faults;
}

const sheetsMax = 10_000;

/** The only writer of the file: runs the rules over batches of commands, in the order in which they came; each batch is one transaction. */
export class Engine {
  readonly #db: Connection;
  readonly #faults: Faults | undefined;
  readonly #rows: StoredRows;
  readonly #context: Context;
  readonly #probe: Query<[], unknown>;
  readonly #sheets = new Map<string, PriceSheet>();

  /** The file must be up to date. */
  constructor(db: Connection, { dailyLimitUnit, plans, faults }: EngineOptions) {
    this.#db = db;
    this.#faults = faults;
    const sql = new Sql(db, faults);
    this.#rows = new StoredRows(sql);
    this.#context = { rows: this.#rows, plans, dailyLimitUnit };
    this.#probe = sql.prepare("UPDATE meta SET value = value + 1 WHERE name = 'probe'");
  }

  /** Does a batch. The replies are true only once this has returned: the batch is then committed. Never throws but to die. */
  run(batch: readonly WireCommand[]): WireReply[] {
    try {
      return this.#transact(batch);
    } catch (error) {
      this.#rollBack(error);
      if (isStorageFailure(error)) return batch.map(() => describe('storage', error));
    }
    // A command broke: each again for itself, so that only the culprit fails. Where storage fails, what comes after waits, too, because it may need it.
    let failure: WireReply | undefined;
    return batch.map(command => {
      const reply = failure ?? this.#runApart(command);
      if (reply[0] === 'storage') failure = reply;
      return reply;
    });
  }

  /** Gives back what a process that is gone has left, and what has expired. Returns how many holds of the gateway's own that were. */
  recover(nowMs: number): number {
    const voided = recover(this.#context, nowMs);
    this.#commit(false);
    return voided;
  }

  #runApart(command: WireCommand): WireReply {
    let outcome: 'storage' | 'failed' = 'storage';
    try {
      // What is over stays so, also if the command fails.
      sweep(this.#context, command[1]);
      this.#commit(false);
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
  }

  #rollBack(error: unknown): void {
    if (error instanceof WriterDeath) throw error;
    // A full disk makes SQLite itself roll back.
    if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
    this.#rows.clear();
  }

  #execute(command: WireCommand): unknown {
    const context = this.#context;
    const nowMs = command[1];
    switch (command[0]) {
      case 'admit': {
        const order = decodeAdmit(command);
        const modelId = this.#rows.modelNumber(order.model);
        const endUserId = this.#rows.endUserNumber(order.endUser);
        return encodeAdmitReply(admit(context, { ...order, modelId, endUserId }, nowMs));
      }
      case 'settle': {
        const order = decodeSettle(command);
        const prices = this.#sheet(order.prices);
        const priceId = this.#rows.priceNumber(order.prices, prices);
        const providerId = this.#rows.providerNumber(order.provider);
        return encodeSettleReply(settle(context, { ...order, prices, priceId, providerId }, nowMs));
      }
      case 'extend':
        return extend(context, { command: command[2], extension: command[3] }, nowMs);
      case 'void':
        return voidRequest(context, command[2], command[3], nowMs);
      case 'windows': {
        const key = this.#rows.keys.get(command[2]);
        return key === undefined ? [] : readWindows(this.#rows, key, command[3], nowMs);
      }
      case 'admin':
        return administer(context, command[2], nowMs);
      case 'sweep':
      case 'sync':
      case 'probe':
        return undefined;
    }
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
  return [outcome, error instanceof Error ? error.message : String(error), sqliteCode(error)];
}
