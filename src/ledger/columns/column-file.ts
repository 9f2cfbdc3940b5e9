import { closeSync, fsyncSync, mkdirSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Hours } from './totals.ts';

/**
 * A file with an account's records of some consecutive hours, in order of time, stored by column. A column has one number per record, in as few bytes as its greatest
 * number needs, so that sums over millions of records read few bytes. After the records come the same records summed by day ("combined"), if that gives far fewer rows.
 * A file is never changed.
 */

/** The columns by which records can be grouped and filtered. A record that has no value has the number `absent`. `pocket`: whose balance paid, as `toPocket` numbers it. */
export const dimensionNames = ['key', 'model', 'provider', 'endpoint', 'end_user', 'tags', 'groups', 'pocket'] as const;
export type DimensionName = (typeof dimensionNames)[number];
/** The columns that are summed; no amount is negative. `requests`: 1, or the number of records that a combined row stands for. `charged`: the cost, if the provider cost is known, else 0. */
export const amountNames = [
  'requests',
  'failed',
  'cost',
  'provider_cost',
  'charged',
  'input',
  'cache_read',
  'cache_write',
  'output',
  'latency_ms',
] as const;
export type AmountName = (typeof amountNames)[number];
export type ColumnName = DimensionName | AmountName | 'offset_ms';

/** The number of a dimension that a record has no value of. */
export const absent = -1;

/** Returns a number that identifies the balance that paid: the account's, a key's or a group's. */
export function toPocket(keyId: number | null, groupId: number | null): number {
  return keyId ?? (groupId === null ? 0 : -1 - groupId);
}

export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array;
type Width = 1 | 2 | 4 | 8;

/** Where the file has a column. If all its numbers are the same, only that number is stored. */
type Place = { readonly same: number } | { readonly at: number; readonly width: Width };

interface Header extends Hours {
  readonly rows: number;
  /** The first row of each hour, and, as the last element, the number of rows. */
  readonly starts: readonly number[];
  /** The distinct values of each dimension; its column has indexes of this list. */
  readonly values: Readonly<Record<DimensionName, readonly number[]>>;
  /** The distinct lists of groups; a value of the dimension `groups` is an index of this list. */
  readonly groupLists: readonly string[];
  readonly columns: Readonly<Record<ColumnName, Place>>;
  /** The records of each UTC day, summed by all dimensions except the end user; absent if that would save few rows. */
  readonly combined?: Header;
}

/** The columns of a file that is to be written. */
export interface ColumnContent extends Hours {
  /** The times of the records in ms since the first hour, ascending. */
  readonly offsetsMs: Float64Array;
  readonly dimensions: Readonly<Record<DimensionName, Float64Array>>;
  readonly groupLists: readonly string[];
  readonly amounts: Readonly<Record<AmountName, Float64Array>>;
}

const magic = 'TGCOL001';
const headAt = magic.length + 4;
const alignment = 8;
const hourMs = 3_600_000;

/** Writes a file, wholly or not at all. `combined`: see `Header`. */
export function writeColumns(path: string, content: ColumnContent, combined?: ColumnContent): void {
  const records = layOut(content, 0);
  const sums = combined === undefined ? undefined : layOut(combined, records.end);
  const header: Header = { ...records.header, ...(sums !== undefined && { combined: sums.header }) };
  const parts = [...records.parts, ...(sums?.parts ?? [])];
  const head = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(head.length);
  mkdirSync(dirname(path), { recursive: true });
  const draft = `${path}.draft`;
  const file = openSync(draft, 'w', 0o600);
  try {
    writeSync(file, Buffer.concat([Buffer.from(magic), length, head]), 0, undefined, 0);
    const dataAt = align(headAt + head.length);
    for (const { at, numbers } of parts)
      writeSync(
        file,
        new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength),
        0,
        undefined,
        dataAt + at,
      );
    fsyncSync(file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  renameSync(draft, path);
}

interface Layout {
  readonly header: Header;
  readonly parts: readonly { at: number; numbers: Numbers }[];
  /** Where the next column can begin. */
  readonly end: number;
}

function layOut(content: ColumnContent, start: number): Layout {
  const { from, to, offsetsMs, dimensions, groupLists, amounts } = content;
  const parts: { at: number; numbers: Numbers }[] = [];
  let end = start;
  const place = (numbers: Float64Array): Place => {
    const narrow = toNarrow(numbers);
    if (typeof narrow === 'number') return { same: narrow };
    const at = end;
    parts.push({ at, numbers: narrow });
    end = align(at + narrow.byteLength);
    return { at, width: narrow.BYTES_PER_ELEMENT as Width };
  };
  const coded = dimensionNames.map(name => [name, toCodes(dimensions[name])] as const);
  const columns = Object.fromEntries([
    ['offset_ms', place(offsetsMs)],
    ...coded.map(([name, { codes }]) => [name, place(codes)]),
    ...amountNames.map(name => [name, place(amounts[name])]),
  ]) as Header['columns'];
  const values = Object.fromEntries(
    coded.map(([name, { values: found }]) => [name, found]),
  ) as unknown as Header['values'];
  const starts = findStarts(offsetsMs, to - from);
  return { header: { from, to, rows: offsetsMs.length, starts, values, groupLists, columns }, parts, end };
}

function align(at: number): number {
  return Math.ceil(at / alignment) * alignment;
}

/** Returns the numbers in as few bytes as possible, or a single number if all are equal. */
function toNarrow(numbers: Float64Array): Numbers | number {
  let max = 0;
  let isSame = true;
  const first = numbers[0] ?? 0;
  for (const number of numbers) {
    if (number > max) max = number;
    if (number !== first) isSame = false;
  }
  if (isSame) return first;
  if (max < 2 ** 8) return Uint8Array.from(numbers);
  if (max < 2 ** 16) return Uint16Array.from(numbers);
  return max < 2 ** 32 ? Uint32Array.from(numbers) : numbers;
}

/** Returns the distinct numbers, ascending, and for each given number its index among them. */
function toCodes(numbers: Float64Array): { values: number[]; codes: Float64Array } {
  const values = [...new Set(numbers)].sort((one, other) => one - other);
  const places = new Map(values.map((value, index) => [value, index]));
  return { values, codes: numbers.map(number => places.get(number) ?? 0) };
}

function findStarts(offsetsMs: Float64Array, hours: number): number[] {
  const starts: number[] = [];
  let row = 0;
  for (let hour = 0; hour < hours; hour++) {
    while (row < offsetsMs.length && (offsetsMs[row] ?? 0) < hour * hourMs) row++;
    starts.push(row);
  }
  return [...starts, offsetsMs.length];
}

/** A file that is open for reading. */
export class ColumnFile {
  readonly header: Header;
  readonly #file: number;
  readonly #dataAt: number;

  private constructor(file: number, header: Header, dataAt: number) {
    this.#file = file;
    this.header = header;
    this.#dataAt = dataAt;
  }

  /** Opens a file. `known`: its header, if it was read before. Throws if the file does not exist or is not a column file. */
  static open(path: string, known?: { readonly header: Header; readonly dataAt: number }): ColumnFile {
    const file = openSync(path, 'r');
    try {
      const { header, dataAt } = known ?? readHeader(file);
      return new ColumnFile(file, header, dataAt);
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }

  /** The value to pass to `open` the next time. */
  get known(): { readonly header: Header; readonly dataAt: number } {
    return { header: this.header, dataAt: this.#dataAt };
  }

  close(): void {
    closeSync(this.#file);
  }

  /** Returns the combined rows like a file of their own, which is open as long as this one; undefined if there are none. */
  get combined(): ColumnFile | undefined {
    const { combined } = this.header;
    return combined && new ColumnFile(this.#file, combined, this.#dataAt);
  }

  /** Returns the first row whose time is `atMs` or later. `atMs` is within the file's hours. */
  findRow(atMs: number): number {
    const { from, to, starts, rows } = this.header;
    if (atMs <= from * hourMs) return 0;
    if (atMs >= to * hourMs) return rows;
    const hour = Math.floor(atMs / hourMs) - from;
    const first = starts[hour] ?? 0;
    if (atMs % hourMs === 0) return first;
    const last = starts[hour + 1] ?? rows;
    const offsets = this.read('offset_ms', { first, last });
    if (typeof offsets === 'number') return offsets < atMs - from * hourMs ? last : first;
    const offsetMs = atMs - from * hourMs;
    let found = 0;
    while (found < offsets.length && (offsets[found] ?? 0) < offsetMs) found++;
    return first + found;
  }

  /** Returns the numbers of a column from row `first` up to but not including `last`; a single number if all are the same. `into`: memory for them, which the next read may overwrite. */
  read(name: ColumnName, { first, last }: { first: number; last: number }, into?: ArrayBuffer): Numbers | number {
    const place = this.header.columns[name];
    if ('same' in place) return place.same;
    const { at, width } = place;
    const [length, bytes] = [last - first, (last - first) * width];
    const buffer = into !== undefined && into.byteLength >= bytes ? into : new ArrayBuffer(bytes);
    const target = new Uint8Array(buffer, 0, bytes);
    if (readSync(this.#file, target, 0, bytes, this.#dataAt + at + first * width) < bytes)
      throw new Error('a column file is too short');
    if (width === 1) return target;
    if (width === 2) return new Uint16Array(buffer, 0, length);
    return width === 4 ? new Uint32Array(buffer, 0, length) : new Float64Array(buffer, 0, length);
  }
}

function readHeader(file: number): { header: Header; dataAt: number } {
  const start = Buffer.alloc(headAt);
  readSync(file, start, 0, headAt, 0);
  if (start.toString('latin1', 0, magic.length) !== magic) throw new Error('not a column file');
  const head = Buffer.alloc(start.readUInt32LE(magic.length));
  readSync(file, head, 0, head.length, headAt);
  return { header: JSON.parse(head.toString()) as Header, dataAt: align(headAt + head.length) };
}
