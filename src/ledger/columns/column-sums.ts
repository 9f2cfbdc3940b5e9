import { dayMs, hourMs } from '../rules/calendar.ts';
import { type AmountName, amountNames, type ColumnFile, type DimensionName, type Numbers } from './column-file.ts';
import { ColumnBuffers, type ColumnFilters, RowChoice, type Rows } from './row-choice.ts';

/** Which records of column files are summed, and how. */
export interface ColumnQuery {
  readonly startMs: number;
  readonly endMs: number;
  readonly granularity: 'hour' | 'day';
  readonly filters: ColumnFilters;
  /** `read` returns the value by which records are grouped; null for records that have none. */
  readonly group: {
    readonly dimension: DimensionName;
    readonly read: (value: number, lists: readonly string[]) => number | string | null;
  } | null;
}

/** The sums of one value of the grouping in a period. */
export interface ColumnSums {
  readonly periodMs: number;
  readonly group: number | string | null;
  readonly amounts: Record<AmountName, bigint>;
}

type SumsByGroup = Map<number | string | null, ColumnSums>;

/** Sums the records of column files. Within a file it adds doubles, which are exact there; over several files it adds bigints. */
export class ColumnSummer {
  readonly #query: ColumnQuery;
  readonly #sums = new Map<number, SumsByGroup>();
  #size = 0;
  readonly #buffers = new ColumnBuffers();
  readonly #choice: RowChoice;

  constructor(query: ColumnQuery) {
    this.#query = query;
    this.#choice = new RowChoice(query.filters, this.#buffers);
  }

  get sums(): ColumnSums[] {
    return [...this.#sums.values()].flatMap(groups => [...groups.values()]);
  }

  /** The number of sums so far. */
  get size(): number {
    return this.#size;
  }

  /** Adds those records of a file that are in the query's span of time. */
  add(file: ColumnFile): void {
    this.#addRows(this.#isCombined(file.header) ? (file.combined ?? file) : file);
  }

  /** Returns whether the combined rows of a file are enough for the query. */
  #isCombined({ from, to }: ColumnFile['header']): boolean {
    const { startMs, endMs, granularity, filters, group } = this.#query;
    const isWhole = startMs <= from * hourMs && endMs >= to * hourMs;
    return (
      isWhole &&
      granularity === 'day' &&
      group?.dimension !== 'end_user' &&
      filters.every(({ dimension }) => dimension !== 'end_user')
    );
  }

  #addRows(file: ColumnFile): void {
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

  /** Returns the group of each row, as an index of the list of groups. */
  #readGroups(file: ColumnFile, rows: Rows): Groups {
    const { group } = this.#query;
    if (group === null) return { names: [null], places: Int32Array.of(0), codes: 0 };
    const { values, groupLists } = file.header;
    const names: (number | string | null)[] = [];
    const known = new Map<number | string | null, number>();
    const places = Int32Array.from(values[group.dimension], value => {
      const name = group.read(value, groupLists);
      const place = known.get(name) ?? names.length;
      if (place === names.length) names.push(name);
      known.set(name, place);
      return place;
    });
    return { names, places, codes: this.#buffers.read(file, group.dimension, rows) };
  }

  /** Yields the periods of rows, with the row after the last one of each, counted from the first row. */
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
    const counts = new Float64Array(names.length);
    const totals = columns.map(() => new Float64Array(names.length));
    const chosen = this.#choice.rows;
    const place = new Uint32Array(to - from);
    for (let at = from; at < to; at++) {
      const group = places[typeof codes === 'number' ? 0 : (codes[chosen[at] ?? 0] ?? 0)] ?? 0;
      place[at - from] = group;
      counts[group] = (counts[group] ?? 0) + 1;
    }
    for (const [index, [, numbers]] of columns.entries()) {
      const total = totals[index] ?? counts;
      if (typeof numbers === 'number') for (const [of, requests] of counts.entries()) total[of] = requests * numbers;
      else addNumbers(numbers, { rows: chosen.subarray(from, to), place }, total);
    }
    const sums = this.#sums.get(periodMs) ?? new Map<number | string | null, ColumnSums>();
    this.#sums.set(periodMs, sums);
    for (const [index, group] of names.entries()) {
      if (counts[index] === 0) continue;
      const known = sums.get(group);
      const amounts = {} as Record<AmountName, bigint>;
      for (const [column, [name]] of columns.entries()) {
        const own = BigInt(totals[column]?.[index] ?? 0);
        amounts[name] = known === undefined ? own : known.amounts[name] + own;
      }
      if (known === undefined) this.#size += 1;
      sums.set(group, { periodMs, group, amounts });
    }
  }
}

interface Groups {
  readonly names: readonly (number | string | null)[];
  readonly places: Int32Array;
  readonly codes: Numbers | number;
}

interface PeriodRows {
  readonly periodMs: number;
  /** The part of the chosen rows. */
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
    const group = place[at] ?? 0;
    total[group] = (total[group] ?? 0) + (numbers[rows[at] ?? 0] ?? 0);
  }
}
