import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import { type Parameter, type Sendable, toArray } from '../../lib/postgres/values.ts';
import { RowCodec, type Stored, type TableSpec } from '../sqlite/columns.ts';
import type { ColumnTypes } from './column-types.ts';
import { MissingRow, UnlockedAccount } from './missing-row.ts';
import { readPart, writePart } from './replay.ts';

type KeyPart = number | string;

interface Entry<R> {
  readonly key: readonly KeyPart[];
  row: R | undefined;
  /** True if the database's table has a row with this key. */
  isStored: boolean;
  isChanged: boolean;
  /** True if this batch has removed the row; another row with the same key may have been put since. */
  isRemoved: boolean;
}

/** The common part of all tables of a batch. */
export interface BatchScope {
  readonly types: ColumnTypes;
  /** Accounts whose rows may be read and changed. */
  readonly locked: ReadonlySet<number>;
  /** Called in reverse order if a command is undone. */
  readonly undo: (() => void)[];
}

/** A column that is no property of the rows. */
export interface ExtraColumn<R> {
  readonly name: string;
  readonly value: (row: R) => Sendable;
}

/** The SQL statements for a table. They are made once. */
export class TableStatements<R> {
  readonly spec: TableSpec<R>;
  readonly codec: RowCodec<R>;
  readonly select: string;
  readonly insert: string;
  readonly update: string;
  readonly remove: string;
  /** The indexes of the columns that can change. */
  readonly changing: readonly number[];
  readonly keyIndexes: readonly number[];
  readonly requestIndex: number;

  constructor(spec: TableSpec<R>, types: ColumnTypes, extra: readonly ExtraColumn<R>[] = []) {
    this.spec = spec;
    this.codec = new RowCodec(spec);
    const { names } = this.codec;
    const properties = Object.keys(spec.columns) as (keyof R & string)[];
    const findType = (name: string): string => types.get(`${spec.table}.${name}`) ?? 'text';
    const arrays = (columns: readonly string[], from = 1): string =>
      columns.map((name, index) => `$${index + from}::${findType(name)}[]`).join(', ');
    const keys = spec.key.map(property => spec.columns[property][0]);
    this.keyIndexes = spec.key.map(property => properties.indexOf(property));
    this.requestIndex = names.indexOf('request');
    const isFixed = (property: keyof R & string): boolean =>
      spec.key.includes(property) || spec.fixed?.includes(property) === true;
    this.changing = properties.flatMap((property, index) => (isFixed(property) ? [] : [index]));
    const own = names.map(name => `t.${name}`).join(', ');
    const [only] = keys;
    const joined = keys.map(key => `t.${key} = v.${key}`).join(' AND ');
    this.select =
      keys.length === 1
        ? `SELECT ${own} FROM ${spec.table} t WHERE t.${only ?? ''} = ANY(${arrays(keys)})`
        : `SELECT ${own} FROM unnest(${arrays(keys)}) AS v(${keys.join(', ')}) JOIN ${spec.table} t ON ${joined}`;
    const all = [...names, ...extra.map(({ name }) => name)];
    this.insert = `INSERT INTO ${spec.table} (${all.join(', ')}) SELECT * FROM unnest(${arrays(all)})`;
    const changed = this.changing.map(index => names[index] ?? '');
    this.update = `UPDATE ${spec.table} t SET ${changed.map(name => `${name} = v.${name}`).join(', ')}
      FROM unnest(${arrays([...changed, ...keys])}) AS v(${[...changed, ...keys].join(', ')}) WHERE ${joined}`;
    if (spec.guarded === true) {
      this.update = `WITH done AS (${this.update} RETURNING 1) SELECT 1 / ((SELECT count(*) FROM done) = $${changed.length + keys.length + 1}::int)::int`;
    }
    const place = keys.map((key, index) => `t.${key} = ($${index + 1}::${findType(key)}[])[n]`).join(' AND ');
    const gone = keys.length === 1 ? `t.${only ?? ''} = ANY(${arrays(keys)})` : place;
    // Divides by 0, which fails the batch, unless all rows existed. A batch reads a row before it removes it, and finds out then if another gateway has ended it.
    this.remove = `WITH gone AS (DELETE FROM ${spec.table} t WHERE ${gone} RETURNING 1) SELECT 1 / ((SELECT count(*) FROM gone) = $${keys.length + 1}::int)::int`;
  }
}

/** The rows of one table that a batch has loaded or changed. Each changed row is written once. */
export class BatchTable<R> {
  readonly #statements: TableStatements<R>;
  readonly #scope: BatchScope;
  readonly #extra: readonly ExtraColumn<R>[];
  readonly #entries = new Map<KeyPart, Entry<R>>();
  /** Entries that are changed and not written yet. */
  readonly #changed: Entry<R>[] = [];
  /** Entries that were changed and written earlier in this batch. */
  readonly #written = new Set<Entry<R>>();
  readonly #wanted = new Map<KeyPart, readonly KeyPart[]>();

  constructor(statements: TableStatements<R>, scope: BatchScope, extra: readonly ExtraColumn<R>[] = []) {
    this.#statements = statements;
    this.#scope = scope;
    this.#extra = extra;
  }

  /** Returns the row; undefined if it does not exist. Throws `MissingRow` if it was not looked up yet. */
  get(...key: readonly KeyPart[]): R | undefined {
    const entry = this.#entries.get(toMapKey(key));
    if (entry !== undefined) return entry.row;
    this.want(...key);
    throw new MissingRow({ steps: this.loadSteps(), onResults: results => this.takeLoaded(results) });
  }

  /** Returns whether the row was looked up already. */
  has(...key: readonly KeyPart[]): boolean {
    return this.#entries.has(toMapKey(key));
  }

  put(row: R): void {
    const key = this.#readKey(row);
    const name = toMapKey(key);
    let entry = this.#entries.get(name);
    if (entry === undefined) {
      entry = { key, row: undefined, isStored: false, isChanged: false, isRemoved: false };
      this.#entries.set(name, entry);
      this.#scope.undo.push(() => this.#entries.delete(name));
    }
    this.#replace(entry, row);
  }

  remove(...key: readonly KeyPart[]): void {
    const entry = this.#entries.get(toMapKey(key));
    if (entry?.row === undefined) return;
    const before = entry.isRemoved;
    this.#scope.undo.push(() => {
      entry.isRemoved = before;
    });
    entry.isRemoved = true;
    this.#replace(entry, undefined);
  }

  /** Forgets a row that another statement of this batch deletes. */
  drop(...key: readonly KeyPart[]): void {
    const entry = this.#entries.get(toMapKey(key));
    if (entry === undefined) return;
    const { isStored } = entry;
    this.#scope.undo.push(() => {
      entry.isStored = isStored;
    });
    this.#replace(entry, undefined);
    entry.isStored = false;
  }

  /** Includes a row in the next `loadSteps`. */
  want(...key: readonly KeyPart[]): void {
    const name = toMapKey(key);
    if (!this.#entries.has(name)) this.#wanted.set(name, key);
  }

  /** Notes that the database has no row with this key. */
  markAbsent(...key: readonly KeyPart[]): void {
    this.#add(key, undefined);
  }

  /** Adds a row as the database has it. Does nothing if the batch knows the row already. */
  addLoaded(row: R): void {
    this.#add(this.#readKey(row), row);
  }

  /** Adds rows that another statement has selected, in the order of the codec's columns. Returns them with the changes of this batch; removed ones are left out. */
  addAllLoaded({ rows }: StepResult): R[] {
    return rows.flatMap(stored => {
      const row = this.#read(stored);
      const key = this.#readKey(row);
      this.#add(key, row);
      return this.#entries.get(toMapKey(key))?.row ?? [];
    });
  }

  /** Returns the statement that loads the wanted rows; none if no row is wanted. */
  loadSteps(): Step[] {
    if (this.#wanted.size === 0) return [];
    const keys = [...this.#wanted.values()];
    const values = this.#statements.keyIndexes.map((_, index) => toArray(keys.map(key => key[index] ?? null)));
    return [{ text: this.#statements.select, values }];
  }

  /** Adds the rows that the statement of `loadSteps` has returned. Wanted rows that are not among them do not exist. */
  takeLoaded([result]: readonly StepResult[]): void {
    if (result !== undefined) this.addAllLoaded(result);
    for (const key of this.#wanted.values()) this.#add(key, undefined);
    this.#wanted.clear();
  }

  /** Returns all rows that the batch has loaded or put. */
  rows(): R[] {
    return [...this.#entries.values()].flatMap(({ row }) => (row === undefined ? [] : [row]));
  }

  /** Returns the rows that are changed and not written yet: the database has older ones. */
  changed(): R[] {
    return this.#changed.flatMap(({ row }) => (row === undefined ? [] : [row]));
  }

  /** Returns all rows that the batch has changed, whether they are written or not. */
  changedInBatch(): R[] {
    return this.#allChanged().flatMap(({ row }) => (row === undefined ? [] : [row]));
  }

  /** Returns the keys of all rows that the batch has removed. */
  removedInBatch(): (readonly KeyPart[])[] {
    return this.#allChanged().flatMap(({ row, key }) => (row === undefined ? [key] : []));
  }

  get hasChangedInBatch(): boolean {
    return this.#changed.length > 0 || this.#written.size > 0;
  }

  get hasChanges(): boolean {
    return this.#changed.length > 0;
  }

  /** Returns the statements that write the changed rows. */
  writeSteps(): Step[] {
    const removed = this.#changed.filter(entry => entry.isStored && entry.isRemoved);
    const present = this.#changed.filter(entry => entry.row !== undefined);
    const inserted = present.filter(entry => !entry.isStored || entry.isRemoved);
    const updated = present.filter(entry => entry.isStored && !entry.isRemoved);
    const { remove, insert, update, keyIndexes, changing } = this.#statements;
    const steps: Step[] = [];
    if (removed.length > 0) {
      const keys = keyIndexes.map((_, index) => toArray(removed.map(({ key }) => key[index] ?? null)));
      steps.push({ text: remove, values: [...keys, String(removed.length)] });
    }
    // Updates come before inserts: a row that ends may make place for a new one.
    if (updated.length > 0) {
      const rows = updated.map(({ row, key }) => {
        const values = this.#write(row as R);
        return [...changing.map(index => values[index] ?? null), ...key];
      });
      const count = this.#statements.spec.guarded === true ? [String(updated.length)] : [];
      steps.push({ text: update, values: [...toColumnArrays(rows), ...count] });
    }
    if (inserted.length > 0) {
      const rows = inserted.map(({ row }) => [
        ...this.#write(row as R),
        ...this.#extra.map(({ value }) => value(row as R)),
      ]);
      steps.push({ text: insert, values: toColumnArrays(rows) });
    }
    return steps;
  }

  /** Forgets the pending changes, because they have been written. */
  markWritten(): void {
    for (const entry of this.#changed) {
      entry.isStored = entry.row !== undefined;
      entry.isChanged = false;
      entry.isRemoved = false;
      this.#written.add(entry);
    }
    this.#changed.length = 0;
  }

  #allChanged(): Entry<R>[] {
    if (this.#written.size === 0) return this.#changed;
    return [...this.#written.union(new Set(this.#changed))];
  }

  #replace(entry: Entry<R>, row: R | undefined): void {
    const { row: before, isChanged } = entry;
    const count = this.#changed.length;
    this.#scope.undo.push(() => {
      entry.row = before;
      entry.isChanged = isChanged;
      this.#changed.length = count;
    });
    entry.row = row;
    if (isChanged) return;
    entry.isChanged = true;
    this.#changed.push(entry);
  }

  #add(key: readonly KeyPart[], row: R | undefined): void {
    const name = toMapKey(key);
    if (this.#entries.has(name)) return;
    const { accountId } = (row ?? {}) as { readonly accountId?: number | null };
    if (typeof accountId === 'number' && accountId > 0 && !this.#scope.locked.has(accountId)) {
      throw new UnlockedAccount(accountId);
    }
    this.#entries.set(name, { key, row, isStored: row !== undefined, isChanged: false, isRemoved: false });
  }

  #read(stored: Stored[]): R {
    const { codec, requestIndex } = this.#statements;
    return codec.read(requestIndex < 0 ? stored : stored.with(requestIndex, readPart(stored[requestIndex] ?? null)));
  }

  #write(row: R): Sendable[] {
    const { codec, requestIndex } = this.#statements;
    const values = codec.write(row);
    return requestIndex < 0 ? values : values.with(requestIndex, writePart(values[requestIndex]) as Stored);
  }

  #readKey(row: R): KeyPart[] {
    return this.#statements.spec.key.map(property => row[property] as KeyPart);
  }
}

function toMapKey(key: readonly KeyPart[]): KeyPart {
  return key.length === 1 ? (key[0] ?? '') : key.join(' ');
}

/** Returns rows as one array for each column. */
export function toColumnArrays(rows: readonly (readonly Sendable[])[]): Parameter[] {
  return (rows[0] ?? []).map((_, index) => toArray(rows.map(row => row[index] ?? null)));
}
