import type { AnalyticsQuery, AnalyticsRow } from '../ledger.ts';
import { dayMs, hourMs } from '../rules/calendar.ts';
import type { Connection, Query } from '../../lib/sqlite/database.ts';

interface SumRecord {
  period: bigint;
  grouped: string | bigint | null;
  requests: bigint;
  failed: bigint;
  cost: bigint;
  input: bigint;
  cache_read: bigint;
  cache_write: bigint;
  output: bigint;
  latency_ms: bigint;
}

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

const sumNames = ['requests', 'failed', 'cost', 'input', 'cache_read', 'cache_write', 'output', 'latency_ms'] as const;
const sums = `sum(requests) AS requests, sum(failed) AS failed, sum(cost) AS cost, sum(input) AS input, sum(cache_read) AS cache_read,
  sum(cache_write_5m + cache_write_1h) AS cache_write, sum(output) AS output, sum(latency_ms) AS latency_ms`;
const recordSums = sums.replace('sum(requests)', 'count(*)').replace('sum(failed)', "sum(state = 'upstream_failed')");

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
            `usage_sum WHERE account_id = ? AND period = '${source}' AND grouped = '${kept}'`,
          ];
    const perPeriod = (granularity === 'day' ? dayMs : hourMs) / unitMs;
    // If a stored sum is a whole period, its number is already the order of the result.
    const period = perPeriod === 1 ? at : `${at} / ${perPeriod}`;
    const id = source === 'record' ? `${kept}_id` : 'group_id';
    const group = groupBy === 'none' ? 'NULL' : id;
    // Look up the model's name once for each sum, not for each row that goes into it.
    const grouped = groupBy === 'model' ? '(SELECT name FROM model WHERE id = by_column)' : 'by_column';
    const query = this.#db.prepare<number[], SumRecord>(
      `SELECT at * ${perPeriod * unitMs} AS period, ${grouped} AS grouped, ${sumNames.join(', ')} FROM (
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
  const name = `${row.period} ${row.grouped ?? ''}`;
  const known = found.get(name);
  if (known === undefined) found.set(name, row);
  else for (const sum of sumNames) known[sum] += row[sum];
}

/** Compares by period, then by group. */
function inOrder(one: SumRecord, other: SumRecord): number {
  if (one.period !== other.period) return one.period < other.period ? -1 : 1;
  if (one.grouped === other.grouped || one.grouped === null || other.grouped === null) return 0;
  return one.grouped < other.grouped ? -1 : 1;
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
  const { period, grouped } = record;
  return {
    periodMs: Number(period),
    group: typeof grouped === 'bigint' ? Number(grouped) : grouped,
    requests: Number(record.requests),
    failed: Number(record.failed),
    costNanoUsd: record.cost,
    input: Number(record.input),
    cacheRead: Number(record.cache_read),
    cacheWrite: Number(record.cache_write),
    output: Number(record.output),
    latencyMs: Number(record.latency_ms),
  };
}
