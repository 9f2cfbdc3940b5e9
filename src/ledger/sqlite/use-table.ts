import type { Query } from '../../lib/sqlite/database.ts';
import type { LimitUse } from '../rows.ts';
import { type CalendarWindow, windowAt } from '../rules/calendar.ts';
import { CachedTable, type Entry } from './cached-table.ts';
import type { Sql } from './sql.ts';
import { limitUseTable } from './tables.ts';

/** The most uses that wait to be written, and the most that are in memory. Above these numbers they are written. */
const waitingMax = 10_000;
const keptMax = 50_000;

/**
 * The table of the uses of limits. They are sums over requests and can be rebuilt, so they stay in memory and are written only when a
 * reader needs them, when there are many, and at the end. The file's copy is complete only if `uses` in the table `meta` is
 * 1. Otherwise it is dropped at the start, and each use is counted again when it is first needed.
 */
export class UseTable {
  readonly #rows: CachedTable<LimitUse>;
  /** The use of each limit, with `endUser` 0, that was read last: the next read is nearly always the same. */
  readonly #last = new Map<number, { readonly number: number; readonly entry: Entry<LimitUse> }>();
  readonly #begin: () => void;
  readonly #drop: Query<[], unknown>;
  readonly #dropUses: Query<[number], unknown>;
  readonly #kinds: Query<[], { per: CalendarWindow; zone: string }>;
  readonly #removeBefore: Query<[string, string, number, number], unknown>;
  readonly #mark: Query<[number], unknown>;
  /** `stale`: the file is out of date; `partial`: file and memory together are complete; `whole`: the file alone is complete. */
  #state: 'stale' | 'partial' | 'whole';
  #isWanted = false;
  #isWritten = false;

  /** `begin`: begins a transaction unless there is one. */
  constructor(sql: Sql, begin: () => void) {
    this.#rows = new CachedTable(sql, limitUseTable);
    this.#begin = begin;
    this.#drop = sql.prepare('DELETE FROM limit_use');
    this.#dropUses = sql.prepare('DELETE FROM limit_use WHERE limit_id = ?');
    this.#kinds = sql.prepare(
      "SELECT DISTINCT per, time_zone AS zone FROM usage_limit WHERE per IN ('hour', 'day', 'week', 'month')",
    );
    this.#removeBefore = sql.prepare(
      'DELETE FROM limit_use WHERE (limit_id, number, end_user) IN (SELECT limit_id, number, end_user FROM limit_use JOIN usage_limit l ON l.id = limit_id WHERE l.per = ? AND l.time_zone = ? AND number < ? LIMIT ?) RETURNING 1',
    );
    this.#mark = sql.prepare("UPDATE meta SET value = ? WHERE name = 'uses'");
    const whole = sql.db.prepare<[], { value: bigint }>("SELECT value FROM meta WHERE name = 'uses'").get();
    this.#state = whole?.value === 1n ? 'whole' : 'stale';
  }

  get(limitId: number, number: number, endUser: number): LimitUse | undefined {
    if (this.#state === 'stale') this.#restart();
    return this.#entry(limitId, number, endUser).row;
  }

  put(use: LimitUse): void {
    if (this.#state === 'stale') this.#restart();
    if (this.#state === 'whole') this.#setPartial();
    this.#rows.replace(this.#entry(use.limitId, use.number, use.endUser), use);
  }

  /** Removes the uses of a limit. */
  forget(limitId: number): void {
    this.#begin();
    this.#rows.write();
    this.#rows.settle();
    this.#dropUses.run(limitId);
    this.#rows.clear();
    this.#last.clear();
  }

  /**
   * Removes at most `most` uses of calendar windows that ended before `beforeMs`. Returns how many were removed. A removed use is counted
   * again if it is read again.
   */
  removeEnded(beforeMs: number, most: number): number {
    if (this.#state === 'stale') return 0;
    this.#begin();
    this.#rows.write();
    this.#settleRows();
    let left = most;
    for (const { per, zone } of this.#kinds.all()) {
      const { number } = windowAt(per, zone, beforeMs);
      if (left > 0) left -= this.#removeBefore.all(per, zone, number, left).length;
    }
    if (left < most) this.#rows.clear();
    return most - left;
  }

  /** Requests that the next `write` writes all uses. */
  want(): void {
    this.#isWanted = true;
  }

  /** Writes all uses, so that the next process can continue with them. */
  finish(): void {
    if (this.#state !== 'partial') return;
    this.#rows.write();
    this.#settleRows();
    this.#mark.run(1);
    this.#state = 'whole';
  }

  write(): void {
    if (!this.#isWanted && this.#rows.changedCount <= waitingMax && this.#rows.size <= keptMax) return;
    this.#isWanted = false;
    this.#isWritten = true;
    this.#rows.write();
  }

  settle(): void {
    if (this.#isWritten) this.#settleRows();
    this.#isWritten = false;
  }

  /** Discards all uses in memory, because a batch was not stored. This includes unwritten changes of earlier batches. */
  clear(): void {
    this.#rows.clear();
    this.#last.clear();
    this.#isWritten = false;
    this.#state = 'stale';
  }

  #entry(limitId: number, number: number, endUser: number): Entry<LimitUse> {
    if (endUser !== 0) return this.#rows.entry(limitId, number, endUser);
    const last = this.#last.get(limitId);
    if (last?.number === number) return last.entry;
    const entry = this.#rows.entry(limitId, number, 0);
    this.#last.set(limitId, { number, entry });
    return entry;
  }

  #settleRows(): void {
    this.#rows.settle();
    // The cached rows may have been evicted from the table.
    this.#last.clear();
  }

  /** Discards all earlier uses, in memory and in the file, so that they are counted again. */
  #restart(): void {
    this.#begin();
    this.#drop.run();
    this.#setPartial();
  }

  #setPartial(): void {
    this.#begin();
    this.#mark.run(0);
    this.#state = 'partial';
  }
}
