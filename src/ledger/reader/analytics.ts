import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { AnalyticsGroup, AnalyticsQuery, AnalyticsRefusal, AnalyticsRow, LargestGroups } from '../ledger.ts';
import type { SumChange } from '../rows.ts';
import type { ColumnStore } from '../columns/column-store.ts';
import type { ColumnSums } from '../columns/column-sums.ts';
import { dayMs, hourMs } from '../rules/calendar.ts';
import { codes, encode } from '../sqlite/codes.ts';
import { ColumnRecords } from './column-records.ts';
import { FilterHours } from './filter-hours.ts';
import { chooseFilter, type FilterValues, othersTexts, type SumFilter, toFilterValues } from './sum-filter.ts';
import { type Stored, toRow } from './to-row.ts';

type SumRecord = { -readonly [Column in keyof AnalyticsRow]: Stored<AnalyticsRow>[Column] };

/** A range of whole periods, counted from 1970, or of ms for parts of an hour: from `from` up to but not including `to`. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/** How a span of time is divided between the sums by day, the sums by hour, and single records. Ranges may be empty. */
interface Cut {
  readonly days: Range;
  /** The hours before and after the whole days. */
  readonly hours: readonly [Range, Range];
  /** The parts of the first and the last hour, in ms. */
  readonly rest: readonly [Range, Range];
}

/** A time after every record: ten thousand years after 1970. */
const endOfTimeMs = 10_000 * 366 * dayMs;

const sumNames = [
  'requests',
  'failed',
  'costNanoUsd',
  'providerCostNanoUsd',
  'marginNanoUsd',
  'input',
  'cacheRead',
  'cacheWrite',
  'output',
  'latencyMs',
] as const satisfies (keyof AnalyticsRow)[];
const sums = `sum(requests) AS requests, sum(failed) AS failed, sum(cost) AS costNanoUsd,
  sum(provider_cost) AS providerCostNanoUsd, sum(margin) AS marginNanoUsd, sum(input) AS input, sum(cache_read) AS cacheRead,
  sum(cache_write_5m + cache_write_1h) AS cacheWrite, sum(output) AS output, sum(latency_ms) AS latencyMs`;
const recordSums = sums
  .replace('sum(requests)', 'count(*)')
  .replace('sum(provider_cost)', 'coalesce(sum(provider_cost), 0)')
  .replace('sum(margin)', 'coalesce(sum(cost - provider_cost), 0)')
  .replace('sum(failed)', `sum(iif(state = ${codes.state.indexOf('upstream_failed')}, 1, 0))`);

type Values = FilterValues & {
  readonly account: number;
  readonly first: number;
  readonly last: number;
  readonly limit: number;
  readonly tag: string;
  readonly path: string;
};
type SumQuery = Query<[Values], SumRecord>;

/** A grouping of sums and records, in SQL. */
interface Grouping {
  /** The stored sums that have this grouping. */
  readonly storedGrouping: SumChange['grouped'];
  readonly ofSum: string;
  readonly ofRecord: string;
  /** The SQL expression for the name of a value of `by_column`, for sums and for records. */
  readonly name: string;
  readonly recordName?: string;
  /** Set if records can lack a value; such records form the group null. */
  readonly isPartial?: true;
}

const ofKind = (column: string): string => `(SELECT ${column} FROM call_kind WHERE id = group_id)`;
const named = (table: string): string => `(SELECT name FROM ${table} WHERE id = by_column)`;
const dividers: Readonly<Record<Exclude<AnalyticsGroup, object> | 'tag', Grouping>> = {
  none: { storedGrouping: 'kind', ofSum: 'NULL', ofRecord: 'NULL', name: 'by_column' },
  model: { storedGrouping: 'kind', ofSum: ofKind('model_id'), ofRecord: 'model_id', name: named('model') },
  provider: { storedGrouping: 'kind', ofSum: ofKind('provider_id'), ofRecord: 'provider_id', name: named('provider') },
  endpoint: { storedGrouping: 'kind', ofSum: ofKind('endpoint_id'), ofRecord: 'endpoint_id', name: named('endpoint') },
  api_key: { storedGrouping: 'key', ofSum: 'group_id', ofRecord: 'key_id', name: 'by_column' },
  // The first group in the list is the nearest one.
  group: {
    storedGrouping: 'group',
    ofSum: 'group_id',
    ofRecord: "CAST(substr(groups, 2, instr(substr(groups, 2), ',') - 1) AS INTEGER)",
    name: 'by_column',
    isPartial: true,
  },
  end_user: {
    storedGrouping: 'end_user',
    ofSum: 'group_id',
    ofRecord: 'end_user_id',
    name: named('end_user'),
    isPartial: true,
  },
  tag: {
    storedGrouping: 'tag',
    ofSum: 'group_id',
    ofRecord: '(SELECT json_extract(tags, @path) FROM tag_set WHERE id = tags_id)',
    name: '(SELECT value FROM tag WHERE id = by_column)',
    recordName: 'by_column',
    isPartial: true,
  },
};

/**
 * Sums records by period and grouping, from the stored sums of days and hours. Only for parts of an hour are records read one by one, so the result
 * is exact for every span. Sums are stored in the order in which they are read, so hardly more rows are read than are returned.
 */
export class Analytics {
  readonly #db: Connection;
  readonly #queries = new Map<string, SumQuery>();
  readonly #others = new Map<string, Query<[Values], { number: bigint }>>();
  readonly #hours: FilterHours;

  readonly #columns: ColumnRecords | undefined;

  /** `columns`: the folder of column files; undefined: records are only in the ledger. */
  constructor(db: Connection, columns?: ColumnStore) {
    this.#db = db;
    this.#hours = new FilterHours(db);
    this.#columns = columns === undefined ? undefined : new ColumnRecords(db, columns);
  }

  read(query: AnalyticsQuery): AnalyticsRow[] | AnalyticsRefusal {
    const { limit, groupBy, recordsMax, largest } = query;
    if (recordsMax !== undefined && this.#countRead(query) > recordsMax) return 'too_many_records';
    if (largest !== undefined) return this.#readLargest(query, largest);
    const found = this.#sum(query);
    // Stored sums do not include records without a value of the grouping.
    const lacksRest =
      dividers[chooseDivider(groupBy)].isPartial === true && this.#choose(query).filter.ofSum !== undefined;
    const rows = lacksRest ? withRest(found, this.#sum({ ...query, groupBy: 'none' })) : [...found.values()];
    return rows.length > limit ? 'too_many' : rows.sort(inOrder).map(analyticsRow);
  }

  /** Returns the sums of the largest groups, and those of all others together. */
  #readLargest(query: AnalyticsQuery, largest: LargestGroups): AnalyticsRow[] | AnalyticsRefusal {
    const found = this.#sum({ ...query, limit: summedMax });
    if (found.size > summedMax) return 'too_many';
    const isPartial = dividers[chooseDivider(query.groupBy)].isPartial === true;
    const lacksRest = isPartial && this.#choose(query).filter.ofSum !== undefined;
    const all = lacksRest ? withRest(found, this.#sum({ ...query, groupBy: 'none' })) : [...found.values()];
    const { own, rest } = splitLargest(all, largest);
    if (own.length + rest.length > query.limit) return 'too_many';
    return [
      ...own.sort(inOrder).map(analyticsRow),
      ...rest.map(row => ({ ...analyticsRow({ ...row, group: null }), isRest: true as const })),
    ].sort((one, other) => one.periodMs - other.periodMs);
  }

  /** Returns the approximate number of records that would be read one by one, according to the sums for those filters that an index can serve; 0 if stored sums answer the query. */
  #countRead(query: AnalyticsQuery): number {
    if (this.#choose(query).filter.ofSum !== undefined) return 0;
    const { accountId, startMs, endMs = endOfTimeMs } = query;
    const span = { from: startMs, to: Math.max(startMs, endMs) };
    const left = this.#columns?.findLeft(accountId, span) ?? [span];
    return left.reduce((sum, { from, to }) => sum + this.#countPart({ ...query, startMs: from, endMs: to }), 0);
  }

  #countPart({ accountId, startMs, endMs, keyId, model, endUser }: AnalyticsQuery): number {
    const whole = { accountId, startMs, endMs, granularity: 'day', groupBy: 'none', limit: periodsMax } as const;
    const narrowed: AnalyticsQuery[] = [
      whole,
      ...(keyId === undefined ? [] : [{ ...whole, keyId }]),
      ...(model === undefined ? [] : [{ ...whole, model }]),
      ...(endUser === undefined ? [] : [{ ...whole, endUser }]),
    ];
    const summed = narrowed.filter(each => this.#choose(each).filter.ofSum !== undefined);
    const counts = summed.map(each => [...this.#sum(each).values()].reduce((sum, { requests }) => sum + requests, 0n));
    return Math.min(...counts.map(Number));
  }

  /** Returns the parameters of a query's statements, and the conditions that select its requests. */
  #choose(query: AnalyticsQuery): { values: Omit<Values, 'first' | 'last'>; filter: SumFilter } {
    const { accountId: account, startMs, endMs = endOfTimeMs, limit, groupBy } = query;
    const tag = typeof groupBy === 'object' ? groupBy.tag : '';
    const values = { ...toFilterValues(query), account, limit: limit + 1, tag, path: `$."${tag}"` };
    const [first, last] = [Math.floor(startMs / dayMs), Math.floor(Math.max(startMs, endMs) / dayMs)];
    const filter = chooseFilter(query, dividers[chooseDivider(groupBy)].storedGrouping, grouped =>
      this.#hasOthers(grouped, { ...values, first, last }),
    );
    return { values, filter };
  }

  #sum(query: AnalyticsQuery): Map<string, SumRecord> {
    const { startMs, endMs = endOfTimeMs } = query;
    const to = Math.max(startMs, endMs);
    const { values, filter } = this.#choose(query);
    const found = new Map<string, SumRecord>();
    const { days, hours, rest } =
      filter.ofSum === undefined
        ? { days: empty, hours: [], rest: this.#sumColumns(query, { from: startMs, to }, found) }
        : cut(startMs, to, query.granularity);
    const read = (from: Source, { from: first, to: last }: Range): void => {
      if (first >= last) return;
      for (const row of this.#query(from, query, filter).all({ ...values, first, last })) add(found, row);
    };
    read('day', days);
    for (const range of hours) read('hour', range);
    for (const range of rest) read('record', range);
    return found;
  }

  /** Adds the sums that column files give for a span, and returns the parts of the span whose records must be read. */
  #sumColumns(query: AnalyticsQuery, span: Range, found: Map<string, SumRecord>): Range[] {
    const { sums, uncovered } = this.#columns?.sum(query, span) ?? { sums: [], uncovered: [span] };
    for (const each of sums) add(found, toSumRecord(each));
    return uncovered.flatMap(part => this.#findRanges(query, part));
  }

  /** Returns the parts of a span, in ms, that can have records that match a query. */
  #findRanges(query: AnalyticsQuery, span: Range): Range[] {
    const { from: startMs, to: endMs } = span;
    const hours = this.#hours.find({ ...query, startMs, endMs });
    if (hours === undefined) return [span];
    const ranges: Range[] = [];
    for (const hour of hours) {
      const range = { from: Math.max(startMs, hour * hourMs), to: Math.min(endMs, (hour + 1) * hourMs) };
      const later = ranges.at(-1);
      if (later?.from === range.to) ranges[ranges.length - 1] = { from: range.from, to: later.to };
      else ranges.push(range);
    }
    // Each range needs a separate statement. If there are too many ranges, they are read as one.
    return ranges.length > rangesMax ? [{ from: ranges.at(-1)?.from ?? startMs, to: ranges[0]?.to ?? endMs }] : ranges;
  }

  /** Returns true if on one of the days several end users, or values of a tag, share the sum `(other)`. */
  #hasOthers(grouped: 'end_user' | 'tag', values: Values): boolean {
    let query = this.#others.get(grouped);
    if (query === undefined) {
      query = this.#db.prepare<[Values], { number: bigint }>(
        `SELECT number FROM usage_sum WHERE account_id = @account AND period = ${encode(codes.period, 'day')} AND grouped = ${encode(codes.grouped, grouped)}
           AND number >= @first AND number <= @last AND group_id IN (${othersTexts[grouped]}) LIMIT 1`,
      );
      this.#others.set(grouped, query);
    }
    return query.get(values) !== undefined;
  }

  /** Returns the statement that reads a range from one source. */
  #query(source: Source, { granularity, groupBy }: AnalyticsQuery, filter: SumFilter): SumQuery {
    const divider = chooseDivider(groupBy);
    const name = [source, granularity, divider, filter.ofSum?.grouped ?? '', ...filter.ofRecord].join(' ');
    const known = this.#queries.get(name);
    if (known !== undefined) return known;
    const query = this.#db.prepare<[Values], SumRecord>(queryText(source, { granularity, divider, filter }));
    this.#queries.set(name, query);
    return query;
  }
}

/** The most sums that are in memory at once while the largest groups are found. */
const summedMax = 250_000;
/** The number of rows to read if there is no limit: more than any span has days. */
const periodsMax = 1_000_000;
/** If a span has more parts than this, they are read as one. */
const rangesMax = 50;

function chooseDivider(groupBy: AnalyticsGroup): keyof typeof dividers {
  return typeof groupBy === 'object' ? 'tag' : groupBy;
}

interface QueryParts {
  readonly granularity: AnalyticsQuery['granularity'];
  readonly divider: keyof typeof dividers;
  readonly filter: SumFilter;
}

function queryText(source: Source, { granularity, divider, filter }: QueryParts): string {
  const { storedGrouping: kept, ofSum, ofRecord, name, recordName = name } = dividers[divider];
  const isRecord = source === 'record';
  const [unitMs, at] = isRecord ? [1, 'created_at_ms'] : [sourceMs[source], 'number'];
  const perPeriod = (granularity === 'day' ? dayMs : hourMs) / unitMs;
  // If each period has exactly one stored sum, its number is the sort key of the result.
  const period = perPeriod === 1 ? at : `${at} / ${perPeriod}`;
  const by = isRecord ? ofRecord : ofSum;
  const conditions = [
    'account_id = @account',
    ...(isRecord
      ? []
      : [
          `period = ${encode(codes.period, source)}`,
          `grouped = ${encode(codes.grouped, filter.ofSum?.grouped ?? kept)}`,
        ]),
    ...(isRecord ? filter.ofRecord : (filter.ofSum?.conditions ?? [])),
    ...(divider === 'tag' && !isRecord ? ['group_id IN (SELECT id FROM tag WHERE name = @tag)'] : []),
    ...(dividers[divider].isPartial === true && isRecord && filter.ofSum !== undefined ? [`${by} IS NOT NULL`] : []),
    `${at} >= @first AND ${at} < @last`,
  ];
  return `SELECT at * ${perPeriod * unitMs} AS periodMs, ${isRecord ? recordName : name} AS "group", ${sumNames.join(', ')} FROM (
      SELECT ${period} AS at, ${by} AS by_column, ${isRecord ? recordSums : sums} FROM ${isRecord ? 'usage' : 'usage_sum'}
      WHERE ${conditions.join(' AND ')} GROUP BY 1, 2 LIMIT @limit)`;
}

/** Returns the sums of all groups, and, as group null, what is left of each period's total. */
function withRest(found: ReadonlyMap<string, SumRecord>, all: ReadonlyMap<string, SumRecord>): SumRecord[] {
  const rest = new Map([...all.values()].map(row => [row.periodMs, { ...row }]));
  for (const row of found.values()) {
    const left = rest.get(row.periodMs);
    if (left !== undefined) for (const sum of sumNames) left[sum] -= row[sum];
  }
  return [...found.values(), ...[...rest.values()].filter(({ requests }) => requests > 0n)];
}

/** Where sums come from: the rows of `usage_sum` by day or hour, or the records themselves. */
type Source = 'day' | 'hour' | 'record';
const sourceMs = { day: dayMs, hour: hourMs } as const;

/** Adds a row to the sums. A period at the edge of the span can have rows from several sources. */
function add(found: Map<string, SumRecord>, row: SumRecord): void {
  const name = `${row.periodMs} ${row.group ?? ''}`;
  const known = found.get(name);
  if (known === undefined) found.set(name, row);
  else for (const sum of sumNames) known[sum] += row[sum];
}

function toSumRecord({ periodMs, group, amounts }: ColumnSums): SumRecord {
  return {
    periodMs: BigInt(periodMs),
    group: typeof group === 'number' ? BigInt(group) : group,
    requests: amounts.requests,
    failed: amounts.failed,
    costNanoUsd: amounts.cost,
    providerCostNanoUsd: amounts.provider_cost,
    marginNanoUsd: amounts.charged - amounts.provider_cost,
    input: amounts.input,
    cacheRead: amounts.cache_read,
    cacheWrite: amounts.cache_write,
    output: amounts.output,
    latencyMs: amounts.latency_ms,
  };
}

const measures: Readonly<Record<LargestGroups['of'], (row: SumRecord) => bigint>> = {
  cost: row => row.costNanoUsd,
  requests: row => row.requests,
  failed: row => row.failed,
  tokens: row => row.input + row.cacheRead + row.cacheWrite + row.output,
};

/** Returns the rows of the groups that have the most, and the sums of the others by period. Of two with equal sums, the first by name counts as larger. */
function splitLargest(rows: readonly SumRecord[], { groups, of }: LargestGroups) {
  const measure = measures[of];
  const sizes = new Map<SumRecord['group'], bigint>();
  for (const row of rows) sizes.set(row.group, (sizes.get(row.group) ?? 0n) + measure(row));
  const largest = [...sizes].sort(([one, size], [other, otherSize]) =>
    size === otherSize ? ((one ?? '') < (other ?? '') ? -1 : 1) : size > otherSize ? -1 : 1,
  );
  const kept = new Set(largest.slice(0, groups).map(([group]) => group));
  const own: SumRecord[] = [];
  const rest = new Map<bigint, SumRecord>();
  for (const row of rows) {
    const sum = rest.get(row.periodMs);
    if (kept.has(row.group)) own.push(row);
    else if (sum === undefined) rest.set(row.periodMs, { ...row });
    else for (const name of sumNames) sum[name] += row[name];
  }
  return { own, rest: [...rest.values()] };
}

/** Compares rows by period, then by group; group null is last. */
function inOrder(one: SumRecord, other: SumRecord): number {
  if (one.periodMs !== other.periodMs) return one.periodMs < other.periodMs ? -1 : 1;
  if (one.group === other.group) return 0;
  if (one.group === null || other.group === null) return one.group === null ? 1 : -1;
  return one.group < other.group ? -1 : 1;
}

const empty: Range = { from: 0, to: 0 };

/** Divides a span into whole days (only if sums by day are requested), whole hours, and the parts of the first and the last hour. */
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
  return toRow<AnalyticsRow>(record, ['costNanoUsd', 'providerCostNanoUsd', 'marginNanoUsd']);
}
