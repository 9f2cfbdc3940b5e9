import type { Query } from '../../lib/sqlite/database.ts';
import type { Stored } from './columns.ts';
import { insertText } from './columns.ts';
import type { Sql } from './sql.ts';

const knownMax = 10_000;

/** Numbers for values that records repeat: assigned on first use, and stored with the batch that uses them. */
export class Names {
  readonly #known = new Map<string, number>();
  readonly #named = new Map<number, string>();
  #added: Stored[][] = [];
  /** The last number given; undefined: not read yet. */
  #last: number | undefined;
  readonly #highest: Query<[], { id: bigint }>;
  readonly #find: Query<Stored[], { id: bigint }>;
  readonly #findName: Query<[number], { name: Stored }>;
  readonly #insert: Query<Stored[], unknown>;

  /** `columns`: the values of a row besides its number. */
  constructor(sql: Sql, table: string, columns: readonly string[]) {
    const where = columns.map(column => `${column} IS ?`).join(' AND ');
    this.#highest = sql.prepare(`SELECT coalesce(max(id), 0) AS id FROM ${table}`);
    this.#find = sql.prepare(`SELECT id FROM ${table} WHERE ${where}`);
    this.#findName = sql.prepare(`SELECT ${columns[0] ?? ''} AS name FROM ${table} WHERE id = ?`);
    this.#insert = sql.prepare(insertText(table, ['id', ...columns]));
  }

  /** Returns the first value of the row with that number; '' if there is no such row. */
  name(number: number): string {
    const known = this.#named.get(number);
    if (known !== undefined) return known;
    const added = this.#added.find(([id]) => id === number);
    const name = String(added?.[1] ?? this.#findName.get(number)?.name ?? '');
    if (this.#named.size >= knownMax) this.#named.clear();
    this.#named.set(number, name);
    return name;
  }

  /** Returns the number of the row with these values; `name` is its text here. */
  number(name: string, values: () => Stored[]): number {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const wanted = values();
    const number = Number(this.#find.get(...wanted)?.id ?? this.#add(wanted));
    if (this.#known.size >= knownMax && this.#added.length === 0) this.#known.clear();
    this.#known.set(name, number);
    return number;
  }

  /** Stores the numbers assigned since the last write. */
  write(): void {
    for (const row of this.#added) this.#insert.run(...row);
  }

  /** The batch is stored. */
  settle(): void {
    if (this.#added.length > 0) this.#added = [];
  }

  /** Discards everything, because a batch was not stored. */
  clear(): void {
    this.#known.clear();
    this.#named.clear();
    this.#added = [];
    this.#last = undefined;
  }

  #add(values: readonly Stored[]): number {
    this.#last = (this.#last ?? Number(this.#highest.get()?.id ?? 0n)) + 1;
    this.#added.push([this.#last, ...values]);
    return this.#last;
  }
}
