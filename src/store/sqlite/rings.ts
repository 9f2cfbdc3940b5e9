import { minuteMs } from './calendar.ts';

/**
 * Rolling minutes, in the writer's memory: the exact times of admissions, so that each counts while it is younger than 60 s, and one
 * that is later than now (the clock stepped back) counts too. What is stored is the truth: a ring is read from it when first asked
 * for, and again after a step back of the clock or an undone batch.
 */

/** Reads the admission times of an owner (a key, or an account's free requests) after a time, in any order. */
export type AdmissionTimes = (owner: number, afterMs: number) => number[];

/** A rolling minute as it stands. */
export interface RollingMinute {
  readonly count: number;
  /** When there will be one less than `max` of them; now, where that is so. */
  opensAtMs(max: number): number;
}

const ringsMax = 10_000;

/** Ascending times; those before `head` have left. */
interface Ring {
  times: number[];
  head: number;
  /** The latest time it was asked about: what was older has left and may be forgotten. */
  askedAtMs: number;
}

export class Rings {
  readonly #load: AdmissionTimes;
  readonly #rings = new Map<number, Ring>();

  constructor(load: AdmissionTimes) {
    this.#load = load;
  }

  /** The minute that ends now. */
  at(owner: number, nowMs: number): RollingMinute {
    const ring = this.#ring(owner, nowMs);
    const count = ring.times.length - ring.head;
    return {
      count,
      opensAtMs(max) {
        const leaves = ring.times[ring.head + Math.max(0, count - max)];
        return leaves === undefined ? nowMs : leaves + minuteMs;
      },
    };
  }

  /** Counts an admission that is stored in the batch. */
  add(owner: number, nowMs: number): void {
    const ring = this.#rings.get(owner);
    if (ring === undefined) return; // read with it when next asked for
    let place = ring.times.length;
    while (place > ring.head && (ring.times[place - 1] ?? 0) > nowMs) place--;
    ring.times.splice(place, 0, nowMs);
  }

  /** Forgets an owner, whose admissions may go uncounted from now on. */
  forget(owner: number): void {
    this.#rings.delete(owner);
  }

  /** Forgets everything, because a batch was undone. */
  clear(): void {
    this.#rings.clear();
  }

  #ring(owner: number, nowMs: number): Ring {
    let ring = this.#rings.get(owner);
    if (ring === undefined || nowMs < ring.askedAtMs) {
      if (this.#rings.size >= ringsMax) this.#rings.clear();
      const times = this.#load(owner, nowMs - minuteMs).sort((a, b) => a - b);
      ring = { times, head: 0, askedAtMs: nowMs };
      this.#rings.set(owner, ring);
      return ring;
    }
    ring.askedAtMs = nowMs;
    while (ring.head < ring.times.length && (ring.times[ring.head] ?? 0) <= nowMs - minuteMs) ring.head++;
    if (ring.head > 1024 && ring.head * 2 > ring.times.length) {
      ring.times = ring.times.slice(ring.head);
      ring.head = 0;
    }
    return ring;
  }
}
