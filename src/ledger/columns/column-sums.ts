import { dayMs, hourMs } from '../rules/calendar.ts';
import { type AmountName, amountNames, type ColumnFile, type DimensionName, type Numbers } from './column-file.ts';
import { ColumnBuffers, type ColumnFilters, RowChoice, type Rows } from './row-choice.ts';

/** Which records of column files are summed, and how. */
export interface ColumnQuery {
  readonly startMs: number;
  readonly endMs: number;
  readonly granularity: 'hour' | 'day';
  readonly filters: ColumnFilters;
  /** Returns what records are grouped by; undefined: they are not summed. */
  readonly group: {
    readonly dimension: DimensionName;
    readonly read: (value: number, lists: readonly string[]) => number | string | undefined;
  } | null;
}

/** The sums of a group in a period. */
export interface ColumnSums {
  readonly periodMs: number;
  readonly group: number | string | null;
  requests: bigint;
  readonly amounts: Record<AmountName, bigint>;
}

/** Sums the records of column files. Numbers are added as doubles within a file, where they are exact, and as bigints beyond. */
export class ColumnSummer {
  readonly #query: ColumnQuery;
  readonly #sums = new Map<string, ColumnSums>();
  readonly #buffers = new ColumnBuffers();
  readonly #choice: RowChoice;

  constructor(query: ColumnQuery) {
    this.#query = query;
    this.#choice = new RowChoice(query.filters, this.#buffers);
  }

  get sums(): Iterable<ColumnSums> {
    return this.#sums.values();
  }

  /** How many sums there are so far. */
  get size(): number {
    return this.#sums.size;
  }

  add(file: ColumnFile): void {
    const { startMs, endMs } = this.#query;
    const rows = { first: file.findRow(startMs), last: file.findRow(endMs) };
    const count = this.#choice.find(file, rows);
    if (count === 0) return;
    const groups = this.#readGroups(file, rows);
    const columns = amountNames.map(name => [name, this.#buffers.read(file, name, rows)] as const);
    const chosen = this.#choice.rows;
    let at = 0;
    for (const { periodMs, last } of this.#findPeriods(file, rows)) {
      const from = at;
      while (at < count && (chosen[at] ?? 0) < last) at++;
      if (at > from) this.#addPeriod({ periodMs, from, to: at, groups, columns });
    }
  }

  /** Returns each row's group, as a place in the list of groups; a place of -1 is in none. */
  #readGroups(file: ColumnFile, rows: Rows): Groups {
    const { group } = this.#query;
    if (group === null) return { names: [null], places: Int32Array.of(0), codes: 0 };
    const { values, groupLists } = file.header;
    const names: (number | string)[] = [];
    const known = new Map<number | string, number>();
    const places = Int32Array.from(values[group.dimension], value => {
      const name = group.read(value, groupLists);
      if (name === undefined) return -1;
      const place = known.get(name) ?? names.length;
      if (place === names.length) names.push(name);
      known.set(name, place);
      return place;
    });
    return { names, places, codes: this.#buffers.read(file, group.dimension, rows) };
  }

  /** Returns the periods of rows, with the row behind each, counted from the first. */
  *#findPeriods(file: ColumnFile, rows: Rows): Generator<{ periodMs: number; last: number }> {
    const { from, to, starts } = file.header;
    const unit = this.#query.granularity === 'day' ? dayMs / hourMs : 1;
    for (let period = Math.floor(from / unit); period * unit < to; period++) {
      const end = starts[(period + 1) * unit - from] ?? rows.last;
      yield { periodMs: period * unit * hourMs, last: Math.min(end, rows.last) - rows.first };
    }
  }

  #addPeriod({ periodMs, from, to, groups, columns }: PeriodRows): void {
    const { names, places, codes } = groups;
    const counts = new Float64Array(names.length + 1);
    const totals = columns.map(() => new Float64Array(names.length + 1));
    const chosen = this.#choice.rows;
    // The place of those in no group is the last.
    const place = new Uint32Array(to - from);
    for (let at = from; at < to; at++) {
      const found = places[typeof codes === 'number' ? 0 : (codes[chosen[at] ?? 0] ?? 0)] ?? -1;
      const of = found === -1 ? names.length : found;
      place[at - from] = of;
      counts[of] = (counts[of] ?? 0) + 1;
    }
    for (const [index, [, numbers]] of columns.entries()) {
      const total = totals[index] ?? counts;
      if (typeof numbers === 'number') for (const [of, requests] of counts.entries()) total[of] = requests * numbers;
      else addNumbers(numbers, { rows: chosen.subarray(from, to), place }, total);
    }
    for (const [index, group] of names.entries()) {
      if (counts[index] === 0) continue;
      const sums = this.#find(periodMs, group);
      sums.requests += BigInt(counts[index] ?? 0);
      for (const [column, [name]] of columns.entries()) sums.amounts[name] += BigInt(totals[column]?.[index] ?? 0);
    }
  }

  #find(periodMs: number, group: number | string | null): ColumnSums {
    const name = `${periodMs} ${group ?? ''}`;
    let sums = this.#sums.get(name);
    if (sums === undefined) {
      const amounts = Object.fromEntries(amountNames.map(amount => [amount, 0n])) as Record<AmountName, bigint>;
      sums = { periodMs, group, requests: 0n, amounts };
      this.#sums.set(name, sums);
    }
    return sums;
  }
}

interface Groups {
  readonly names: readonly (number | string | null)[];
  readonly places: Int32Array;
  readonly codes: Numbers | number;
}

interface PeriodRows {
  readonly periodMs: number;
  /** Which of the chosen rows. */
  readonly from: number;
  readonly to: number;
  readonly groups: Groups;
  readonly columns: readonly (readonly [AmountName, Numbers | number])[];
}

function addNumbers(
  numbers: Numbers,
  { rows, place }: { rows: Uint32Array; place: Uint32Array },
  total: Float64Array,
): void {
  for (let at = 0; at < rows.length; at++) {
    const of = place[at] ?? 0;
    total[of] = (total[of] ?? 0) + (numbers[rows[at] ?? 0] ?? 0);
  }
}
