import type { Query } from '../../lib/sqlite/database.ts';
import type { LimitUse } from '../rows.ts';
import { type CalendarWindow, windowAt } from '../rules/calendar.ts';
import { CachedTable, type Entry } from './cached-table.ts';
import type { Sql } from './sql.ts';
import { limitUseTable } from './tables.ts';

/** Uses that wait to be written, and uses in memory; above these they are written. */
const waitingMax = 10_000;
const keptMax = 50_000;

/**
 * Uses of limits. They are sums over requests and can be rebuilt, so they stay in memory and are written when a
 * reader needs them, when there are many, and at the end. The file's copy is complete only while `uses` of `meta` is
 * 1; otherwise it is dropped at the start, and each use is counted again from its requests on first use.
 */
export class UseTable {
  readonly #rows: CachedTable<LimitUse>;
  /** The use of each limit that was read last, without an end user: the next read is nearly always the same. */
  readonly #last = new Map<number, { readonly number: number; readonly entry: Entry<LimitUse> }>();
  readonly #begin: () => void;
  readonly #drop: Query<[], unknown>;
  readonly #dropUses: Query<[number], unknown>;
  readonly #kinds: Query<[], { per: CalendarWindow; zone: string }>;
  readonly #removeBefore: Query<[string, string, number, number], unknown>;
  readonly #mark: Query<[number], unknown>;
  /** `stale`: the file is out of date; `partial`: the file together with memory is right; `whole`: the file alone is right. */
  #state: 'stale' | 'partial' | 'whole';
  #isWanted = false;
  #isWritten = false;

  /** `begin`: ensures that there is a transaction. */
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
   * Removes uses of calendar windows that ended before that time, at most `most`. Returns how many were removed. A use that is read again
   * is counted again.
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

  /** Makes the next `write` write all uses. */
  want(): void {
    this.#isWanted = true;
  }

  /** Writes all, for the next process to continue with. */
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

  /** Discards everything, because a batch was not stored; also unwritten changes of earlier batches. */
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
    // Its rows may have been evicted.
    this.#last.clear();
  }

  /** Discards earlier uses: only those counted from now on are right. */
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
