import type { Query } from '../../lib/sqlite/database.ts';
import type { Stored } from './columns.ts';
import { insertText } from './columns.ts';
import type { Sql } from './sql.ts';

const knownMax = 10_000;

/** Assigns ids to values that records repeat. A new id is stored with the batch that uses it first. */
export class Names {
  readonly #known = new Map<string, number>();
  readonly #named = new Map<number, string>();
  #added: Stored[][] = [];
  /** The highest id; undefined: not read yet. */
  #last: number | undefined;
  readonly #highest: Query<[], { id: bigint }>;
  readonly #find: Query<Stored[], { id: bigint }>;
  readonly #findName: Query<[number], { name: Stored }>;
  readonly #insert: Query<Stored[], unknown>;

  /** `columns`: the columns of the table except the id. */
  constructor(sql: Sql, table: string, columns: readonly string[]) {
    const where = columns.map(column => `${column} IS ?`).join(' AND ');
    this.#highest = sql.prepare(`SELECT coalesce(max(id), 0) AS id FROM ${table}`);
    this.#find = sql.prepare(`SELECT id FROM ${table} WHERE ${where}`);
    this.#findName = sql.prepare(`SELECT ${columns[0] ?? ''} AS name FROM ${table} WHERE id = ?`);
    this.#insert = sql.prepare(insertText(table, ['id', ...columns]));
  }

  /** Returns the first value of the row with this id; '' if there is no such row. */
  name(number: number): string {
    const known = this.#named.get(number);
    if (known !== undefined) return known;
    const added = this.#added.find(([id]) => id === number);
    const name = String(added?.[1] ?? this.#findName.get(number)?.name ?? '');
    if (this.#named.size >= knownMax) this.#named.clear();
    this.#named.set(number, name);
    return name;
  }

  /** Returns the id of the row with these values. `name`: a text that identifies the row in the cache. */
  number(name: string, values: () => Stored[]): number {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const wanted = values();
    const number = Number(this.#find.get(...wanted)?.id ?? this.#add(wanted));
    if (this.#known.size >= knownMax && this.#added.length === 0) this.#known.clear();
    this.#known.set(name, number);
    return number;
  }

  /** Writes the ids that were assigned since the last write. */
  write(): void {
    for (const row of this.#added) this.#insert.run(...row);
  }

  /** Called when the batch has been stored. */
  settle(): void {
    if (this.#added.length > 0) this.#added = [];
  }

  /** Clears the cache, because a batch was not stored. */
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
