import { Rotation } from './rotation.ts';
import { type Runtime, systemRuntime } from './runtime.ts';
import { type BudgetLimits, SharedBudget } from './shared-budget.ts';

/** The limits of a `WaitingBudget`. */
export interface WaitingLimits extends BudgetLimits {
  /** How long a caller waits at most, in ms. */
  readonly waitMs: number;
}

interface Waiter {
  readonly amount: number;
  /** Called once, when the amount was taken. */
  readonly granted: () => void;
}

/**
 * A `SharedBudget` of which callers can also wait for an amount. Owners (accounts) are served in rotation, callers of one owner in order. A caller whose owner has used up its own share delays nobody else; one that waits until all together leave enough is served before those
 * whose turn comes later, so that a large amount is not overtaken by small ones that wait. Callers of `take` do not wait, and can overtake.
 */
export class WaitingBudget<Owner> {
  readonly #limits: () => WaitingLimits;
  readonly #budget: SharedBudget<Owner>;
  readonly #runtime: Pick<Runtime, 'after'>;
  readonly #waiters = new Rotation<Owner, Waiter>();

  /** `limits` returns the current limits; a reload may change them. */
  constructor(limits: () => WaitingLimits, runtime: Pick<Runtime, 'after'> = systemRuntime) {
    this.#limits = limits;
    this.#budget = new SharedBudget(limits);
    this.#runtime = runtime;
  }

  /** The amount that all owners have taken. */
  get taken(): number {
    return this.#budget.taken;
  }

  /** The most that one owner can have. */
  get ownerMax(): number {
    const { max, ownerMax } = this.#limits();
    return Math.min(max, ownerMax);
  }

  /** The number of callers that wait. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /** Takes an amount if both limits allow it, without waiting. Otherwise takes nothing and returns which limit refused it. */
  take(owner: Owner, amount: number): ReturnType<SharedBudget<Owner>['take']> {
    return this.#budget.take(owner, amount);
  }

  /** Returns an amount to the budget, and gives it to those that wait. */
  give(owner: Owner, amount: number): void {
    if (amount === 0) return;
    this.#budget.give(owner, amount);
    if (this.#waiters.size > 0) this.#serve();
  }

  /** Takes an amount, at once or when its turn comes. Returns false if the wait was too long; nothing is taken then. Rejects with the signal's reason if it is aborted before. */
  async wait(owner: Owner, amount: number, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const waiter: Waiter = { amount, granted: () => resolve(true) };
    this.#waiters.add(owner, waiter);
    this.#serve();
    const leave = (settle: () => void): void => {
      // A caller that has got its amount is no longer among the waiters.
      if (!this.#waiters.remove(owner, waiter)) return;
      // It has had its turn, without getting anything. Else its owner's next large amount would keep the others waiting.
      this.#waiters.endTurn(owner);
      settle();
      this.#serve();
    };
    const timer = this.#runtime.after(this.#limits().waitMs, () => leave(() => resolve(false)));
    const onAbort = (): void => leave(() => reject(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await promise;
    } finally {
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
    }
  }

  #serve(): void {
    let isFull = false;
    const isReady = (owner: Owner, { amount }: Waiter): boolean => {
      if (isFull) return false;
      const outcome = this.#budget.take(owner, amount);
      isFull = outcome === 'full';
      return outcome === 'taken';
    };
    for (let next = this.#waiters.takeReady(isReady); next !== undefined; next = this.#waiters.takeReady(isReady))
      next.granted();
  }
}
