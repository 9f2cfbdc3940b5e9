import { createHash } from 'node:crypto';
import type { Connection, Query } from '../../lib/sqlite/database.ts';
import { dayMs, hourMs } from '../rules/calendar.ts';
import { codes, encode } from '../sqlite/codes.ts';

/** Whole UTC hours since 1970, from `from` up to but not including `to`. */
export interface Hours {
  readonly from: number;
  readonly to: number;
}

/** What is summed of the records of some hours, in the order of `totalNames`. */
export type Totals = readonly bigint[];

/** The columns of `usage_sum` that sums of records must agree with. */
const totalNames = [
  'requests',
  'failed',
  'input',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'output',
  'cost',
  'latency_ms',
  'provider_cost',
  'margin',
] as const;
const names = ['number', ...totalNames] as const;
type Row = { [Name in (typeof names)[number]]: bigint };
type Values = { account: number; first: number; last: number };

const hoursOfDay = dayMs / hourMs;
const none: Totals = totalNames.map(() => 0n);

/** Reads the totals of an account's records from the sums that each settle raises. They belong to one snapshot of the ledger if they are read in one. */
export class TotalsReader {
  readonly #periods: Readonly<Record<'hour' | 'day', Query<[Values], Row>>>;

  constructor(db: Connection) {
    const sums = totalNames.map(name => `sum(${name}) AS ${name}`).join(', ');
    const prepare = (period: 'hour' | 'day'): Query<[Values], Row> =>
      db.prepare<[Values], Row>(
        `SELECT number, ${sums} FROM usage_sum WHERE account_id = @account AND period = ${encode(codes.period, period)}
           AND grouped = ${encode(codes.grouped, 'kind')} AND number >= @first AND number < @last GROUP BY number`,
      );
    this.#periods = { hour: prepare('hour'), day: prepare('day') };
  }

  /** Returns the totals by the UTC hour or day since 1970; absent periods have no records. */
  read(account: number, period: 'hour' | 'day', { from, to }: Hours): Map<number, Totals> {
    const unit = period === 'day' ? hoursOfDay : 1;
    const rows = this.#periods[period].all({ account, first: Math.ceil(from / unit), last: Math.floor(to / unit) });
    return new Map(rows.map(row => [Number(row.number), totalNames.map(name => row[name])]));
  }

  /** Returns the totals of each of these ranges of hours. */
  readAll(account: number, ranges: readonly Hours[]): Totals[] {
    const whole = ranges.map(toWholeDays);
    const days = this.read(account, 'day', span(whole.filter(isSome)));
    return ranges.map((range, index) => {
      const inside = whole[index];
      const parts = inside === undefined || !isSome(inside) ? [range] : cutOut(range, inside);
      const totals = parts.flatMap(part => [...this.read(account, 'hour', part).values()]);
      if (inside !== undefined && isSome(inside))
        for (let day = inside.from / hoursOfDay; day < inside.to / hoursOfDay; day++)
          totals.push(days.get(day) ?? none);
      return totals.reduce(add, none);
    });
  }
}

/** Changes with the form of the files: those of another form are made again. */
const form = 'combined';

/** Returns a text that differs if any of the totals does. */
export function toFingerprint(totals: Totals): string {
  return createHash('sha256')
    .update([form, ...totals].join())
    .digest('hex')
    .slice(0, 16);
}

/** Returns how many requests the totals are of. */
export function countRequests(totals: Totals | undefined): number {
  return Number(totals?.[0] ?? 0n);
}

function add(one: Totals, other: Totals): Totals {
  return one.map((value, index) => value + (other[index] ?? 0n));
}

/** Returns the whole days in a range, in hours. */
function toWholeDays({ from, to }: Hours): Hours {
  return { from: Math.ceil(from / hoursOfDay) * hoursOfDay, to: Math.floor(to / hoursOfDay) * hoursOfDay };
}

function isSome({ from, to }: Hours): boolean {
  return from < to;
}

/** Returns what is left of a range without a part of it. */
function cutOut({ from, to }: Hours, part: Hours): Hours[] {
  return [
    { from, to: part.from },
    { from: part.to, to },
  ].filter(isSome);
}

function span(ranges: readonly Hours[]): Hours {
  return {
    from: Math.min(...ranges.map(({ from }) => from), Number.MAX_SAFE_INTEGER),
    to: Math.max(...ranges.map(({ to }) => to), 0),
  };
}
