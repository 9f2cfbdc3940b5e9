import { createHash } from 'node:crypto';
import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import { type Sendable, toArray, type Value } from '../../lib/postgres/values.ts';
import type { Connection } from '../../lib/sqlite/database.ts';

/**
 * Describes how one table is copied from SQLite to PostgreSQL. Its columns have the same names in both, except those that each computes for
 * itself.
 */

/** Rows of a step; a body may be large, so that its table takes fewer. */
const stepRows = 2_000;
const stepRowsOfBytes = 50;

/** A table to copy. */
export interface CopiedTable {
  readonly name: string;
  /** Its name in PostgreSQL; absent: the same. */
  readonly target?: string;
  /** Columns that only PostgreSQL has, made of a row. */
  readonly added?: Readonly<Record<string, (row: Readonly<Record<string, Sendable>>) => Sendable>>;
  /** Columns that PostgreSQL has in another form. */
  readonly changed?: Readonly<Record<string, (value: Sendable) => Sendable>>;
  /** Returns what its digest is made of. */
  readonly digested?: (row: Readonly<Record<string, Sendable>>) => readonly Sendable[];
  /** The column that the database numbers. */
  readonly numbered?: string;
  readonly isLarge?: boolean;
}

/** The content of a table on one side: its number of rows, and the sum of each integer column. */
export type TableSums = ReadonlyMap<string, bigint>;

/** The progress of copying. */
export interface CopyPlace {
  /** Rows of earlier runs. */
  readonly done: number;
  /** Called in the transaction of each step. */
  readonly advance: (connection: PostgresConnection, rows: number) => Promise<void>;
}

/** A table on both sides. */
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
    const there = from.prepare<[string], { name: string }>('SELECT name FROM pragma_table_info(?)').all(table.name);
    this.#columns = there.map(({ name }) => name).filter(name => types.has(`${this.target}.${name}`));
  }

  get target(): string {
    return this.#table.target ?? this.#table.name;
  }

  /** Copies the rows that are not copied yet, step by step. Returns the number of rows. */
  async run(place: CopyPlace): Promise<number> {
    const { name, isLarge = false } = this.#table;
    const limit = isLarge ? stepRowsOfBytes : stepRows;
    const order = this.#order();
    const columns = this.#columns.map(column => `"${column}"`).join(', ');
    const select = this.#from.prepare<[number, number], Record<string, Sendable>>(
      `SELECT ${columns} FROM "${name}" ORDER BY ${order} LIMIT ? OFFSET ?`,
    );
    let { done } = place;
    for (;;) {
      const rows = select.all(limit, done);
      if (rows.length > 0) {
        await this.#to.transaction(async connection => {
          await this.#insert(connection, rows);
          await place.advance(connection, done + rows.length);
        });
      }
      done += rows.length;
      if (rows.length < limit) break;
    }
    await this.#setNumber();
    return done;
  }

  /** Returns the rows and sums on both sides. */
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

  async #insert(connection: PostgresConnection, rows: readonly Record<string, Sendable>[]): Promise<void> {
    const { added = {}, changed = {}, digested } = this.#table;
    const more: [string, (row: Readonly<Record<string, Sendable>>) => Sendable][] = Object.entries(added);
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

  /** The database numbers new rows above those that were copied. */
  async #setNumber(): Promise<void> {
    const { numbered } = this.#table;
    if (numbered === undefined) return;
    await this.#to.query(
      `SELECT setval(pg_get_serial_sequence('${this.target}', '${numbered}'), (SELECT coalesce(max(${numbered}), 0) + 1 FROM "${this.target}"), false)`,
    );
  }

  /** The order of the steps, so that an interrupted run continues where it stopped: nothing changes in between. */
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

/** Computes the digest as the ledger's dictionary on PostgreSQL does. */
function computeDigest(values: readonly Sendable[]): Uint8Array {
  const json = JSON.stringify(values, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
  return createHash('sha256').update(json).digest();
}

function toSums(row: Readonly<Record<string, Value | bigint>>): TableSums {
  return new Map(Object.entries(row).map(([name, value]) => [name, value === null ? 0n : BigInt(String(value))]));
}
