import type { WindowState } from '../../errors/gateway-error.ts';
import { dayOf, endOfDayMs, minuteMs } from './calendar.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { DailyLimitUnit } from './funds.ts';
import type { KeyFacts } from './key-facts.ts';
import { Rings, type RollingMinute } from './rings.ts';

/** Free requests of an account, over all its keys and all free models: hard caps of the specification. */
export const freeMinuteMax = 20;
export const freeDayMax = 200;

// A rolling minute opens at most this long after it is asked about, also when the clock has stepped back.
const minuteWaitMaxMs = minuteMs + 1000;

const times = (table: string, owner: string, at: string): string =>
  `SELECT ${at} AS at FROM ${table} WHERE ${owner} AND ${at} > @after`;

/** Counts requests: the rolling minutes in memory, the days in the file. */
export class Windows {
  readonly #unit: DailyLimitUnit;
  readonly #keyMinutes: Rings;
  readonly #freeMinutes: Rings;
  readonly #keyDay: Query<[number, number], { requests: bigint }>;
  readonly #freeDay: Query<[number, number], { requests: bigint }>;
  readonly #countKeyDay: Query<[{ key: number; day: number; now: number; held: bigint }], unknown>;
  readonly #countFreeDay: Query<[number, number], unknown>;

  constructor(sql: Sql, unit: DailyLimitUnit) {
    this.#unit = unit;
    this.#keyMinutes = new Rings(timesOf(sql, 'key_id = @owner'));
    this.#freeMinutes = new Rings(timesOf(sql, 'account_id = @owner AND free = 1'));
    this.#keyDay = sql.prepare('SELECT requests FROM key_day WHERE key_id = ? AND day = ?');
    this.#freeDay = sql.prepare('SELECT requests FROM free_day WHERE account_id = ? AND day = ?');
    this.#countKeyDay = sql.prepare(
      `INSERT INTO key_day (key_id, day, requests, held, last_used_at_ms) VALUES (@key, @day, 1, @held, @now)
       ON CONFLICT DO UPDATE SET requests = requests + 1, held = held + excluded.held,
         last_used_at_ms = max(last_used_at_ms, excluded.last_used_at_ms)`,
    );
    this.#countFreeDay = sql.prepare(
      `INSERT INTO free_day (account_id, day, requests) VALUES (?, ?, 1)
       ON CONFLICT DO UPDATE SET requests = requests + 1`,
    );
  }

  /** The windows that a request of this key counts in, in the order in which they refuse. */
  list(key: KeyFacts, free: boolean, nowMs: number): WindowState[] {
    const windows: WindowState[] = [];
    if (key.minuteLimit > 0) {
      windows.push(minuteWindow('minute_limit', this.#keyMinutes.at(key.id, nowMs), key.minuteLimit, nowMs));
    }
    const day = dayOf(nowMs);
    const resetAtMs = endOfDayMs(nowMs);
    if (free) {
      windows.push(minuteWindow('free_minute', this.#freeMinutes.at(key.accountId, nowMs), freeMinuteMax, nowMs));
      const used = Number(this.#freeDay.get(key.accountId, day)?.requests ?? 0n);
      windows.push({ limit: 'free_day', max: freeDayMax, remaining: Math.max(0, freeDayMax - used), resetAtMs });
    }
    if (this.#unit === 'requests' && key.dailyLimit > 0) {
      const used = Number(this.#keyDay.get(key.id, day)?.requests ?? 0n);
      const remaining = Math.max(0, key.dailyLimit - used);
      windows.push({ limit: 'daily_limit', max: key.dailyLimit, remaining, resetAtMs });
    }
    return windows;
  }

  /** Counts an admission of this key with what it holds. Its hold must be stored already. */
  count(key: KeyFacts, free: boolean, held: bigint, nowMs: number): void {
    const day = dayOf(nowMs);
    this.#countKeyDay.run({ key: key.id, day, now: nowMs, held });
    if (key.minuteLimit > 0) this.#keyMinutes.add(key.id, nowMs);
    if (!free) return;
    this.#countFreeDay.run(key.accountId, day);
    this.#freeMinutes.add(key.accountId, nowMs);
  }

  /** A key's minute limit may have been switched off or on: its ring is read anew. */
  forget(keyId: number): void {
    this.#keyMinutes.forget(keyId);
  }

  /** Forgets what is in memory, because a batch was undone. */
  clear(): void {
    this.#keyMinutes.clear();
    this.#freeMinutes.clear();
  }
}

/** Tightest first; of two as tight, the one that refuses first. */
export function tightestFirst(windows: readonly WindowState[]): WindowState[] {
  return windows.length < 2 ? [...windows] : [...windows].sort((a, b) => a.remaining - b.remaining);
}

function minuteWindow(
  limit: 'minute_limit' | 'free_minute',
  minute: RollingMinute,
  max: number,
  nowMs: number,
): WindowState {
  const resetAtMs = Math.min(minute.opensAtMs(max), nowMs + minuteWaitMaxMs);
  return { limit, max, remaining: Math.max(0, max - minute.count), resetAtMs };
}

/** Admissions are where their request is: held, settled or given back. */
function timesOf(sql: Sql, owner: string): (owner: number, after: number) => number[] {
  const query = sql.prepare<[{ owner: number; after: number }], { at: bigint }>(
    [
      times('hold', owner, 'admitted_at_ms'),
      times('usage', owner, 'created_at_ms'),
      times('voided', owner, 'admitted_at_ms'),
    ].join(' UNION ALL '),
  );
  return (id, after) => query.all({ owner: id, after }).map(row => Number(row.at));
}
