/** Limits of a semaphore. */
export interface SemaphoreLimits {
  /** How many hold it at once. */
  readonly slots: number;
  /** How many may wait; more are turned away. */
  readonly waitersMax: number;
  /** How long one waits at most. */
  readonly waitMs: number;
}

/** Gives the slot back; calling it again does nothing. */
export type Release = () => void;

interface Waiter {
  readonly grant: (release: Release) => void;
}

/** A counting semaphore: first come, first served, with a bounded queue and waits that can be aborted. */
export class Semaphore {
  readonly #limits: SemaphoreLimits;
  readonly #waiters = new Set<Waiter>();
  #held = 0;

  constructor(limits: SemaphoreLimits) {
    this.#limits = limits;
  }

  /** How many hold it now. */
  get held(): number {
    return this.#held;
  }

  /** How many wait now. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /**
   * A slot, at once or when one is free; undefined where the queue is full or the wait was too long. Rejects with the
   * signal's reason when aborted: a slot is never lost to one who has gone.
   */
  async acquire(signal: AbortSignal): Promise<Release | undefined> {
    signal.throwIfAborted();
    if (this.#held < this.#limits.slots) return this.#take();
    if (this.#waiters.size >= this.#limits.waitersMax) return undefined;
    const { promise, resolve, reject } = Promise.withResolvers<Release | undefined>();
    const waiter: Waiter = { grant: resolve };
    this.#waiters.add(waiter);
    const leave = (settle: () => void): void => {
      // One who was granted a slot is no longer among the waiters, and keeps it.
      if (this.#waiters.delete(waiter)) settle();
    };
    const timer = setTimeout(() => leave(() => resolve(undefined)), this.#limits.waitMs);
    const onAbort = (): void => leave(() => reject(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }

  #take(): Release {
    this.#held += 1;
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.#held -= 1;
      this.#grantNext();
    };
  }

  #grantNext(): void {
    for (const waiter of this.#waiters) {
      this.#waiters.delete(waiter);
      waiter.grant(this.#take());
      return;
    }
  }
}
