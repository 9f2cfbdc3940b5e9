import type { Query } from '../../lib/sqlite/database.ts';
import { insertText, RowCodec, type Stored, type TableSpec } from './columns.ts';
import { InsertStatements } from './insert-statements.ts';
import type { Sql } from './sql.ts';

/** Rows of a table to which rows are only added. A batch's rows are kept until `write`; others are read each time, because that is rare. */
export class AddedTable<R> {
  readonly #sql: Sql;
  readonly #spec: TableSpec<R>;
  readonly #codec: RowCodec<R>;
  readonly #key: keyof R & string;
  readonly #added: R[] = [];
  /** No row with a higher key is stored. */
  #highest: number;
  readonly #find: Query<(number | string)[], Stored[]>;
  readonly #insert: InsertStatements;

  /** `highest`: the highest stored key. */
  constructor(sql: Sql, spec: TableSpec<R>, highest = Number.POSITIVE_INFINITY) {
    this.#sql = sql;
    this.#spec = spec;
    this.#codec = new RowCodec(spec);
    const [first = 'id' as keyof R & string, second = first] = spec.key;
    this.#key = first;
    this.#highest = highest;
    const column = (property: keyof R & string): string => spec.columns[property][0];
    this.#find = sql.prepareRaw(
      `SELECT ${this.#codec.names.join(', ')} FROM ${spec.table} WHERE ${column(first)} = ? ORDER BY ${column(second)} DESC LIMIT 1`,
    );
    const { names } = this.#codec;
    this.#insert = new InsertStatements(sql, names.length, places => insertText(spec.table, names, places));
  }

  /** The number of rows that the batch has added. */
  get added(): number {
    return this.#added.length;
  }

  /** Returns the row with this first key that was added last. */
  get(first: number | string): R | undefined {
    if (typeof first === 'number' && first > this.#highest) return undefined;
    const added = this.#added.findLast(row => row[this.#key] === first);
    if (added !== undefined) return added;
    const stored = this.#find.get(first);
    return stored === undefined ? undefined : this.#codec.read(stored);
  }

  /** Returns the row with that value in the column; values are unique. */
  findBy(property: keyof R & string, value: number | string): R | undefined {
    const added = this.#added.find(row => row[property] === value);
    if (added !== undefined) return added;
    const [column] = this.#spec.columns[property];
    const query = this.#sql.prepareRaw<[number | string], Stored[]>(
      `SELECT ${this.#codec.names.join(', ')} FROM ${this.#spec.table} WHERE ${column} = ?`,
    );
    const stored = query.get(value);
    return stored === undefined ? undefined : this.#codec.read(stored);
  }

  put(row: R): void {
    this.#added.push(row);
    const first = row[this.#key];
    if (typeof first === 'number' && first > this.#highest) this.#highest = first;
  }

  /** Writes the batch's added rows. */
  write(): void {
    for (const row of this.#added) this.#insert.run(this.#codec.write(row));
  }

  /** The batch is stored. */
  settle(): void {
    this.clear();
  }

  /** Discards the batch's added rows. */
  clear(): void {
    this.#added.length = 0;
  }
}
