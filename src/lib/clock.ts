/** The wall clock, in ms since 1970 UTC. All code reads the time from a `Clock`, so that tests can set it. */
export interface Clock {
  now(): number;
}

/** The system's clock. It can step back, so no code may rely on ascending times (`IdSource` makes ascending ids nevertheless). */
export const systemClock: Clock = { now: () => Date.now() };

/** Returns a time in ms since 1970 as ISO 8601 in UTC, for example "2026-11-21T10:00:00.000Z". */
export function isoTime(ms: number | bigint): string {
  return new Date(Number(ms)).toISOString();
}
