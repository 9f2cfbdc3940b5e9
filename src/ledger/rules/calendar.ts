/** UTC periods as the ledger numbers them. A period is computed from the time at hand each time, so that nothing has to be reset. */

export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const dayMs = 86_400_000;

/** The UTC hour of a time, counted from 1970. */
export function hourOf(atMs: number): number {
  return Math.floor(atMs / hourMs);
}

/** The UTC day of a time, counted from 1970. */
export function dayOf(atMs: number): number {
  return Math.floor(atMs / dayMs);
}

/** When the UTC day of a time ends. */
export function endOfDayMs(atMs: number): number {
  return (dayOf(atMs) + 1) * dayMs;
}

/** The days of the UTC month of a time: from `first` to `last`, both included. */
export function monthOf(atMs: number): { first: number; last: number; endMs: number } {
  const date = new Date(atMs);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  const endMs = Date.UTC(year, month + 1, 1);
  return { first: dayOf(Date.UTC(year, month, 1)), last: dayOf(endMs) - 1, endMs };
}

/** A period of a plan: `number` of them have passed since the first start. */
export interface PlanTime {
  readonly number: number;
  readonly startMs: number;
  readonly endMs: number;
}

const biweekMs = 14 * dayMs;

/**
 * The period of a plan that a time falls in, counted from its first start, which is not later. Biweekly ones have 14 days; monthly ones end on the
 * start's day of the next months at the start's time, or on the last day of a month that lacks that day. Source: decisions §6.
 */
export function planTimeOf(startedAtMs: number, period: 'biweekly' | 'monthly', atMs: number): PlanTime {
  const from = period === 'biweekly' ? (n: number) => startedAtMs + n * biweekMs : monthsAfter(startedAtMs);
  // Never too high: no period is longer.
  let number = Math.floor((atMs - startedAtMs) / (period === 'biweekly' ? biweekMs : 31 * dayMs));
  while (from(number + 1) <= atMs) number++;
  return { number, startMs: from(number), endMs: from(number + 1) };
}

/** The start's day and time that many months later. */
function monthsAfter(startedAtMs: number): (months: number) => number {
  const start = new Date(startedAtMs);
  const [year, month, day] = [start.getUTCFullYear(), start.getUTCMonth(), start.getUTCDate()];
  const timeOfDay = startedAtMs - dayOf(startedAtMs) * dayMs;
  return months => {
    const lastDay = new Date(Date.UTC(year, month + months + 1, 0)).getUTCDate();
    return Date.UTC(year, month + months, Math.min(day, lastDay)) + timeOfDay;
  };
}
