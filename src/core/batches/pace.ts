import { type EventLoopUtilization, performance } from 'node:perf_hooks';

/** How long after a request of somebody else batches leave time for more. */
const calmMs = 1_000;
/** What is looked at is the event loop of the last while. */
const windowMs = 50;
/** While others ask, items begin only if the event loop is busy for less than that part of the time. */
const busyPart = 0.4;

/** Says whether a batch may use the process now: freely where nobody else asks for anything, else what others leave of it. */
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

  /** Whether an item may begin at that moment of a clock that never steps. */
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
