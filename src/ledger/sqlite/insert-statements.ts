import assert from 'node:assert/strict';
import type { Query } from '../../lib/sqlite/database.ts';
import type { Stored } from './columns.ts';
import type { Sql } from './sql.ts';

/** The most values: each has a bit in an integer. */
const valuesMax = 53;
/** The most statements that are kept prepared. Rows of further patterns are written with every value bound. */
const statementsMax = 50;

/** A statement for the rows that have NULL and 0 in the same columns, and the indexes of their other values, which it binds. */
interface Prepared {
  readonly nulls: number;
  readonly zeros: number;
  readonly bound: readonly number[];
  readonly query: Query<Stored[], unknown>;
}

/**
 * Inserts rows, with NULL and 0 in the text of the statement instead of bound: binding a NULL takes 190 ns, a number 60, and half of a record's values are NULL or 0. Nearly
 * all rows of a table have them in the same columns, so few statements are needed.
 */
export class InsertStatements {
  readonly #sql: Sql;
  readonly #makeText: (places: readonly string[]) => string;
  readonly #count: number;
  /** Binds every value. */
  readonly #whole: Prepared;
  readonly #prepared: Prepared[] = [];
  #last: Prepared;

  /** `makeText` returns the statement for `count` values: `?`, `NULL` or `0` each. */
  constructor(sql: Sql, count: number, makeText: (places: readonly string[]) => string) {
    assert(count <= valuesMax, 'more values than bits of an integer');
    this.#sql = sql;
    this.#count = count;
    this.#makeText = makeText;
    this.#whole = this.#prepare(0, 0);
    this.#last = this.#whole;
  }

  /** Inserts a row with these values. */
  run(values: readonly Stored[]): void {
    // Two sets of columns, as bits.
    let nulls = 0;
    let zeros = 0;
    for (const value of values) {
      nulls *= 2;
      zeros *= 2;
      if (value === null) nulls += 1;
      else if (value === 0 || value === 0n) zeros += 1;
    }
    const { bound, query } = this.#find(nulls, zeros);
    const wanted: Stored[] = [];
    for (const index of bound) wanted.push(values[index] ?? null);
    query.run(...wanted);
  }

  #find(nulls: number, zeros: number): Prepared {
    const isSame = (one: Prepared): boolean => one.nulls === nulls && one.zeros === zeros;
    if (!isSame(this.#last)) {
      const known = this.#prepared.find(isSame);
      const isFull = this.#prepared.length >= statementsMax;
      this.#last = known ?? (isFull ? this.#whole : this.#prepare(nulls, zeros));
    }
    return this.#last;
  }

  #prepare(nulls: number, zeros: number): Prepared {
    const has = (set: number, index: number): boolean => Math.floor(set / 2 ** (this.#count - 1 - index)) % 2 === 1;
    const places: string[] = [];
    const bound: number[] = [];
    for (let index = 0; index < this.#count; index++) {
      if (has(nulls, index)) places.push('NULL');
      else if (has(zeros, index)) places.push('0');
      else {
        bound.push(index);
        places.push('?');
      }
    }
    const prepared = { nulls, zeros, bound, query: this.#sql.prepare<Stored[]>(this.#makeText(places)) };
    this.#prepared.push(prepared);
    return prepared;
  }
}
