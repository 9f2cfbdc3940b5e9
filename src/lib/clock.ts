/** The wall clock, in ms since 1970 UTC. The only source of the time, so that tests can set it. */
export interface Clock {
  now(): number;
}

/** The machine's clock. It may step back: nothing may rely on its order (ids do, and keep it themselves). */
export const systemClock: Clock = { now: () => Date.now() };

/** A time in ms since 1970 as ISO 8601 in UTC ("2026-11-21T10:00:00.000Z"). */
export function isoTime(ms: number | bigint): string {
  return new Date(Number(ms)).toISOString();
}
