/** The wall clock, in ms since 1970 UTC. Everything that asks for the time asks here, so that one clock can be set in tests. */
export interface Clock {
  now(): number;
}

/** The machine's clock. It may step back: nothing may rely on its order (ids do, and keep it themselves). */
export const systemClock: Clock = { now: () => Date.now() };
