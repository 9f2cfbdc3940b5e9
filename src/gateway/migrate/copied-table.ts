import { createHash } from 'node:crypto';
import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import { type Sendable, toArray, type Value } from '../../lib/postgres/values.ts';
import type { Connection } from '../../lib/sqlite/database.ts';

/**
 * Copies one table from SQLite to PostgreSQL. Its columns have the same names in both, except columns that each database computes itself.
 */

/** How many rows are copied in one step, and how many of a table whose rows may be large. */
const stepRows = 2_000;
const stepLargeRows = 50;

/** A row of a table, by its columns. */
export type CopiedRow = Readonly<Record<string, Sendable>>;

/** The facts about a table that `TableCopy` must know. */
export interface CopiedTable {
  readonly name: string;
  /** The table's name in PostgreSQL; absent: the same name. */
  readonly target?: string;
  /** Columns that only PostgreSQL has, computed from a row. */
  readonly added?: Readonly<Record<string, (row: CopiedRow) => Sendable>>;
  /** Columns that have another form in PostgreSQL, each with the conversion. */
  readonly changed?: Readonly<Record<string, (value: Sendable) => Sendable>>;
  /** Returns the conversion of rows that PostgreSQL can't store as they are, which reads what it needs from SQLite; absent: PostgreSQL can store all. */
  readonly makeStorable?: (from: Connection) => (row: CopiedRow) => CopiedRow;
  /** Returns the values of a row from which its digest is computed; absent: the table has no digest. */
  readonly digested?: (row: CopiedRow) => readonly Sendable[];
  /** The column whose values PostgreSQL generates; absent: none. */
  readonly numbered?: string;
  /** True if its rows may be large. */
  readonly isLarge?: boolean;
}

/** The number of rows of a table in one of the databases, and the sum of each integer column. */
export type TableSums = ReadonlyMap<string, bigint>;

/** The progress of copying. */
export interface CopyPlace {
  /** How many rows earlier runs have copied. */
  readonly done: number;
  /** Called in the transaction of each step, with the number of copied rows. */
  readonly advance: (connection: PostgresConnection, rows: number) => Promise<void>;
}

/** Copies a table from SQLite to PostgreSQL, and compares the two. */
export class TableCopy {
  readonly #table: CopiedTable;
  readonly #from: Connection;
  readonly #to: PostgresConnection;
  readonly #types: ReadonlyMap<string, string>;
  readonly #columns: readonly string[];

  constructor(table: CopiedTable, from: Connection, to: PostgresConnection, types: ReadonlyMap<string, string>) {
    this.#table = table;
    this.#from = from;
    this.#to = to;
    this.#types = types;
    const sourceColumns = from
      .prepare<[string], { name: string }>('SELECT name FROM pragma_table_info(?)')
      .all(table.name);
    this.#columns = sourceColumns.map(({ name }) => name).filter(name => types.has(`${this.target}.${name}`));
  }

  get target(): string {
    return this.#table.target ?? this.#table.name;
  }

  /** Copies the rows that were not copied yet, step by step. Returns the number of rows of the table. */
  async run(place: CopyPlace): Promise<number> {
    const { name, isLarge = false } = this.#table;
    const limit = isLarge ? stepLargeRows : stepRows;
    const order = this.#order();
    const columns = this.#columns.map(column => `"${column}"`).join(', ');
    const toStorable = this.#table.makeStorable?.(this.#from) ?? ((row: CopiedRow): CopiedRow => row);
    const select = this.#from.prepare<[number, number], CopiedRow>(
      `SELECT ${columns} FROM "${name}" ORDER BY ${order} LIMIT ? OFFSET ?`,
    );
    let { done } = place;
    for (;;) {
      const rows = select.all(limit, done);
      if (rows.length > 0) {
        await this.#to.transaction(async connection => {
          await this.#insert(connection, rows.map(toStorable));
          await place.advance(connection, done + rows.length);
        });
      }
      done += rows.length;
      if (rows.length < limit) break;
    }
    await this.#advanceSequence();
    return done;
  }

  /** Returns the number of rows and the sums of both databases. */
  async compare(): Promise<{ readonly from: TableSums; readonly to: TableSums }> {
    const integers = this.#columns.filter(column => /^(?:int[248]|numeric)$/.test(this.#type(column)));
    const parts = integers.map(column => `sum("${column}") AS "${column}"`);
    const select = ['count(*) AS rows', ...parts].join(', ');
    const from = this.#from
      .prepare<[], Record<string, bigint | null>>(`SELECT ${select} FROM "${this.#table.name}"`)
      .get();
    const [to] = await this.#to.query(`SELECT ${select} FROM "${this.target}"`, [], 600_000);
    return { from: toSums(from ?? {}), to: toSums(to ?? {}) };
  }

  async #insert(connection: PostgresConnection, rows: readonly CopiedRow[]): Promise<void> {
    const { added = {}, changed = {}, digested } = this.#table;
    const more: [string, (row: CopiedRow) => Sendable][] = Object.entries(added);
    if (digested !== undefined) more.push(['digest', row => computeDigest(digested(row))]);
    const columns = [...this.#columns, ...more.map(([column]) => column)];
    const values = [
      ...this.#columns.map(column => {
        const write = changed[column] ?? ((value: Sendable): Sendable => value);
        return toArray(rows.map(row => write(row[column] ?? null)));
      }),
      ...more.map(([, make]) => toArray(rows.map(make))),
    ];
    const arrays = columns.map((column, index) => `$${index + 1}::${this.#type(column)}[]`).join(', ');
    const names = columns.map(column => `"${column}"`).join(', ');
    const text = `INSERT INTO "${this.target}" (${names}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest(${arrays}) ON CONFLICT DO NOTHING`;
    await connection.run([{ text, values }], 600_000);
  }

  /** Advances the sequence of the identity column, so that new rows get higher numbers than the copied ones. */
  async #advanceSequence(): Promise<void> {
    const { numbered } = this.#table;
    if (numbered === undefined) return;
    await this.#to.query(
      `SELECT setval(pg_get_serial_sequence('${this.target}', '${numbered}'), (SELECT coalesce(max(${numbered}), 0) + 1 FROM "${this.target}"), false)`,
    );
  }

  /** Returns the order in which rows are copied. It is always the same, so that an interrupted run can be continued. */
  #order(): string {
    const keys = this.#from
      .prepare<[string], { name: string }>('SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk')
      .all(this.#table.name);
    return keys.length === 0 ? 'rowid' : keys.map(({ name }) => `"${name}"`).join(', ');
  }

  #type(column: string): string {
    return this.#types.get(`${this.target}.${column}`) ?? 'text';
  }
}

/** Computes the same digest as `toDigest` in `src/ledger/postgres/dictionary.ts`. */
function computeDigest(values: readonly Sendable[]): Uint8Array {
  const json = JSON.stringify(values, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
  return createHash('sha256').update(json).digest();
}

function toSums(row: Readonly<Record<string, Value | bigint>>): TableSums {
  return new Map(Object.entries(row).map(([name, value]) => [name, value === null ? 0n : BigInt(String(value))]));
}
