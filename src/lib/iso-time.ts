/** A time between two milliseconds lies after one and before the other; both are the same where it is a whole one. */
export interface ReadTime {
  /** The last millisecond since 1970 UTC that is not after it. */
  readonly floorMs: number;
  /** The first that is not before it. */
  readonly ceilMs: number;
}

const pattern =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?(?:[Zz]|([+\- ])(\d\d):?(\d\d))?)?$/;
const minuteMs = 60_000;

/**
 * Reads ISO 8601: a date, or a date and a time to the hour, minute, second or a fraction of it, in UTC or with an offset; without one it is UTC. A blank
 * stands for the plus that a query string turns into one. Undefined where the text is none, or names no day or time that exists.
 */
export function parseIsoTime(text: string): ReadTime | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', sign, ...offset] = match;
  const parts = [year, month, day, hour, minute, second].map(Number);
  const [offsetHours = 0, offsetMinutes = 0] = offset.map(digits => Number(digits ?? 0));
  const wholeMs = millisecondsOf(parts);
  if (wholeMs === undefined || offsetHours > 23 || offsetMinutes > 59) return undefined;
  const offsetMs = (sign === '-' ? -1 : 1) * (offsetHours * 60 + offsetMinutes) * minuteMs;
  const floorMs = wholeMs - offsetMs + Number(fraction.slice(0, 3).padEnd(3, '0'));
  return { floorMs, ceilMs: /[1-9]/.test(fraction.slice(3)) ? floorMs + 1 : floorMs };
}

/** Undefined where the parts name no day or time: `Date` would carry them over. */
function millisecondsOf(parts: readonly number[]): number | undefined {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const carried = [
    date.getUTCFullYear(),
    date.getUTCMonth() + 1,
    date.getUTCDate(),
    date.getUTCHours(),
    date.getUTCMinutes(),
    date.getUTCSeconds(),
  ];
  return carried.every((value, at) => value === parts[at]) ? date.getTime() : undefined;
}
