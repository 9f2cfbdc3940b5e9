import type { Connection, Query } from '../../lib/sqlite/database.ts';
import { dayMs, hourMs } from '../rules/calendar.ts';
import { codes } from '../sqlite/codes.ts';
import {
  absent,
  type AmountName,
  amountNames,
  type ColumnContent,
  type DimensionName,
  writeColumns,
} from './column-file.ts';
import type { ColumnStore } from './column-store.ts';
import { combineRecords } from './combine.ts';
import { countRequests, type Hours, toFingerprint, type Totals, TotalsReader } from './totals.ts';

/** How many records a column file has. */
export interface BuildSizes {
  /** Whole days are joined into one file until they have this many records. */
  readonly recordsOfDaysMin: number;
  /** The hours after the last whole day get a file once they have this many records. Fewer records are read from the ledger itself. */
  readonly recordsOfHoursMin: number;
  /** A day with more records than this has several files. */
  readonly recordsOfDayMax: number;
  /** A file also has combined rows if each combines at least this many records on average. */
  readonly recordsCombinedMin: number;
}

export const buildSizes: BuildSizes = {
  recordsOfDaysMin: 20_000,
  recordsOfHoursMin: 2_000,
  recordsOfDayMax: 500_000,
  recordsCombinedMin: 4,
};

/** Nearly all requests end within this time after the hour of their admission. If one ends later, its file is made again. */
const graceMs = 600_000;
/** Files of the last 72 hours are compared with the ledger in each run, older ones only when a process starts. */
const checkedHours = 72;
const hoursOfDay = dayMs / hourMs;
/** The most hours of a file: times in ms since its first hour must fit into 4 bytes. */
const hoursMax = 30 * hoursOfDay;
/** The largest sum of a file's numbers: doubles are exact up to here. */
const exactMax = 2n ** 53n;

const dimensionColumns: Readonly<Record<Exclude<DimensionName, 'groups'>, string>> = {
  key: 'key_id',
  model: 'model_id',
  provider: 'provider_id',
  endpoint: 'endpoint_id',
  end_user: 'end_user_id',
  tags: 'tags_id',
  // As `toPocket` numbers it.
  pocket: 'iif(payer = 1, key_id, iif(payer_group IS NULL, 0, -1 - payer_group))',
};
const amountColumns: Readonly<Record<AmountName, string>> = {
  requests: '1',
  failed: `state = ${codes.state.indexOf('upstream_failed')}`,
  cost: 'cost',
  provider_cost: 'coalesce(provider_cost, 0)',
  charged: 'iif(provider_cost IS NULL, 0, cost)',
  input: 'input',
  cache_read: 'cache_read',
  cache_write: 'cache_write_5m + cache_write_1h',
  output: 'output',
  latency_ms: 'latency_ms',
};
const selected = [
  'created_at_ms',
  ...Object.values(dimensionColumns).map(column => `coalesce(${column}, ${absent})`),
  ...amountNames.map(name => amountColumns[name]),
  'groups',
];
type Values = { account: number; first: number; last: number };

/** Makes missing column files, and removes those that differ from the ledger. */
export class ColumnBuilder {
  readonly #db: Connection;
  readonly #store: ColumnStore;
  readonly #sizes: BuildSizes;
  readonly #totals: TotalsReader;
  readonly #accounts: Query<[], { id: bigint }>;
  readonly #start: Query<[], { value: bigint }>;
  readonly #records: Query<[Values], (number | string | null)[]> & {
    iterate(values: Values): IterableIterator<(number | string | null)[]>;
  };

  constructor(db: Connection, store: ColumnStore, sizes: BuildSizes = buildSizes) {
    this.#db = db;
    this.#store = store;
    this.#sizes = sizes;
    this.#totals = new TotalsReader(db);
    this.#accounts = db.prepare('SELECT id FROM account ORDER BY id');
    this.#start = db.prepare("SELECT value FROM meta WHERE name = 'activity_start'");
    this.#records = db
      .prepare<[Values], (number | string | null)[]>(
        `SELECT ${selected.join(', ')} FROM usage WHERE account_id = @account AND created_at_ms >= @first AND created_at_ms < @last ORDER BY created_at_ms`,
      )
      .safeIntegers(false)
      .raw();
  }

  /** Makes and removes files as needed. `checksAll`: compares old files with the ledger, too. Returns how many files were made. */
  run(nowMs: number, checksAll: boolean): number {
    const accounts = new Set(this.#accounts.all().map(({ id }) => Number(id)));
    for (const id of this.#store.listAccounts()) accounts.add(id);
    let made = 0;
    for (const accountId of accounts) made += this.#buildAccount(accountId, nowMs, checksAll);
    return made;
  }

  #buildAccount(accountId: number, nowMs: number, checksAll: boolean): number {
    const endHour = Math.floor((nowMs - graceMs) / hourMs);
    const startHour = Math.ceil(Number(this.#start.get()?.value ?? 0n) / hourMs);
    if (checksAll) this.#store.removeDrafts(accountId);
    this.#removeOld(accountId, startHour, checksAll ? 0 : endHour - checkedHours);
    const endDay = { from: startHour, to: Math.floor(endHour / hoursOfDay) * hoursOfDay };
    let made = 0;
    for (const days of this.#findDays(accountId, endDay)) {
      if (!this.#build(accountId, days)) continue;
      made += 1;
      // Removes the files of single hours that these days had while they were the last ones.
      for (const stored of this.#store.list(accountId))
        if (!isOfDays(stored) && stored.from < days.to && stored.to > days.from) this.#store.remove(accountId, stored);
    }
    for (const hours of this.#findHours(accountId, { from: startHour, to: endHour }))
      if (this.#build(accountId, hours)) made += 1;
    return made;
  }

  /** Removes files with records that the ledger may have removed, and files from the hour `checkedFrom` on that differ from the ledger. */
  #removeOld(accountId: number, startHour: number, checkedFrom: number): void {
    const stored = this.#store.list(accountId);
    const checked = stored.filter(({ to }) => to > checkedFrom);
    const totals = this.#totals.readAll(accountId, checked);
    const isWrong = new Set(checked.filter((each, index) => toFingerprint(totals[index] ?? []) !== each.fingerprint));
    for (const each of stored) if (each.from < startHour || isWrong.has(each)) this.#store.remove(accountId, each);
  }

  /** Returns the ranges of whole days that need a file. */
  #findDays(accountId: number, within: Hours): Hours[] {
    return cutOut(within, this.#store.list(accountId).filter(isOfDays)).flatMap(gap => {
      const days = this.#totals.read(accountId, 'day', gap);
      return this.#join(days, hoursOfDay, day => this.#isFull(days.get(day)));
    });
  }

  /** Returns the ranges of hours that need a file: parts of days that have too many records for one file, and the most recent hours. */
  #findHours(accountId: number, within: Hours): Hours[] {
    const stored = this.#store.list(accountId);
    const end = Math.max(within.from, ...stored.map(({ to }) => to));
    const full = [...this.#totals.read(accountId, 'day', within)].filter(([, totals]) => this.#isFull(totals));
    const parts = full.flatMap(([day]) =>
      cutOut({ from: day * hoursOfDay, to: Math.min(end, (day + 1) * hoursOfDay) }, stored),
    );
    return [...parts, { from: end, to: within.to }].flatMap(part =>
      this.#join(this.#totals.read(accountId, 'hour', part), 1),
    );
  }

  #isFull(day: Totals | undefined): boolean {
    return countRequests(day) > this.#sizes.recordsOfDayMax;
  }

  /** Joins periods of `step` hours, in order, until they have enough records for a file. The last ones may be too few and need no file yet. Excluded periods are in no range. */
  #join(
    totals: ReadonlyMap<number, Totals>,
    step: number,
    isExcluded: (period: number) => boolean = () => false,
  ): Hours[] {
    const { recordsOfHoursMin, recordsOfDaysMin } = this.#sizes;
    const recordsMin = step === 1 ? recordsOfHoursMin : recordsOfDaysMin;
    const ranges: Hours[] = [];
    let from: number | undefined;
    let requests = 0;
    for (const [period, each] of [...totals].sort(([one], [other]) => one - other)) {
      const [first, last] = [period * step, (period + 1) * step];
      if (isExcluded(period) || (from !== undefined && last - from > hoursMax)) [from, requests] = [undefined, 0];
      if (isExcluded(period)) continue;
      from ??= first;
      requests += countRequests(each);
      if (requests < recordsMin) continue;
      ranges.push({ from, to: last });
      [from, requests] = [undefined, 0];
    }
    return ranges;
  }

  /** Makes a file. Returns false if the records do not add up to the ledger's totals of their hours. */
  #build(accountId: number, hours: Hours): boolean {
    this.#db.exec('BEGIN');
    try {
      const [totals = []] = this.#totals.readAll(accountId, [hours]);
      if (totals.some(total => total >= exactMax)) return false;
      const content = this.#readContent(accountId, hours, countRequests(totals));
      if (content === undefined || !isSum(content, totals)) return false;
      writeColumns(
        this.#store.path(accountId, hours, totals),
        content,
        combineRecords(content, this.#sizes.recordsCombinedMin),
      );
      return true;
    } finally {
      this.#db.exec('COMMIT');
    }
  }

  /** Reads the records of some hours; undefined if their number is not `rows`. */
  #readContent(account: number, hours: Hours, rows: number): ColumnContent | undefined {
    const columns = selected.slice(0, -1).map(() => new Float64Array(rows));
    const groups = new Float64Array(rows).fill(absent);
    const groupLists = new Map<string, number>();
    const startMs = hours.from * hourMs;
    let row = 0;
    for (const values of this.#records.iterate({ account, first: startMs, last: hours.to * hourMs })) {
      for (let index = 0; index < columns.length; index++) {
        const column = columns[index];
        if (column !== undefined) column[row] = Number(values[index]);
      }
      const list = values[columns.length];
      if (typeof list === 'string') {
        const place = groupLists.get(list) ?? groupLists.size;
        groupLists.set(list, place);
        groups[row] = place;
      }
      row += 1;
    }
    if (row !== rows) return undefined;
    const [times = new Float64Array(0), ...rest] = columns;
    const named = Object.keys(dimensionColumns) as (keyof typeof dimensionColumns)[];
    const own = Object.fromEntries(named.map((name, index) => [name, rest[index]]));
    const amounts = Object.fromEntries(amountNames.map((name, index) => [name, rest[named.length + index]]));
    return {
      ...hours,
      offsetsMs: times.map(time => time - startMs),
      dimensions: { ...own, groups } as Record<DimensionName, Float64Array>,
      groupLists: [...groupLists.keys()],
      amounts: amounts as Record<AmountName, Float64Array>,
    };
  }
}

/** Returns whether the records add up to the ledger's totals. */
function isSum({ amounts }: ColumnContent, totals: Totals): boolean {
  const sum = (name: AmountName): bigint => BigInt(amounts[name].reduce((total, number) => total + number, 0));
  const [
    ,
    failed,
    input,
    cacheRead,
    cacheWrite5m = 0n,
    cacheWrite1h = 0n,
    output,
    cost,
    latencyMs,
    providerCost,
    margin,
  ] = totals;
  const providerSum = sum('provider_cost');
  return (
    sum('failed') === failed &&
    sum('input') === input &&
    sum('cache_read') === cacheRead &&
    sum('cache_write') === cacheWrite5m + cacheWrite1h &&
    sum('output') === output &&
    sum('cost') === cost &&
    sum('latency_ms') === latencyMs &&
    providerSum === providerCost &&
    sum('charged') - providerSum === margin
  );
}

function isOfDays({ from, to }: Hours): boolean {
  return from % hoursOfDay === 0 && to % hoursOfDay === 0;
}

/** Returns the parts of a range that are outside of `others`, which are in ascending order. */
function cutOut(range: Hours, others: readonly Hours[]): Hours[] {
  const left: Hours[] = [];
  let { from } = range;
  for (const other of others) {
    if (other.from > from) left.push({ from, to: Math.min(other.from, range.to) });
    from = Math.max(from, other.to);
  }
  return [...left, { from, to: range.to }].filter(({ from: first, to }) => first < to);
}
