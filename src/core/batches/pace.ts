import { type EventLoopUtilization, performance } from 'node:perf_hooks';

/** How long batches hold back after the last request that is not an item of a batch. */
const calmMs = 1_000;
/** The time over which the use of the event loop is measured. */
const windowMs = 50;
/** While other requests arrive, items start only if the event loop is busy for less than this share of the time. */
const busyPart = 0.4;

/** Decides whether an item of a batch may begin: always if no other requests arrive, otherwise only if the process has spare capacity. */
export class Pace {
  readonly #begun: () => number;
  #lastBegun = 0;
  #lastAtMs = -Infinity;
  #windowAtMs = -Infinity;
  #window: EventLoopUtilization = performance.eventLoopUtilization();

  /** `begun` returns how many requests have begun in this process, items of batches not counted. */
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
