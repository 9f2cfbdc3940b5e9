import { createHash } from 'node:crypto';
import type { Connection, Query } from '../../lib/sqlite/database.ts';
import { dayMs, hourMs } from '../rules/calendar.ts';
import { codes, encode } from '../sqlite/codes.ts';

/** Whole UTC hours since 1970, from `from` up to but not including `to`. */
export interface Hours {
  readonly from: number;
  readonly to: number;
}

/** The totals over the records of some hours, in the order of `totalNames`. */
export type Totals = readonly bigint[];

/** The columns of `usage_sum` that the sums over records must equal. */
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

/** Reads the totals of an account's records from the sums that each settle updates. */
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

  /** Returns the totals by UTC hour or day, counted from 1970; a period that is absent has no records. */
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

/** Names the format of the files. A file in another format gets another fingerprint, so it is made again. */
const form = 'combined';

/** Returns a text that differs if any total or the format differs. */
export function toFingerprint(totals: Totals): string {
  return createHash('sha256')
    .update([form, ...totals].join())
    .digest('hex')
    .slice(0, 16);
}

/** Returns the number of requests in the totals. */
export function countRequests(totals: Totals | undefined): number {
  return Number(totals?.[0] ?? 0n);
}

function add(one: Totals, other: Totals): Totals {
  return one.map((value, index) => value + (other[index] ?? 0n));
}

/** Returns the whole days of a range, as a range of hours. */
function toWholeDays({ from, to }: Hours): Hours {
  return { from: Math.ceil(from / hoursOfDay) * hoursOfDay, to: Math.floor(to / hoursOfDay) * hoursOfDay };
}

function isSome({ from, to }: Hours): boolean {
  return from < to;
}

/** Returns the parts of a range before and after `part`. */
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
