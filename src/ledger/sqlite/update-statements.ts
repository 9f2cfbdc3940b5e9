import assert from 'node:assert/strict';
import type { Query } from '../../lib/sqlite/database.ts';
import type { Codec, Stored, TableSpec } from './columns.ts';
import type { Sql } from './sql.ts';

/** The most properties that can change: each has a bit in an integer. */
const partsMax = 53;
/** The most statements that are kept prepared. Rows of which other properties change are written whole. */
const statementsMax = 50;

/** A property that may change, and its column. */
interface Part<R> {
  readonly property: keyof R;
  readonly column: string;
  readonly codec: Codec<unknown>;
}

/** A statement that changes some of the columns. `changes`: which, as the bits of an integer. */
interface Prepared<R> {
  readonly changes: number;
  readonly parts: readonly Part<R>[];
  readonly query: Query<Stored[], unknown>;
}

/** Updates rows, but only the columns that change: usually two or three of ten to twenty, and binding a value takes as long as much of SQLite's own work. */
export class UpdateStatements<R> {
  readonly #sql: Sql;
  readonly #table: string;
  readonly #where: string;
  readonly #parts: readonly Part<R>[];
  readonly #prepared: Prepared<R>[] = [];
  /** Changes every column. */
  readonly #whole: Prepared<R>;
  #last: Prepared<R>;

  constructor(sql: Sql, { table, key, fixed = [], columns }: TableSpec<R>) {
    const properties = Object.keys(columns) as (keyof R & string)[];
    this.#sql = sql;
    this.#table = table;
    this.#where = key.map(property => `${columns[property][0]} = ?`).join(' AND ');
    this.#parts = properties
      .filter(property => !key.includes(property) && !fixed.includes(property))
      .map(property => ({ property, column: columns[property][0], codec: columns[property][1] as Codec<unknown> }));
    assert(this.#parts.length <= partsMax, 'more properties than bits of an integer');
    this.#whole = this.#prepare(2 ** this.#parts.length - 1);
    this.#last = this.#whole;
  }

  /** Changes the row with this key from `before`, which is stored, to `after`. */
  run(after: R, before: R, key: readonly Stored[]): void {
    let changes = 0;
    for (const { property } of this.#parts) {
      changes *= 2;
      // Lists and bytes that are equal, but not the same, are written again.
      if (after[property] !== before[property]) changes += 1;
    }
    if (changes === 0) return;
    const { parts, query } = this.#find(changes);
    const values: Stored[] = [];
    for (const { property, codec } of parts) values.push(codec.write(after[property]));
    for (const part of key) values.push(part);
    query.run(...values);
  }

  #find(changes: number): Prepared<R> {
    if (this.#last.changes !== changes) {
      const known = this.#prepared.find(prepared => prepared.changes === changes);
      const isFull = this.#prepared.length >= statementsMax;
      this.#last = known ?? (isFull ? this.#whole : this.#prepare(changes));
    }
    return this.#last;
  }

  #prepare(changes: number): Prepared<R> {
    const last = this.#parts.length - 1;
    const parts = this.#parts.filter((_, index) => Math.floor(changes / 2 ** (last - index)) % 2 === 1);
    const set = parts.map(({ column }) => `${column} = ?`).join(', ');
    const query = this.#sql.prepare<Stored[]>(`UPDATE ${this.#table} SET ${set} WHERE ${this.#where}`);
    const prepared = { changes, parts, query };
    this.#prepared.push(prepared);
    return prepared;
  }
}
