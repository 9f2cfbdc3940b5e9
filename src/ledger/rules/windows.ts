import type { WindowState } from '../../errors/gateway-error.ts';
import type { Key, Rows } from '../rows.ts';
import { dayOf, endOfDayMs } from './calendar.ts';
import type { Context } from './context.ts';
import { type Admissions, countAdmissions, opensAtMs, withAdmission } from './minutes.ts';

/** Free requests of an account, over all its keys and all free models: hard caps of the specification. */
export const freeMinuteMax = 20;
export const freeDayMax = 200;

/** Returns the windows that a request of this key counts in, in the order in which they refuse. */
export function listWindows({ rows, dailyLimitUnit }: Context, key: Key, free: boolean, nowMs: number): WindowState[] {
  const windows: WindowState[] = [];
  if (key.minuteLimit > 0) {
    const admissions = rows.keyMinutes.get(key.id)?.admissions;
    windows.push(minuteWindow('minute_limit', key.minuteLimit, admissions, nowMs));
  }
  const day = dayOf(nowMs);
  if (free) {
    const admissions = rows.freeMinutes.get(key.accountId)?.admissions;
    windows.push(minuteWindow('free_minute', freeMinuteMax, admissions, nowMs));
    windows.push(dayWindow('free_day', freeDayMax, rows.freeDays.get(key.accountId, day)?.requests, nowMs));
  }
  if (dailyLimitUnit === 'requests' && key.dailyLimit > 0) {
    windows.push(dayWindow('daily_limit', key.dailyLimit, rows.keyDays.get(key.id, day)?.requests, nowMs));
  }
  return windows;
}

/** Returns them tightest first; of two as tight, the one that refuses first. */
export function tightestFirst(windows: readonly WindowState[]): WindowState[] {
  return windows.length < 2 ? [...windows] : [...windows].sort((a, b) => a.remaining - b.remaining);
}

/** A window without room for a request. */
export interface FullWindow extends WindowState {
  /** As how many requests it counts the request. */
  readonly count: number;
  /** When it has room, as far as is known now; undefined: never, because it is smaller. */
  readonly roomAtMs: number | undefined;
}

/** Returns the first window without room for a request for that many answers, which windows of free models count one by one. */
export function findFullWindow(
  { rows }: Context,
  key: Key,
  windows: readonly WindowState[],
  { answers, nowMs }: { readonly answers: number; readonly nowMs: number },
): FullWindow | undefined {
  for (const window of windows) {
    const { limit, max, remaining, resetAtMs } = window;
    const count = limit === 'free_minute' || limit === 'free_day' ? answers : 1;
    if (remaining >= count) continue;
    if (count > max) return { ...window, count, roomAtMs: undefined };
    if (limit !== 'free_minute' || count === 1) return { ...window, count, roomAtMs: resetAtMs };
    const { admissions } = rows.freeMinutes.get(key.accountId) ?? {};
    return { ...window, count, roomAtMs: opensAtMs(admissions, max - count + 1, nowMs) };
  }
  return undefined;
}

/** Counts an admission of this key; `free`: as how many requests of free models. */
export function countRequest(rows: Rows, key: Key, free: number, nowMs: number): void {
  const day = dayOf(nowMs);
  const { id: keyId, accountId } = key;
  const before = rows.keyDays.get(keyId, day);
  rows.keyDays.put({
    keyId,
    day,
    requests: (before?.requests ?? 0) + 1,
    spent: before?.spent ?? 0n,
    spentOwn: before?.spentOwn ?? 0n,
    held: before?.held ?? 0n,
    lastUsedAtMs: Math.max(before?.lastUsedAtMs ?? 0, nowMs),
  });
  const minute = withAdmission(rows.keyMinutes.get(keyId)?.admissions, nowMs);
  rows.keyMinutes.put({ id: keyId, admissions: minute });
  if (free === 0) return;
  rows.freeDays.put({ accountId, day, requests: (rows.freeDays.get(accountId, day)?.requests ?? 0) + free });
  let freeMinute = rows.freeMinutes.get(accountId)?.admissions;
  for (let counted = 0; counted < free; counted++) freeMinute = withAdmission(freeMinute, nowMs);
  if (freeMinute !== undefined) rows.freeMinutes.put({ id: accountId, admissions: freeMinute });
}

function minuteWindow(
  limit: WindowState['limit'],
  max: number,
  admissions: Admissions | undefined,
  nowMs: number,
): WindowState {
  const remaining = Math.max(0, max - countAdmissions(admissions, nowMs));
  return { limit, max, remaining, resetAtMs: opensAtMs(admissions, max, nowMs) };
}

function dayWindow(limit: WindowState['limit'], max: number, used: number | undefined, nowMs: number): WindowState {
  return { limit, max, remaining: Math.max(0, max - (used ?? 0)), resetAtMs: endOfDayMs(nowMs) };
}
