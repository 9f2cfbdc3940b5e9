import { Rotation } from './rotation.ts';
import { type Runtime, systemRuntime } from './runtime.ts';
import { type BudgetLimits, SharedBudget } from './shared-budget.ts';
import { waitForTurn } from './turn.ts';

/** The limits of a `WaitingBudget`. */
export interface WaitingLimits extends BudgetLimits {
  /** How long a caller waits at most, in ms. */
  readonly waitMs: number;
}

/** A caller that may have amounts of a budget while it waits for another one. */
export interface Holder {
  /** The amount that it has now, counted in the budget. */
  readonly held: number;
}

interface Waiter<Owner> {
  readonly owner: Owner;
  readonly amount: number;
  /** Called once, when the amount was taken. */
  readonly granted: () => void;
}

/**
 * A `SharedBudget` of which callers can also wait for an amount. Owners (accounts) are served in rotation, callers of one owner in order. A caller whose owner has used up its own share delays nobody else; one that waits until all together leave enough is served before those
 * whose turn comes later, so that a large amount is not overtaken by small ones.
 */
export class WaitingBudget<Owner> {
  readonly #limits: () => WaitingLimits;
  readonly #budget: SharedBudget<Owner>;
  readonly #runtime: Pick<Runtime, 'after'>;
  readonly #waiters = new Rotation<Owner, Waiter<Owner>>();
  /** Those of the waiters that have amounts, the oldest first. */
  readonly #holding = new Map<Waiter<Owner>, Holder>();
  /** The waiter that is served next, but for which all owners together leave too little; undefined if there is none. */
  #next: Waiter<Owner> | undefined;
  /** For each owner with more than its limit, the caller that exceeds it. */
  readonly #exceeding = new Map<Owner, Holder>();
  /** The caller with which all owners together exceed their limit; undefined: they don't. */
  #exceedingAll: Holder | undefined;

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

  /**
   * Takes an amount if both limits allow it, without waiting. Otherwise takes nothing and returns which limit refused it.
   *
   * Must not keep those that wait waiting for ever: leaves an owner what its own first waiter needs. While one waits because all owners together have too much, what it needs is left to it, and each owner can have an equal part of the rest.
   */
  take(owner: Owner, amount: number): ReturnType<SharedBudget<Owner>['take']> {
    if (this.#waiters.size > 0) {
      const { max, ownerMax } = this.#limits();
      const before = this.#budget.takenBy(owner);
      if (before + amount + (this.#waiters.firstOf(owner)?.amount ?? 0) > ownerMax) return 'owner_full';
      const owners = this.#budget.owners + (before === 0 ? 1 : 0);
      const left = max - (this.#next?.amount ?? 0);
      if (left < max && before + amount > left / owners) return 'full';
    }
    return this.#budget.take(owner, amount);
  }

  /** Returns an amount to the budget, and gives it to those that wait. */
  give(owner: Owner, amount: number): void {
    if (amount === 0) return;
    this.#budget.give(owner, amount);
    const { max, ownerMax } = this.#limits();
    if (this.#budget.takenBy(owner) <= ownerMax) this.#exceeding.delete(owner);
    if (this.#budget.taken <= max) this.#exceedingAll = undefined;
    if (this.#waiters.size > 0) this.#serve();
  }

  /**
   * Takes an amount, at once or when its turn comes. Returns false if the wait was too long; nothing is taken then. Rejects with the signal's reason if it is aborted before.
   *
   * Callers must not wait for what only others that wait have, because they would do so for ever. So if everything that an owner has, or that all have, belongs to callers that wait (each the `holder` of its wait), the oldest one is served in spite of the limits, one caller at a time. What a caller has and waits for must fit into
   * `ownerMax`, so at most twice the limit of an owner is taken, and at most that limit more than the limit of all.
   */
  async wait(owner: Owner, amount: number, signal: AbortSignal, holder?: Holder): Promise<boolean> {
    const turn = { runtime: this.#runtime, waitMs: this.#limits().waitMs, signal };
    const isTaken = await waitForTurn<true>(turn, grant => {
      const waiter: Waiter<Owner> = { owner, amount, granted: () => grant(true) };
      this.#waiters.add(owner, waiter);
      if (holder !== undefined && holder.held > 0) this.#holding.set(waiter, holder);
      this.#serve();
      return () => this.#leave(waiter);
    });
    return isTaken === true;
  }

  /** Removes a caller that does not wait any more. Returns false if it has got its amount. */
  #leave(waiter: Waiter<Owner>): boolean {
    const { owner } = waiter;
    if (!this.#waiters.remove(owner, waiter)) return false;
    this.#holding.delete(waiter);
    // It has had its turn, without getting anything. Else its owner's next large amount would keep the others waiting.
    this.#waiters.endTurn(owner);
    // Once the caller knows, so that it is told before those that are served because it left.
    queueMicrotask(() => this.#serve());
    return true;
  }

  #serve(): void {
    this.#next = undefined;
    const isReady = (owner: Owner, waiter: Waiter<Owner>): boolean => {
      if (this.#next !== undefined) return false;
      const outcome = this.#budget.take(owner, waiter.amount);
      if (outcome === 'full') this.#next = waiter;
      return outcome === 'taken';
    };
    for (let next = this.#waiters.takeReady(isReady); next !== undefined; next = this.#waiters.takeReady(isReady)) {
      this.#holding.delete(next);
      next.granted();
    }
    if (this.#holding.size > 0) this.#serveStuck();
  }

  /** Serves callers that wait for what only others that wait have: of each owner the one that exceeds its limit already, or else the oldest. */
  #serveStuck(): void {
    const { max, ownerMax } = this.#limits();
    const budget = this.#budget;
    const held = new Map<Owner, number>();
    for (const [{ owner }, holder] of this.#holding) held.set(owner, (held.get(owner) ?? 0) + holder.held);
    let heldByAll = Array.from(held.values()).reduce((sum, each) => sum + each, 0);
    for (const [waiter, holder] of this.#holding) {
      const { owner, amount } = waiter;
      const ownHeld = held.get(owner);
      if (ownHeld === undefined || (this.#exceeding.get(owner) ?? holder) !== holder) continue;
      held.delete(owner);
      if (ownHeld < budget.takenBy(owner)) continue;
      if (budget.taken + amount > max) {
        if (heldByAll < budget.taken || (this.#exceedingAll ?? holder) !== holder) continue;
        this.#exceedingAll = holder;
      }
      if (budget.takenBy(owner) + amount > ownerMax) this.#exceeding.set(owner, holder);
      heldByAll -= holder.held;
      budget.exceed(owner, amount);
      this.#waiters.remove(owner, waiter);
      this.#holding.delete(waiter);
      if (this.#next === waiter) this.#next = undefined;
      waiter.granted();
    }
  }
}
