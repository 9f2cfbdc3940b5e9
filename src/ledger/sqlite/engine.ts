import { Administration } from '../rules/administration.ts';
import { Admissions } from '../rules/admissions.ts';
import { type Connection, isStorageFailure, type Query, Sql, sqliteCode } from '../../lib/sqlite/database.ts';
import { Dictionary } from './dictionary.ts';
import { Extensions } from '../rules/extensions.ts';
import { type Faults, WriterDeath } from './fault.ts';
import { type DailyLimitUnit, Funds } from '../rules/funds.ts';
import { Holds } from '../rules/holds.ts';
import { KeyFinder } from '../rules/key-facts.ts';
import type { Plans as PlanList } from '../ledger.ts';
import { Moves } from '../rules/moves.ts';
import { Payments } from '../rules/payments.ts';
import { Plans } from '../rules/plans.ts';
import { Settlements } from '../rules/settlements.ts';
import { Subscriptions } from '../rules/subscriptions.ts';
import { decodeAdmit, decodeSettle, encodeAdmitReply, type WireCommand, type WireReply } from './wire.ts';
import { tightestFirst, Windows } from '../rules/windows.ts';

/** How the engine reads limits, the plans that accounts can have, and its faults on purpose. */
export interface EngineOptions {
  readonly dailyLimitUnit: DailyLimitUnit;
  readonly plans: PlanList;
  readonly faults?: Faults;
}

/** The only writer of the file: does batches of commands, each batch one transaction, in the order in which they came. */
export class Engine {
  readonly #db: Connection;
  readonly #faults: Faults | undefined;
  readonly #keys: KeyFinder;
  readonly #windows: Windows;
  readonly #dictionary: Dictionary;
  readonly #holds: Holds;
  readonly #subscriptions: Subscriptions;
  readonly #admissions: Admissions;
  readonly #extensions: Extensions;
  readonly #settlements: Settlements;
  readonly #administration: Administration;
  readonly #probe: Query<[], unknown>;
  readonly #raiseLastId: Query<[number], unknown>;
  /** The highest id of any request ever stored. */
  #highestId: number;
  /** The highest of the gateway's own ids, as stored and as this batch has it. */
  #lastId: { stored: number; now: number };

  /** The file must be up to date. */
  constructor(db: Connection, options: EngineOptions) {
    this.#db = db;
    this.#faults = options.faults;
    const sql = new Sql(db, options.faults);
    const keys = new KeyFinder(sql);
    const moves = new Moves(sql);
    const windows = new Windows(sql, options.dailyLimitUnit);
    const plans = new Plans(sql, options.plans);
    const payments = new Payments(plans, new Funds(sql, options.dailyLimitUnit));
    const holds = new Holds(sql, { keys, moves, plans });
    const dictionary = new Dictionary(sql);
    const subscriptions = new Subscriptions(sql, options.plans, moves);
    this.#keys = keys;
    this.#windows = windows;
    this.#dictionary = dictionary;
    this.#holds = holds;
    this.#subscriptions = subscriptions;
    this.#admissions = new Admissions({ sql, keys, windows, payments, plans, holds, dictionary });
    this.#extensions = new Extensions(keys, payments, holds);
    this.#settlements = new Settlements({ sql, keys, payments, holds, moves, dictionary });
    this.#administration = new Administration(sql, { keys, moves, windows, subscriptions });
    this.#probe = sql.prepare("UPDATE meta SET value = value + 1 WHERE name = 'probe'");
    this.#raiseLastId = sql.prepare("UPDATE meta SET value = max(value, ?) WHERE name = 'last_id'");
    this.#highestId = highestId(db);
    const stored = storedLastId(db);
    this.#lastId = { stored, now: stored };
  }

  /** Does a batch. The replies are true only once this has returned: the batch is then on the disk. Never throws but to die. */
  run(batch: readonly WireCommand[]): WireReply[] {
    try {
      return this.#transaction(() => batch.map(command => this.#executeTogether(command)));
    } catch (error) {
      this.#undo(error);
      if (isStorageFailure(error)) return failAll(batch, error);
    }
    // One command broke: each again for itself, so that only the culprit fails.
    try {
      return this.#transaction(() => batch.map(command => this.#executeApart(command)));
    } catch (error) {
      this.#undo(error);
      return failAll(batch, error);
    }
  }

  /** Gives back what a process that is gone has left, and what has expired. Answers how many holds of the gateway's own that were. */
  recover(nowMs: number): number {
    return this.#transaction(() => {
      this.#holds.sweep(nowMs);
      const voided = this.#holds.voidOwn(nowMs);
      // After them: what they held can pay.
      this.#subscriptions.sweep(nowMs);
      return voided;
    });
  }

  /** What is over by now is over for every command: holds that expired, then periods of plans. */
  #sweep(nowMs: number): void {
    this.#holds.sweep(nowMs);
    this.#subscriptions.sweep(nowMs);
  }

  #transaction<T>(work: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE');
    const result = work();
    if (this.#lastId.now > this.#lastId.stored) this.#raiseLastId.run(this.#lastId.now);
    this.#faults?.step('commit');
    this.#db.exec('COMMIT');
    this.#lastId.stored = this.#lastId.now;
    return result;
  }

  #undo(error: unknown): void {
    if (error instanceof WriterDeath) throw error;
    // A full disk makes SQLite itself roll back.
    if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
    this.#forget();
    this.#lastId.now = this.#lastId.stored;
  }

  #forget(): void {
    this.#windows.clear();
    this.#dictionary.clear();
    this.#holds.clear();
    this.#subscriptions.clear();
  }

  #executeTogether(command: WireCommand): WireReply {
    this.#sweep(command[2]);
    return [command[1], 'done', this.#execute(command)];
  }

  #executeApart(command: WireCommand): WireReply {
    this.#sweep(command[2]);
    this.#db.exec('SAVEPOINT one');
    try {
      const value = this.#execute(command);
      this.#db.exec('RELEASE one');
      return [command[1], 'done', value];
    } catch (error) {
      if (error instanceof WriterDeath || isStorageFailure(error)) throw error;
      this.#db.exec('ROLLBACK TO one');
      this.#db.exec('RELEASE one');
      this.#forget();
      return failure(command, 'failed', error);
    }
  }

  #execute(command: WireCommand): unknown {
    const nowMs = command[2];
    switch (command[0]) {
      case 'admit':
        return this.#admit(command, nowMs);
      case 'settle':
        return this.#settlements.settle(decodeSettle(command), nowMs);
      case 'extend':
        return this.#extensions.extend(command[3], command[1]);
      case 'void':
        return this.#settlements.void(command[3], command[4], nowMs);
      case 'windows': {
        const key = this.#keys.find({ id: command[3] });
        return key === undefined ? [] : tightestFirst(this.#windows.list(key, command[4], nowMs));
      }
      case 'admin':
        return this.#administration.apply(command[3], command[4], command[5], nowMs);
      case 'probe':
        this.#probe.run();
        return undefined;
      case 'sweep':
        return undefined;
    }
  }

  #admit(wire: Extract<WireCommand, { 0: 'admit' }>, nowMs: number): unknown {
    const command = decodeAdmit(wire);
    const fresh = command.id > this.#highestId;
    const reply = this.#admissions.admit(command, fresh, nowMs);
    if (reply.kind === 'admitted') {
      if (fresh) this.#highestId = command.id;
      if (command.expiresAtMs === undefined) this.#lastId.now = Math.max(this.#lastId.now, command.id);
    }
    return encodeAdmitReply(reply);
  }
}

function failAll(batch: readonly WireCommand[], error: unknown): WireReply[] {
  return batch.map(command => failure(command, 'storage', error));
}

function failure(command: WireCommand, outcome: 'failed' | 'storage', error: unknown): WireReply {
  return [command[1], outcome, error instanceof Error ? error.message : String(error), sqliteCode(error)];
}

function highestId(db: Connection): number {
  const row = db
    .prepare<[], { id: bigint }>(
      `SELECT max(coalesce((SELECT max(id) FROM hold), 0), coalesce((SELECT max(id) FROM usage), 0)) AS id`,
    )
    .get();
  return Number(row?.id ?? 0n);
}

/** The highest request id that the gateway itself has ever stored. */
export function storedLastId(db: Connection): number {
  const row = db.prepare<[], { value: bigint }>("SELECT value FROM meta WHERE name = 'last_id'").get();
  return Number(row?.value ?? 0n);
}
