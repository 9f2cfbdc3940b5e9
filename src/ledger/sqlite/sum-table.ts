import { dayOf } from '../rules/calendar.ts';
import type { SumChange } from '../rows.ts';
import type { Query } from '../../lib/sqlite/database.ts';
import { codes, encode } from './codes.ts';
import type { Labels } from './labels.ts';
import type { Sql } from './sql.ts';

const counts = `requests, failed, input, cache_read, cache_write_5m, cache_write_1h, output, reasoning, images, cost, written_off, latency_ms`;
const numberMax = 2 ** 21;
const groupedMax = 8;
/** Above it, further end users and tags of an account on a day are summed together, under `other`. */
const valuesMax = 10_000;
const other = '(other)';
const countsKnownMax = 1000;

/** What a batch adds to one sum. */
interface Raise {
  readonly sum: SumChange;
  readonly counts: number[];
  cost: bigint;
  writtenOff: bigint;
}

/** The sums of records: a batch raises each of them once. */
export class SumTable {
  readonly #labels: Labels;
  readonly #changes: SumChange[] = [];
  readonly #raise: Query<(number | bigint)[], unknown>;
  readonly #has: Query<number[], unknown>;
  readonly #count: Query<number[], { count: bigint }>;
  /** How many end users, and how many tags, accounts have on days. */
  readonly #counts = new Map<string, number>();

  constructor(sql: Sql, labels: Labels) {
    this.#labels = labels;
    const of = 'FROM usage_sum WHERE account_id = ? AND period = ? AND grouped = ? AND number = ?';
    this.#has = sql.prepare(`SELECT 1 ${of} AND group_id = ?`);
    this.#count = sql.prepare(`SELECT count(*) AS count ${of}`);
    const raised = counts.split(', ').map(count => `${count} = ${count} + excluded.${count}`);
    this.#raise = sql.prepare(
      `INSERT INTO usage_sum (account_id, period, grouped, number, group_id, ${counts})
       VALUES (${Array.from({ length: 17 }, () => '?').join(', ')}) ON CONFLICT DO UPDATE SET ${raised.join(', ')}`,
    );
  }

  add(change: SumChange): void {
    this.#changes.push(this.#bounded(change));
  }

  /** Writes what the batch has added. */
  write(): void {
    for (const { sum, counts: values, cost, writtenOff } of this.#raises()) {
      const [requests = 0, failed = 0, input = 0, cacheRead = 0, cacheWrite5m = 0, cacheWrite1h = 0, ...rest] = values;
      const [output = 0, reasoning = 0, images = 0, latencyMs = 0] = rest;
      const place = [encode(codes.period, sum.period), encode(codes.grouped, sum.grouped), sum.number, sum.groupId];
      const tokens = [input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images];
      this.#raise.run(sum.accountId, ...place, requests, failed, ...tokens, cost, writtenOff, latencyMs);
    }
  }

  /** The batch is stored. */
  settle(): void {
    this.#changes.length = 0;
  }

  /** Forgets what the batch has added. */
  clear(): void {
    this.#changes.length = 0;
    this.#counts.clear();
  }

  /** The change, or one of the sum of all others where the account has too many of its kind on that day. */
  #bounded(change: SumChange): SumChange {
    const { accountId, grouped, groupId, usage } = change;
    if (grouped !== 'end_user' && grouped !== 'tag') return change;
    const day = [accountId, encode(codes.period, 'day'), encode(codes.grouped, grouped), dayOf(usage.admittedAtMs)];
    const isKnown =
      this.#changes.some(known => known.grouped === grouped && known.groupId === groupId && isSameDay(known, change)) ||
      this.#has.get(...day, groupId) !== undefined;
    if (isKnown) return change;
    const name = day.join();
    const count = this.#counts.get(name) ?? Number(this.#count.get(...day)?.count ?? 0n);
    if (count >= valuesMax) return { ...change, groupId: this.#labels.other(grouped, groupId, other) };
    if (this.#counts.size >= countsKnownMax) this.#counts.clear();
    this.#counts.set(name, count + 1);
    return change;
  }

  #raises(): Raise[] {
    const raises: Raise[] = [];
    const known = new Map<number, Map<number, Raise>>();
    for (const sum of this.#changes) {
      const kind = encode(codes.period, sum.period) * groupedMax + encode(codes.grouped, sum.grouped);
      const place = (sum.accountId * 2 * groupedMax + kind) * numberMax + sum.number;
      const groups = known.get(place) ?? new Map<number, Raise>();
      if (groups.size === 0) known.set(place, groups);
      let raise = groups.get(sum.groupId);
      if (raise === undefined) {
        raise = { sum, counts: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], cost: 0n, writtenOff: 0n };
        groups.set(sum.groupId, raise);
        raises.push(raise);
      }
      addTo(raise, sum);
    }
    return raises;
  }
}

function isSameDay(one: SumChange, two: SumChange): boolean {
  return one.accountId === two.accountId && dayOf(one.usage.admittedAtMs) === dayOf(two.usage.admittedAtMs);
}

function addTo(raise: Raise, { usage }: SumChange): void {
  const { input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images, latencyMs } = usage;
  const failed = usage.state === 'upstream_failed' ? 1 : 0;
  const added = [1, failed, input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images, latencyMs];
  for (let index = 0; index < added.length; index++)
    raise.counts[index] = (raise.counts[index] ?? 0) + (added[index] ?? 0);
  raise.cost += usage.cost;
  raise.writtenOff += usage.writtenOff;
}
