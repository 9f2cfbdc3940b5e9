import './temporal.ts';

/** A time in milliseconds, rounded down and up. Both are the same if the time is a whole number of milliseconds. */
export interface ReadTime {
  /** The last millisecond that is not after the time, since 1970 UTC. */
  readonly floorMs: number;
  /** The first millisecond that is not before the time. */
  readonly ceilMs: number;
}

const pattern = /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d(?::\d\d(?::[0-5]\d(?:[.,]\d{1,9})?)?)?)([Zz]|[+\- ]\d\d:?\d\d)?)?$/;
const millisecondNs = 1_000_000n;

/**
 * Reads an ISO 8601 time: a date, or a date and a time of day down to the hour, minute, second or a fraction of it. Without
 * an offset it is in UTC. A space counts as a plus, because a query string turns a plus into a space. Returns undefined if
 * the text is invalid or the day or time does not exist.
 */
export function parseIsoTime(text: string): ReadTime | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [, date = '', time = '00', offset = 'Z'] = match;
  try {
    const { epochMilliseconds, epochNanoseconds } = Temporal.Instant.from(`${date}T${time}${offset.replace(' ', '+')}`);
    const isWhole = epochNanoseconds % millisecondNs === 0n;
    return { floorMs: epochMilliseconds, ceilMs: isWhole ? epochMilliseconds : epochMilliseconds + 1 };
  } catch {
    return undefined;
  }
}
