import { Rotation } from './rotation.ts';
import { type Runtime, systemRuntime } from './runtime.ts';
import { waitForTurn } from './turn.ts';

/** Limits of a semaphore. */
export interface SemaphoreLimits {
  /** How many callers may hold a slot at once. */
  readonly slots: number;
  /** How many callers may wait. If they do, one more is refused, unless its owner has fewer waiting than another: then that owner's newest is refused. */
  readonly waitersMax: number;
  /** How long a caller waits at most. */
  readonly waitMs: number;
}

/** Gives the slot back; calling it again does nothing. */
export type Release = () => void;

/** Called with a slot, or with undefined if there is none for this caller. */
type Grant = (release: Release | undefined) => void;

/** A counting semaphore with a bounded queue and abortable waits. Owners (accounts) are served in rotation; callers of one owner, in order. */
export class Semaphore {
  readonly #limits: SemaphoreLimits;
  readonly #runtime: Pick<Runtime, 'after'>;
  readonly #waiters = new Rotation<unknown, Grant>();
  #held = 0;

  constructor(limits: SemaphoreLimits, runtime: Pick<Runtime, 'after'> = systemRuntime) {
    this.#limits = limits;
    this.#runtime = runtime;
  }

  /** The number of held slots. */
  get held(): number {
    return this.#held;
  }

  /**
   * Returns true if no one waits and a slot is left for one more. `expected`: the caller's own count of holders, including those that have
   * not called `acquire` yet. The larger of it and `held` counts.
   */
  hasRoom(expected: number): boolean {
    return this.#waiters.size === 0 && Math.max(this.#held, expected) < this.#limits.slots;
  }

  /** The number of callers that wait for a slot. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /**
   * Takes a slot, at once or when one is free. Returns undefined if the queue is full or the wait was too long. Rejects with the signal's
   * reason if it is aborted; no slot is lost then. `owner`: whom the slot is for (the account); callers without one count as one owner.
   */
  async acquire(signal: AbortSignal, owner?: unknown): Promise<Release | undefined> {
    signal.throwIfAborted();
    const free = this.take();
    if (free !== undefined) return free;
    if (this.#waiters.size >= this.#limits.waitersMax) {
      const displaced = this.#waiters.displaceFor(owner);
      if (displaced === undefined) return undefined;
      displaced(undefined);
    }
    return waitForTurn<Release>({ runtime: this.#runtime, waitMs: this.#limits.waitMs, signal }, grant => {
      this.#waiters.add(owner, grant);
      // A caller that has been given a slot is no longer among the waiters, and keeps the slot.
      return () => this.#waiters.remove(owner, grant);
    });
  }

  /** Takes a slot if one is free now, without waiting; else returns undefined. */
  take(): Release | undefined {
    return this.#held < this.#limits.slots ? this.#grant() : undefined;
  }

  #grant(): Release {
    this.#held += 1;
    let isReturned = false;
    return () => {
      if (isReturned) return;
      isReturned = true;
      this.#held -= 1;
      const next = this.#waiters.takeNext();
      if (next !== undefined) next(this.#grant());
    };
  }
}
