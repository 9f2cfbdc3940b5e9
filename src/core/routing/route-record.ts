import type { Clock } from '../../lib/clock.ts';
import type { AttemptOutcome } from './observer.ts';

/** The most numbers that are kept of each kind. */
const samplesMax = 256;
/** How long a number counts. */
const windowMs = 5 * 60_000;

/** Keeps the last numbers of the last minutes. */
class Samples {
  readonly #clock: Clock;
  /** The numbers and their times, in two typed arrays, because every attempt adds a number. */
  readonly #times = new Float64Array(samplesMax);
  readonly #values = new Float64Array(samplesMax);
  #next = 0;
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(value: number): void {
    this.#times[this.#next] = this.#clock.now();
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % samplesMax;
    if (this.#count < samplesMax) this.#count += 1;
  }

  /** Returns the numbers of the last minutes, ascending. */
  read(): number[] {
    const now = this.#clock.now();
    // Leaves out times in the future too: they are from before the clock stepped back.
    const fresh = this.#values
      .subarray(0, this.#count)
      .filter((_, index) => Math.abs(now - (this.#times[index] ?? 0)) <= windowMs);
    return [...fresh.sort()];
  }
}

/** The median and the 99th percentile of durations, in ms. */
export interface Quantiles {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** How the last failed attempt of a route failed. */
export interface RouteFailure {
  readonly atMs: number;
  readonly result: string;
  readonly status: number | undefined;
  /** The provider's message, without what must not be logged; undefined: none. */
  readonly message: string | undefined;
}

/** The results of a route's attempts: counts since the start of the gateway, and times of the last five minutes. */
export class RouteRecord {
  attempts = 0;
  failures = 0;
  lastFailure: RouteFailure | undefined;
  readonly #clock: Clock;
  /** Times to the first event, of streamed answers and of answers that are not streamed (in which all events come at the end). */
  readonly #firstEvents: { readonly streamed: Samples; readonly whole: Samples };
  readonly #durations: Samples;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#firstEvents = { streamed: new Samples(clock), whole: new Samples(clock) };
    this.#durations = new Samples(clock);
  }

  /** Adds an attempt that has ended. `whole`: its answer was not streamed. */
  add({ result, status, failure, firstEventMs, durationMs }: AttemptOutcome, whole: boolean): void {
    this.attempts += 1;
    if (firstEventMs !== undefined) this.#firstEvents[whole ? 'whole' : 'streamed'].add(firstEventMs);
    if (result === 'completed') this.#durations.add(durationMs);
    if (failure === undefined || failure.facts.requested === true) return;
    this.failures += 1;
    this.lastFailure = { atMs: this.#clock.now(), result, status, message: failure.facts.logMessage };
  }

  /** Returns the time to the first event of streamed answers; undefined: there were none in the last minutes. */
  firstEvent(): Quantiles | undefined {
    return quantiles(this.#firstEvents.streamed.read());
  }

  /**
   * Returns the median time to the first event of streamed answers, or of answers that are not streamed (`whole`), in ms; undefined: there were too few in the last minutes.
   */
  speedMs(whole: boolean): number | undefined {
    const times = this.#firstEvents[whole ? 'whole' : 'streamed'].read();
    return times.length < speedSamplesMin ? undefined : quantiles(times)?.p50Ms;
  }

  /** Returns the durations of completed attempts; undefined: none was completed in the last minutes. */
  duration(): Quantiles | undefined {
    return quantiles(this.#durations.read());
  }
}

/** The fewest attempts from which a speed is known: the first one is slower, because it opens the connection. */
const speedSamplesMin = 3;

function quantiles(ascending: readonly number[]): Quantiles | undefined {
  const count = ascending.length;
  const at = (share: number): number => ascending[Math.min(count - 1, Math.floor(share * count))] ?? 0;
  return count === 0 ? undefined : { count, p50Ms: at(0.5), p99Ms: at(0.99) };
}
