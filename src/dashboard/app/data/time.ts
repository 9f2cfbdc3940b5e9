/** The viewer's time zone; UTC if the browser has none. */
export const zone = Intl.DateTimeFormat('en-GB').resolvedOptions().timeZone;

const day = { day: 'numeric', month: 'short' } as const;
const minute = { hour: '2-digit', minute: '2-digit' } as const;
const secondFormat = new Intl.DateTimeFormat('en-GB', { ...day, ...minute, second: '2-digit' });
const clockFormat = new Intl.DateTimeFormat('en-GB', { ...minute, second: '2-digit' });
const longFormat = new Intl.DateTimeFormat('en-GB', {
  ...day,
  ...minute,
  year: 'numeric',
  second: '2-digit',
  timeZoneName: 'short',
});
const utcDayFormat = new Intl.DateTimeFormat('en-GB', { ...day, timeZone: 'UTC' });
const hourFormat = new Intl.DateTimeFormat('en-GB', { ...day, ...minute });

/** Returns the current time, in milliseconds since 1970 UTC. */
export function nowMs(): number {
  return Math.round(performance.timeOrigin + performance.now());
}

/** Formats a time in the viewer's zone: "22 Nov, 11:03:04". */
export function timeText(ms: bigint | number): string {
  return secondFormat.format(Number(ms));
}

/** Formats a time of day in the viewer's zone: "11:03:04". */
export function clockText(ms: bigint | number): string {
  return clockFormat.format(Number(ms));
}

/** Formats a time in full: in the viewer's zone and in UTC. */
export function fullTime(ms: bigint | number): string {
  return `${longFormat.format(Number(ms))} (${new Date(Number(ms)).toISOString()})`;
}

/** Returns the label of a period of a chart: a UTC day, or an hour in the viewer's zone. */
export function periodText(ms: number, isHourly: boolean): string {
  return isHourly ? hourFormat.format(ms) : `${utcDayFormat.format(ms)} UTC`;
}

/** Returns the time that is left until `ms`: "in 3 h 12 min", or "now" if it has passed. */
export function untilText(ms: bigint | number): string {
  const seconds = Math.round((Number(ms) - nowMs()) / 1000);
  if (seconds <= 0) return 'now';
  if (seconds < 60) return `in ${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `in ${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `in ${hours} h ${minutes % 60} min`;
  return `in ${Math.floor(hours / 24)} days`;
}

/** Formats a duration: "184 ms", "3.2 s", "2 min 5 s". */
export function durationText(ms: bigint | number): string {
  const value = Number(ms);
  if (value < 1_000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1_000).toFixed(1)} s`;
  return `${Math.floor(value / 60_000)} min ${Math.round((value % 60_000) / 1_000)} s`;
}
