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
