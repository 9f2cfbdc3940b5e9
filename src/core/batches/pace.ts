import { type EventLoopUtilization, performance } from 'node:perf_hooks';

/** How long batches hold back after the last request that is not one of their items. */
const calmMs = 1_000;
/** Load is measured by the delay of the event loop. */
const windowMs = 50;
/** While other requests arrive, items start only if the event loop is busy for less than this part of the time. */
const busyPart = 0.4;

/** Decides whether a batch may use the process now: freely if nothing else runs, else only spare capacity. */
export class Pace {
  readonly #begun: () => number;
  #lastBegun = 0;
  #lastAtMs = -Infinity;
  #windowAtMs = -Infinity;
  #window: EventLoopUtilization = performance.eventLoopUtilization();

  /** `begun`: how many requests of others have begun in this process. */
  constructor(begun: () => number) {
    this.#begun = begun;
  }

  /** Returns whether an item may begin at that time (monotonic clock, ms). */
  isFree(nowMs: number): boolean {
    const begun = this.#begun();
    if (begun !== this.#lastBegun) {
      this.#lastBegun = begun;
      this.#lastAtMs = nowMs;
    }
    if (nowMs - this.#lastAtMs > calmMs) return true;
    const { utilization } = performance.eventLoopUtilization(this.#window);
    if (nowMs - this.#windowAtMs > windowMs) {
      this.#windowAtMs = nowMs;
      this.#window = performance.eventLoopUtilization();
    }
    return utilization < busyPart;
  }
}
