import type { AnalyticsQuery, AnalyticsRow } from '../ledger.ts';
import { dayMs, hourMs } from './calendar.ts';
import type { Connection, Query } from './database.ts';

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

/** A range of whole periods: from `from` on and before `to`, both counted from 1970; in ms where it is cut out of an hour. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/** Which tables say what of a span of time. Ranges may be empty. */
interface Cut {
  readonly days: Range;
  /** Hours beside the whole days, before and after them. */
  readonly hours: readonly [Range, Range];
  /** The parts of the first and the last hour, in ms. */
  readonly rest: readonly [Range, Range];
}

/** Later than any record: ten thousand years after 1970. */
const endOfTimeMs = 10_000 * 366 * dayMs;

const sums = `sum(requests) AS requests, sum(failed) AS failed, sum(cost) AS cost, sum(input) AS input, sum(cache_read) AS cache_read,
  sum(cache_write) AS cache_write, sum(output) AS output, sum(latency_ms) AS latency_ms`;
const rollupColumns = `key_id, model_id, requests, failed, cost, input, cache_read, cache_write_5m + cache_write_1h AS cache_write, output,
  latency_ms`;
const groupColumns = { none: 'NULL', model: 'model_id', api_key: 'key_id' } as const;

/** Sums records from the sums of days and hours; only what is cut out of an hour is read record by record, so that every span is exact. */
export class Analytics {
  readonly #db: Connection;
  readonly #queries = new Map<string, Query<number[], SumRecord>>();

  constructor(db: Connection) {
    this.#db = db;
  }

  read(asked: AnalyticsQuery): AnalyticsRow[] | 'too_many' {
    const { accountId, startMs, endMs = endOfTimeMs, limit } = asked;
    const { days, hours, rest } = cut(startMs, Math.max(startMs, endMs), asked.granularity);
    const ranges = [days, ...hours, ...rest].flatMap(({ from, to }) => [accountId, from, to]);
    const rows = this.#query(asked).all(...ranges, limit + 1);
    return rows.length > limit ? 'too_many' : rows.map(analyticsRow);
  }

  #query({ granularity, groupBy }: AnalyticsQuery): Query<number[], SumRecord> {
    const name = `${granularity} ${groupBy}`;
    const known = this.#queries.get(name);
    if (known !== undefined) return known;
    const periodMs = granularity === 'day' ? dayMs : hourMs;
    const hour = `SELECT hour * ${hourMs} / ${periodMs} * ${periodMs} AS period, ${rollupColumns} FROM usage_hour
      WHERE account_id = ? AND hour >= ? AND hour < ?`;
    const record = `SELECT created_at_ms / ${periodMs} * ${periodMs} AS period, key_id, model_id, 1 AS requests,
      state = 'upstream_failed' AS failed, cost, input, cache_read, cache_write_5m + cache_write_1h AS cache_write, output, latency_ms
      FROM usage WHERE account_id = ? AND created_at_ms >= ? AND created_at_ms < ?`;
    const day = `SELECT day * ${dayMs} AS period, ${rollupColumns} FROM usage_day WHERE account_id = ? AND day >= ? AND day < ?`;
    const all = [day, hour, hour, record, record].join(' UNION ALL ');
    // The model's name is looked up for each sum, not for each row that goes into it.
    const grouped = groupBy === 'model' ? '(SELECT name FROM model WHERE id = by_column)' : 'by_column';
    const query = this.#db.prepare<number[], SumRecord>(
      `SELECT period, ${grouped} AS grouped, ${sums} FROM (SELECT *, ${groupColumns[groupBy]} AS by_column FROM (${all}))
         GROUP BY period, by_column ORDER BY period, grouped LIMIT ?`,
    );
    this.#queries.set(name, query);
    return query;
  }
}

const empty: Range = { from: 0, to: 0 };

/** Cuts a span into whole days (only where days are asked for), whole hours, and what is left of the first and the last hour. */
function cut(startMs: number, endMs: number, granularity: AnalyticsQuery['granularity']): Cut {
  const [firstHour, lastHour] = [Math.ceil(startMs / hourMs), Math.floor(endMs / hourMs)];
  // Within one hour.
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
