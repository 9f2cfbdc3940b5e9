import type { ColumnFile, ColumnName, DimensionName, Numbers } from './column-file.ts';

/** Conditions on dimensions: each returns whether a record with this value passes. `lists`: the lists of groups; a value of the dimension `groups` is an index of them. */
export type ColumnFilters = readonly {
  readonly dimension: DimensionName;
  readonly passes: (value: number, lists: readonly string[]) => boolean;
}[];

/** Rows of a file, from the first up to but not including the last. */
export interface Rows {
  readonly first: number;
  readonly last: number;
}

/** Reads columns. The memory is used again for the next file. */
export class ColumnBuffers {
  readonly #buffers = new Map<string, ArrayBuffer>();

  /** Returns the numbers of a column; a single number if all are the same. They are valid until the same column is read again. */
  read(file: ColumnFile, name: ColumnName, rows: Rows): Numbers | number {
    const bytes = (rows.last - rows.first) * Float64Array.BYTES_PER_ELEMENT;
    let buffer = this.#buffers.get(name);
    if (buffer === undefined || buffer.byteLength < bytes) {
      buffer = new ArrayBuffer(bytes);
      this.#buffers.set(name, buffer);
    }
    return file.read(name, rows, buffer);
  }
}

/** Finds the rows of files that pass all filters. */
export class RowChoice {
  readonly #filters: ColumnFilters;
  readonly #buffers: ColumnBuffers;
  /** The rows that the last `find` found, ascending, counted from the first searched row. */
  rows = new Uint32Array(0);

  constructor(filters: ColumnFilters, buffers: ColumnBuffers) {
    this.#filters = filters;
    this.#buffers = buffers;
  }

  /** Finds the rows that pass all filters. Returns how many there are. */
  find(file: ColumnFile, rows: Rows): number {
    const length = rows.last - rows.first;
    if (this.rows.length < length) this.rows = new Uint32Array(length);
    const chosen = this.rows;
    let count: number | undefined;
    for (const { dimension, passes } of this.#filters) {
      const { values, groupLists } = file.header;
      const isPassing = Uint8Array.from(values[dimension], value => (passes(value, groupLists) ? 1 : 0));
      if (!isPassing.includes(1)) return 0;
      if (!isPassing.includes(0)) continue;
      const codes = this.#buffers.read(file, dimension, rows);
      if (typeof codes === 'number') continue;
      count =
        count === undefined ? findPassing(codes, isPassing, chosen) : keepPassing(codes, isPassing, chosen, count);
      if (count === 0) return 0;
    }
    if (count !== undefined) return count;
    for (let row = 0; row < length; row++) chosen[row] = row;
    return length;
  }
}

/** As long as matching rows are this far apart on average, each next one is found by a search for its byte; otherwise every row is compared. */
const apartMin = 64;

function findPassing(codes: Numbers, isPassing: Uint8Array, chosen: Uint32Array): number {
  const code = isPassing.indexOf(1);
  const isOne = isPassing.indexOf(1, code + 1) === -1;
  if (isOne && codes instanceof Uint8Array) {
    // Compares many bytes at once.
    const bytes = Buffer.from(codes.buffer, codes.byteOffset, codes.length);
    let found = 0;
    let at = bytes.indexOf(code);
    while (at !== -1 && at + apartMin >= found * apartMin) {
      chosen[found] = at;
      found += 1;
      at = bytes.indexOf(code, at + 1);
    }
    if (at === -1) return found;
  }
  let count = 0;
  for (let row = 0; row < codes.length; row++) {
    chosen[count] = row;
    count += isPassing[codes[row] ?? 0] ?? 0;
  }
  return count;
}

function keepPassing(codes: Numbers, isPassing: Uint8Array, chosen: Uint32Array, before: number): number {
  let count = 0;
  for (let at = 0; at < before; at++) {
    const row = chosen[at] ?? 0;
    chosen[count] = row;
    count += isPassing[codes[row] ?? 0] ?? 0;
  }
  return count;
}
