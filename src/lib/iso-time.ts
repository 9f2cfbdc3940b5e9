import './temporal.ts';

/** A time between two milliseconds is after one and before the other; both are the same if it is a whole one. */
export interface ReadTime {
  /** The last millisecond since 1970 UTC that is not after it. */
  readonly floorMs: number;
  /** The first that is not before it. */
  readonly ceilMs: number;
}

const pattern = /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d(?::\d\d(?::[0-5]\d(?:[.,]\d{1,9})?)?)?)([Zz]|[+\- ]\d\d:?\d\d)?)?$/;
const millisecondNs = 1_000_000n;

/**
 * Reads ISO 8601: a date, or a date and a time to the hour, minute, second or a fraction of it, in UTC or with an
 * offset; without one it is UTC. A blank counts as the plus that a query string turns into one. Undefined if the text
 * is invalid, or names no existing day or time.
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
