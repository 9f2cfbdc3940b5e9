import assert from 'node:assert/strict';
import { SlotMap } from '../../lib/slot-map.ts';
import type { Query } from '../../lib/sqlite/database.ts';
import { insertText, RowCodec, type Stored, type TableSpec } from './columns.ts';
import { DeleteStatements } from './delete-statements.ts';
import { InsertStatements } from './insert-statements.ts';
import type { Sql } from './sql.ts';
import { UpdateStatements } from './update-statements.ts';

/** A row in memory; undefined: it does not exist. */
export interface Entry<R> {
  readonly name: number | string;
  readonly key: readonly (number | string)[];
  row: R | undefined;
  /** The row in the file; undefined: there is none. */
  stored: R | undefined;
  /** True if it changed in this batch. */
  isChanged: boolean;
  /** True if it was removed in this batch; another row may have taken its place. */
  isRemoved: boolean;
}

type Entries<R> = Pick<Map<number | string, Entry<R>>, 'get' | 'set' | 'delete' | 'clear' | 'size'>;

const secondMax = 2 ** 21;
/** Rows that stay in memory between batches. */
const keptMax = 50_000;

/** Rows of one table: read on first use, kept in memory; each row that a batch changes is written once, by `write`. */
export class CachedTable<R> {
  readonly #codec: RowCodec<R>;
  readonly #key: readonly (keyof R & string)[];
  readonly #entries: Entries<R>;
  readonly #changed: Entry<R>[] = [];
  /** Passing rows that this batch looked up and did not find. */
  readonly #absent: Entry<R>[] = [];
  readonly #find: Query<(number | string)[], Stored[]>;
  readonly #insert: InsertStatements;
  readonly #update: UpdateStatements<R>;
  /** undefined: rows are never removed. */
  readonly #delete: DeleteStatements | undefined;
  readonly #isPassing: boolean;
  /** No passing row has ever had a higher key. */
  #highest: number;

  /** `passing`: rows come and go in large numbers, with growing keys, none of them stored above `highest`. */
  constructor(sql: Sql, spec: TableSpec<R>, passing?: { readonly highest: number }) {
    this.#codec = new RowCodec(spec);
    this.#key = spec.key;
    this.#entries = passing === undefined ? new Map() : (new SlotMap<Entry<R>>() as unknown as Entries<R>);
    this.#isPassing = passing !== undefined;
    const [first = 'id' as keyof R & string] = spec.key;
    this.#delete = passing && new DeleteStatements(sql, spec.table, spec.columns[first][0]);
    this.#highest = passing?.highest ?? 0;
    const { names } = this.#codec;
    const where = spec.key.map(property => `${spec.columns[property][0]} = ?`).join(' AND ');
    this.#find = sql.prepareRaw(`SELECT ${names.join(', ')} FROM ${spec.table} WHERE ${where}`);
    this.#insert = new InsertStatements(sql, names.length, places => insertText(spec.table, names, places));
    this.#update = new UpdateStatements(sql, spec);
  }

  get(first: number | string, second?: number, third?: number): R | undefined {
    return this.entry(first, second, third).row;
  }

  /** Returns the place of a row, which saves `replace` a look-up. Valid until the next `settle` or `clear`. */
  entry(first: number | string, second?: number, third?: number): Entry<R> {
    let name = second === undefined ? first : (first as number) * secondMax + second;
    if (third !== undefined && third !== 0) name = `${name} ${third}`;
    const known = this.#entries.get(name);
    if (known !== undefined) return known;
    if (third !== undefined) return this.#load(name, [first, second ?? 0, third]);
    return this.#load(name, second === undefined ? [first] : [first, second]);
  }

  put(row: R): void {
    const [first = '', second, third] = this.#key;
    const value = (property: (keyof R & string) | undefined): number | undefined =>
      property === undefined ? undefined : (row[property] as number);
    this.replace(this.entry(row[first as keyof R] as number, value(second), value(third)), row);
  }

  replace(entry: Entry<R>, row: R | undefined): void {
    entry.row = row;
    if (entry.isChanged) return;
    entry.isChanged = true;
    this.#changed.push(entry);
  }

  remove(first: number | string): void {
    assert(this.#delete !== undefined, 'only passing rows are removed');
    const entry = this.entry(first);
    entry.isRemoved = true;
    this.replace(entry, undefined);
  }

  /** The number of rows in memory. */
  get size(): number {
    return this.#entries.size;
  }

  /** The number of rows to be written. */
  get changedCount(): number {
    return this.#changed.length;
  }

  /** Returns the rows that this batch has changed. */
  changed(): R[] {
    return this.#changed.flatMap(({ row }) => (row === undefined ? [] : [row]));
  }

  /** Writes the batch's changed rows. */
  write(): void {
    this.#delete?.run(this.#listRemoved());
    for (const { row, stored, isRemoved, key } of this.#changed) {
      if (row === undefined) continue;
      if (stored === undefined || isRemoved) this.#insert.run(this.#codec.write(row));
      else this.#update.run(row, stored, key);
    }
  }

  /** Returns the keys of the stored rows that this batch has removed. */
  #listRemoved(): Stored[] {
    const removed: Stored[] = [];
    for (const { stored, isRemoved, key } of this.#changed) {
      if (stored !== undefined && isRemoved) removed.push(key[0] ?? null);
    }
    return removed;
  }

  /** The batch is stored. */
  settle(): void {
    for (const entry of this.#changed) {
      entry.stored = entry.row;
      entry.isChanged = false;
      entry.isRemoved = false;
      if (entry.row === undefined) this.#entries.delete(entry.name);
    }
    for (const entry of this.#absent) if (entry.row === undefined) this.#entries.delete(entry.name);
    this.#changed.length = 0;
    this.#absent.length = 0;
    if (this.#entries.size > keptMax) this.#entries.clear();
  }

  /** Discards all rows, because a batch was not stored. */
  clear(): void {
    this.#entries.clear();
    this.#changed.length = 0;
    this.#absent.length = 0;
  }

  #load(name: number | string, key: readonly (number | string)[]): Entry<R> {
    assert(Number(key[1] ?? 0) < secondMax, 'a number of an owner is out of range');
    const isNew = this.#isPassing && typeof name === 'number' && name > this.#highest;
    if (isNew) this.#highest = name;
    const stored = isNew ? undefined : this.#find.get(...key);
    const row = stored === undefined ? undefined : this.#codec.read(stored);
    const entry: Entry<R> = { name, key, row, stored: row, isChanged: false, isRemoved: false };
    this.#entries.set(name, entry);
    if (this.#isPassing && row === undefined) this.#absent.push(entry);
    return entry;
  }
}
