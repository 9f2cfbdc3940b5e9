import '../../lib/temporal.ts';

/** Windows of limits and periods of plans. Both are computed from a time whenever they are needed, so nothing has to be reset when they end. */

export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const dayMs = 86_400_000;

/** Returns the UTC hour of a time, counted from 1970. */
export function toHour(atMs: number): number {
  return Math.floor(atMs / hourMs);
}

/** Returns the UTC day of a time, counted from 1970. */
export function toDay(atMs: number): number {
  return Math.floor(atMs / dayMs);
}

/** The window of a limit that contains a time. `number` identifies it among the windows of the same kind and time zone. */
export interface Window {
  readonly number: number;
  readonly startMs: number;
  /** Infinity: it never ends. */
  readonly endMs: number;
}

/** Windows of the calendar. */
export type CalendarWindow = 'hour' | 'day' | 'week' | 'month';

const always: Window = { number: 0, startMs: Number.NEGATIVE_INFINITY, endMs: Number.POSITIVE_INFINITY };
/** The last window of each kind and time zone: the next request is nearly always in the same one. */
const lastWindows = new Map<string, Window>();
const lastWindowsMax = 1000;

/**
 * Returns the window of a time in a time zone (an IANA name); weeks begin on Monday. Kinds that are not in the
 * calendar have a single window.
 */
export function windowAt(per: CalendarWindow | 'minute' | 'total' | null, timeZone: string, atMs: number): Window {
  if (per === null || per === 'minute' || per === 'total') return always;
  const name = `${per} ${timeZone}`;
  const last = lastWindows.get(name);
  if (last !== undefined && atMs >= last.startMs && atMs < last.endMs) return last;
  const window = findWindow(per, timeZone, atMs);
  if (lastWindows.size >= lastWindowsMax) lastWindows.clear();
  lastWindows.set(name, window);
  return window;
}

const typicalMs = { hour: hourMs, day: dayMs, week: 7 * dayMs, month: 30 * dayMs } as const;

/** Returns the window with that number. */
export function windowByNumber(per: CalendarWindow, timeZone: string, number: number): Window {
  let window = windowAt(per, timeZone, (per === 'month' ? number - 1970 * 12 : number) * typicalMs[per]);
  while (window.number !== number) {
    window = windowAt(per, timeZone, window.startMs + (number - window.number) * typicalMs[per] + typicalMs[per] / 2);
  }
  return window;
}

function findWindow(per: CalendarWindow, timeZone: string, atMs: number): Window {
  const local = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timeZone);
  if (per === 'hour') {
    // When clocks repeat a local hour, its two hours are two windows. So whole hours of the offset are ignored.
    const offsetMs = Math.round(local.offsetNanoseconds / 1_000_000) % hourMs;
    const number = toHour(atMs + offsetMs);
    return { number, startMs: number * hourMs - offsetMs, endMs: (number + 1) * hourMs - offsetMs };
  }
  const today = local.toPlainDate();
  const first = firstDay(per, today);
  const next = first.add({ [`${per}s`]: 1 });
  const toStartMs = (date: Temporal.PlainDate): number => date.toZonedDateTime(timeZone).epochMilliseconds;
  return { number: windowNumber(per, first), startMs: toStartMs(first), endMs: toStartMs(next) };
}

function firstDay(per: Exclude<CalendarWindow, 'hour'>, today: Temporal.PlainDate): Temporal.PlainDate {
  if (per === 'day') return today;
  return today.subtract({ days: (per === 'week' ? today.dayOfWeek : today.day) - 1 });
}

/** Months are counted from year 0, days and weeks from 1970. */
function windowNumber(per: Exclude<CalendarWindow, 'hour'>, first: Temporal.PlainDate): number {
  if (per === 'month') return first.year * 12 + first.month - 1;
  const day = Date.UTC(first.year, first.month - 1, first.day) / dayMs;
  // 1970 began on a Thursday.
  return per === 'day' ? day : (day + 3) / 7;
}

/** A period of a plan. `number`: how many periods have passed since the first start. */
export interface PlanPeriodSpan {
  readonly number: number;
  readonly startMs: number;
  readonly endMs: number;
}

const biweekMs = 14 * dayMs;

/**
 * Returns the period of a plan that contains `atMs`, which must not be before the first start. A biweekly period has 14 days. A monthly one
 * ends at the day and time of the first start in the next month, or on the month's last day if it lacks that day. See docs/accounting.md
 * "Subscriptions".
 */
export function findPlanPeriod(startedAtMs: number, period: 'biweekly' | 'monthly', atMs: number): PlanPeriodSpan {
  const from = period === 'biweekly' ? (n: number) => startedAtMs + n * biweekMs : monthsAfter(startedAtMs);
  // This start value is never too high, because no period is longer.
  let number = Math.floor((atMs - startedAtMs) / (period === 'biweekly' ? biweekMs : 31 * dayMs));
  while (from(number + 1) <= atMs) number++;
  return { number, startMs: from(number), endMs: from(number + 1) };
}

/** Returns a function from a number of months to the time that is so many months after the start. */
function monthsAfter(startedAtMs: number): (months: number) => number {
  const start = new Date(startedAtMs);
  const [year, month, day] = [start.getUTCFullYear(), start.getUTCMonth(), start.getUTCDate()];
  const timeOfDay = startedAtMs - toDay(startedAtMs) * dayMs;
  return months => {
    const lastDay = new Date(Date.UTC(year, month + months + 1, 0)).getUTCDate();
    return Date.UTC(year, month + months, Math.min(day, lastDay)) + timeOfDay;
  };
}
