import { createHash } from 'node:crypto';

/** A source of choices that is the same for the same seed text; not for anything that must not be guessed. */
export class SeededRandom {
  #state: number;

  constructor(seed: string) {
    this.#state = createHash('sha256').update(seed).digest().readUInt32LE(0);
  }

  /** At least 0, below 1. */
  next(): number {
    // Mulberry32.
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number, at least 0, below `limit`. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  /** One of a list. Throws if it is empty. */
  pick<T>(list: readonly T[]): T {
    const picked = list[this.below(list.length)];
    if (picked === undefined) throw new Error('there is nothing to pick from');
    return picked;
  }
}
