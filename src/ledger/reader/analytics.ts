import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { AnalyticsQuery, AnalyticsRow } from '../ledger.ts';
import { dayMs, hourMs } from '../rules/calendar.ts';
import { codes } from '../sqlite/codes.ts';
import { type Stored, toRow } from './to-row.ts';

type SumRecord = { -readonly [Column in keyof AnalyticsRow]: Stored<AnalyticsRow>[Column] };

/** Whole periods counted from 1970, from `from` up to but not including `to`; in ms for parts of an hour. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/** Which source covers which part of a span of time. Ranges may be empty. */
interface Cut {
  readonly days: Range;
  /** Hours before and after the whole days. */
  readonly hours: readonly [Range, Range];
  /** The parts of the first and the last hour, in ms. */
  readonly rest: readonly [Range, Range];
}

/** Later than any record: ten thousand years after 1970. */
const endOfTimeMs = 10_000 * 366 * dayMs;

const sumNames = [
  'requests',
  'failed',
  'costNanoUsd',
  'input',
  'cacheRead',
  'cacheWrite',
  'output',
  'latencyMs',
] as const satisfies (keyof AnalyticsRow)[];
const sums = `sum(requests) AS requests, sum(failed) AS failed, sum(cost) AS costNanoUsd, sum(input) AS input, sum(cache_read) AS cacheRead,
  sum(cache_write_5m + cache_write_1h) AS cacheWrite, sum(output) AS output, sum(latency_ms) AS latencyMs`;
const recordSums = sums
  .replace('sum(requests)', 'count(*)')
  .replace('sum(failed)', `sum(state = ${codes.state.indexOf('upstream_failed')})`);

/**
 * Sums usage records by period and group from the stored sums of days and hours. Only parts of an hour are read record by record, so every span is
 * exact. The sums are stored in the order in which they are read, so no more rows are read than are returned.
 */
export class Analytics {
  readonly #db: Connection;
  readonly #queries = new Map<string, Query<number[], SumRecord>>();

  constructor(db: Connection) {
    this.#db = db;
  }

  read(query: AnalyticsQuery): AnalyticsRow[] | 'too_many' {
    const { accountId, startMs, endMs = endOfTimeMs, limit } = query;
    const { days, hours, rest } = cut(startMs, Math.max(startMs, endMs), query.granularity);
    const found = new Map<string, SumRecord>();
    const read = (from: Source, { from: first, to }: Range): void => {
      if (first >= to) return;
      for (const row of this.#query(from, query).all(accountId, first, to, limit + 1)) add(found, row);
    };
    read('day', days);
    for (const range of hours) read('hour', range);
    for (const range of rest) read('record', range);
    return found.size > limit ? 'too_many' : [...found.values()].sort(inOrder).map(analyticsRow);
  }

  /** Returns the statement that sums a range of one source. */
  #query(source: Source, { granularity, groupBy }: AnalyticsQuery): Query<number[], SumRecord> {
    const name = `${source} ${granularity} ${groupBy}`;
    const known = this.#queries.get(name);
    if (known !== undefined) return known;
    const kept = groupBy === 'api_key' ? 'key' : 'model';
    const [unitMs, at, from] =
      source === 'record'
        ? [1, 'created_at_ms', 'usage WHERE account_id = ?']
        : [
            sourceMs[source],
            'number',
            `usage_sum WHERE account_id = ? AND period = ${codes.period.indexOf(source)} AND grouped = ${codes.grouped.indexOf(kept)}`,
          ];
    const perPeriod = (granularity === 'day' ? dayMs : hourMs) / unitMs;
    // If a stored sum is a whole period, its number is already the order of the result.
    const period = perPeriod === 1 ? at : `${at} / ${perPeriod}`;
    const id = source === 'record' ? `${kept}_id` : 'group_id';
    const group = groupBy === 'none' ? 'NULL' : id;
    // Look up the model's name once for each sum, not for each row that goes into it.
    const grouped = groupBy === 'model' ? '(SELECT name FROM model WHERE id = by_column)' : 'by_column';
    const query = this.#db.prepare<number[], SumRecord>(
      `SELECT at * ${perPeriod * unitMs} AS periodMs, ${grouped} AS "group", ${sumNames.join(', ')} FROM (
         SELECT ${period} AS at, ${group} AS by_column, ${source === 'record' ? recordSums : sums} FROM ${from} AND ${at} >= ? AND ${at} < ?
         GROUP BY ${period}${groupBy === 'none' ? '' : `, ${id}`} LIMIT ?)`,
    );
    this.#queries.set(name, query);
    return query;
  }
}

/** What is summed: `usage_sum` by its period, or the records themselves. */
type Source = 'day' | 'hour' | 'record';
const sourceMs = { day: dayMs, hour: hourMs } as const;

/** Adds a row to the sums: a period at the edge of the span comes from several sources. */
function add(found: Map<string, SumRecord>, row: SumRecord): void {
  const name = `${row.periodMs} ${row.group ?? ''}`;
  const known = found.get(name);
  if (known === undefined) found.set(name, row);
  else for (const sum of sumNames) known[sum] += row[sum];
}

/** Compares by period, then by group. */
function inOrder(one: SumRecord, other: SumRecord): number {
  if (one.periodMs !== other.periodMs) return one.periodMs < other.periodMs ? -1 : 1;
  if (one.group === other.group || one.group === null || other.group === null) return 0;
  return one.group < other.group ? -1 : 1;
}

const empty: Range = { from: 0, to: 0 };

/** Cuts a span into whole days (only if sums by the day are requested), whole hours, and the parts of the first and the last hour. */
function cut(startMs: number, endMs: number, granularity: AnalyticsQuery['granularity']): Cut {
  const [firstHour, lastHour] = [Math.ceil(startMs / hourMs), Math.floor(endMs / hourMs)];
  // The span lies within one hour.
  if (firstHour > lastHour) return { days: empty, hours: [empty, empty], rest: [{ from: startMs, to: endMs }, empty] };
  const rest: Cut['rest'] = [
    { from: startMs, to: firstHour * hourMs },
    { from: lastHour * hourMs, to: endMs },
  ];
  const hoursOfDay = dayMs / hourMs;
  const days = { from: Math.ceil(firstHour / hoursOfDay), to: Math.floor(lastHour / hoursOfDay) };
  if (granularity === 'hour' || days.from >= days.to)
    return { days: empty, hours: [{ from: firstHour, to: lastHour }, empty], rest };
  const before = { from: firstHour, to: days.from * hoursOfDay };
  const after = { from: days.to * hoursOfDay, to: lastHour };
  return { days, hours: [before, after], rest };
}

function analyticsRow(record: SumRecord): AnalyticsRow {
  return toRow<AnalyticsRow>(record, ['costNanoUsd']);
}
