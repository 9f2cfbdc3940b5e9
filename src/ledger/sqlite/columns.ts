import { decode, encode } from './codes.ts';

/** The values that SQLite stores; integers are read as bigint. */
export type Stored = bigint | number | string | Uint8Array | null;

/** Converts a property of a row to and from its stored form. */
export interface Codec<T> {
  read(stored: Stored): T;
  write(value: T): Stored;
}

/** The properties of a row with their columns and codecs. */
export type Columns<R> = { readonly [P in keyof R]-?: readonly [column: string, codec: Codec<R[P]>] };

/** A table of the file. */
export interface TableSpec<R> {
  readonly table: string;
  /** One to three properties. The second is from 0 to 2^21, the third, which is rarely other than 0, an integer. */
  readonly key: readonly (keyof R & string)[];
  /** True if it is never changed after the row is added, like the key. */
  readonly fixed?: readonly (keyof R & string)[];
  readonly columns: Columns<R>;
  /** Returns the values of all properties, in the order of `columns`; absent: they are read one by one. */
  readonly listValues?: (row: R) => unknown[];
  /** True if other gateways may end a row that an engine has cached: PostgreSQL's engine notices when it changes the row. */
  readonly guarded?: true;
}

const identity = <T>(value: T): T => value;

/** Counts, ids and times. */
export const int: Codec<number> = { read: Number, write: identity };
/** Money, and other integers above 2^53. */
export const money = { read: identity, write: identity } as Codec<bigint>;
export const text = { read: identity, write: identity } as Codec<string>;
export const bytes = { read: identity, write: identity } as Codec<Uint8Array>;
/** A request's public id, next to its ledger id. */
export const part = { read: identity, write: identity } as Codec<bigint | string>;
export const flag: Codec<boolean> = { read: stored => stored === 1n, write: Number };

/** NULL for null. */
export function orNull<T>(codec: Codec<T>): Codec<T | null> {
  return {
    read: stored => (stored === null ? null : codec.read(stored)),
    write:
      codec.write === identity
        ? (identity as Codec<T | null>['write'])
        : value => (value === null ? null : codec.write(value)),
  };
}

/** A text of a list, stored as its place in it. */
export function code<T extends string>(texts: readonly T[]): Codec<T> {
  return { read: stored => decode(texts, stored as bigint), write: value => encode(texts, value) };
}

/** A list of texts, stored as JSON. */
export const list: Codec<readonly string[]> = {
  read: stored => JSON.parse(stored as string) as string[],
  write: value => JSON.stringify(value),
};

/** Returns the statement that adds a row with values for these columns. `places`: the values; absent: all are bound. */
export function insertText(
  table: string,
  columns: readonly string[],
  places: readonly string[] = columns.map(() => '?'),
): string {
  return `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${places.join(', ')})`;
}

/** Reads rows of a table and makes their values, both in the order of its columns. */
export class RowCodec<R> {
  /** The columns, in their order. */
  readonly names: readonly string[];
  readonly #properties: readonly (keyof R & string)[];
  readonly #codecs: readonly Codec<unknown>[];
  readonly #listValues: (row: R) => unknown[];
  /** The indexes of values that are not stored as they are. */
  readonly #converted: readonly number[];

  constructor({ columns, listValues }: Pick<TableSpec<R>, 'columns' | 'listValues'>) {
    this.#properties = Object.keys(columns) as (keyof R & string)[];
    this.names = this.#properties.map(property => columns[property][0]);
    this.#codecs = this.#properties.map(property => columns[property][1] as Codec<unknown>);
    this.#listValues = listValues ?? (row => this.#properties.map(property => row[property]));
    this.#converted = [...this.#codecs.keys()].filter(index => this.#codecs[index]?.write !== identity);
  }

  read(stored: readonly Stored[]): R {
    const row: Record<string, unknown> = {};
    for (const [index, property] of this.#properties.entries()) {
      row[property] = this.#codecs[index]?.read(stored[index] ?? null);
    }
    return row as R;
  }

  write(row: R): Stored[] {
    const values = this.#listValues(row);
    for (const index of this.#converted) values[index] = this.#codecs[index]?.write(values[index]);
    return values as Stored[];
  }
}
