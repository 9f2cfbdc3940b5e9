import type { Query } from '../../lib/sqlite/database.ts';
import type { LimitUse } from '../rows.ts';
import { CachedTable } from './cached-table.ts';
import type { Sql } from './sql.ts';
import { limitUseTable } from './tables.ts';

/** Uses that wait to be written, and uses in memory; above these they are written. */
const waitingMax = 10_000;
const keptMax = 50_000;

/**
 * Uses of limits. They are sums of what requests say, so that nothing is lost with them: they stay in memory, and are written when somebody wants to read
 * them, when there are many, and at the end. What the file has is whole only while `uses` of `meta` is 1; otherwise it is dropped at the start, and each
 * use is counted again from its requests when it is first asked for.
 */
export class UseTable {
  readonly #rows: CachedTable<LimitUse>;
  readonly #begin: () => void;
  readonly #drop: Query<[], unknown>;
  readonly #dropOf: Query<[number], unknown>;
  readonly #mark: Query<[number], unknown>;
  /** `stale`: what the file has is not true; `partial`: it is, with what is in memory; `whole`: it is, alone. */
  #state: 'stale' | 'partial' | 'whole';
  #isWanted = false;
  #isWritten = false;

  /** `begin`: makes sure that there is a transaction. */
  constructor(sql: Sql, begin: () => void) {
    this.#rows = new CachedTable(sql, limitUseTable);
    this.#begin = begin;
    this.#drop = sql.prepare('DELETE FROM limit_use');
    this.#dropOf = sql.prepare('DELETE FROM limit_use WHERE limit_id = ?');
    this.#mark = sql.prepare("UPDATE meta SET value = ? WHERE name = 'uses'");
    const whole = sql.db.prepare<[], { value: bigint }>("SELECT value FROM meta WHERE name = 'uses'").get();
    this.#state = whole?.value === 1n ? 'whole' : 'stale';
  }

  get(limitId: number, number: number, endUser: number): LimitUse | undefined {
    if (this.#state === 'stale') this.#restart();
    return this.#rows.get(limitId, number, endUser);
  }

  put(use: LimitUse): void {
    if (this.#state === 'stale') this.#restart();
    if (this.#state === 'whole') this.#setPartial();
    this.#rows.put(use);
  }

  /** Removes those of a limit. */
  forget(limitId: number): void {
    this.#begin();
    this.#rows.write();
    this.#rows.settle();
    this.#dropOf.run(limitId);
    this.#rows.clear();
  }

  /** Wants the next `write` to write all. */
  want(): void {
    this.#isWanted = true;
  }

  /** Writes all, for the next process to go on with. */
  finish(): void {
    if (this.#state !== 'partial') return;
    this.#rows.write();
    this.#rows.settle();
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
    if (this.#isWritten) this.#rows.settle();
    this.#isWritten = false;
  }

  /** Forgets all, because a batch was not stored: also what earlier batches have changed and nobody has written. */
  clear(): void {
    this.#rows.clear();
    this.#isWritten = false;
    this.#state = 'stale';
  }

  /** From now on only what is counted here is true. */
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
