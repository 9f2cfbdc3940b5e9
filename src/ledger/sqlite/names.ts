import type { Query } from '../../lib/sqlite/database.ts';
import type { Stored } from './columns.ts';
import { insertText } from './columns.ts';
import type { Sql } from './sql.ts';

const knownMax = 10_000;

/** Numbers of what records name often: given when it is first named, and stored with the batch that names it. */
export class Names {
  readonly #known = new Map<string, number>();
  #added: Stored[][] = [];
  /** The last number given; undefined: not read yet. */
  #last: number | undefined;
  readonly #highest: Query<[], { id: bigint }>;
  readonly #find: Query<Stored[], { id: bigint }>;
  readonly #insert: Query<Stored[], unknown>;

  /** `columns`: what a row of the table says, beside its number. */
  constructor(sql: Sql, table: string, columns: readonly string[]) {
    const where = columns.map(column => `${column} IS ?`).join(' AND ');
    this.#highest = sql.prepare(`SELECT coalesce(max(id), 0) AS id FROM ${table}`);
    this.#find = sql.prepare(`SELECT id FROM ${table} WHERE ${where}`);
    this.#insert = sql.prepare(insertText(table, ['id', ...columns]));
  }

  /** Returns the number of what has these values and is called `name` here. */
  number(name: string, values: () => Stored[]): number {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const wanted = values();
    const number = Number(this.#find.get(...wanted)?.id ?? this.#add(wanted));
    if (this.#known.size >= knownMax && this.#added.length === 0) this.#known.clear();
    this.#known.set(name, number);
    return number;
  }

  /** Stores the numbers that were given since. */
  write(): void {
    for (const row of this.#added) this.#insert.run(...row);
  }

  /** The batch is stored. */
  settle(): void {
    if (this.#added.length > 0) this.#added = [];
  }

  /** Forgets everything, because a batch was not stored. */
  clear(): void {
    this.#known.clear();
    this.#added = [];
    this.#last = undefined;
  }

  #add(values: readonly Stored[]): number {
    this.#last = (this.#last ?? Number(this.#highest.get()?.id ?? 0n)) + 1;
    this.#added.push([this.#last, ...values]);
    return this.#last;
  }
}
