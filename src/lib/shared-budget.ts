/** The limits of a budget: of all owners together, and of one owner. */
export interface BudgetLimits {
  readonly max: number;
  readonly ownerMax: number;
}

/** Counts how much of something limited (bytes of memory, running choices) requests use, per owner and in all, so that neither one owner nor all together exceed their limit. */
export class SharedBudget<Owner> {
  readonly #limits: () => BudgetLimits;
  readonly #owners = new Map<Owner, number>();
  #taken = 0;

  /** `limits` returns the current limits; a reload may change them. */
  constructor(limits: () => BudgetLimits) {
    this.#limits = limits;
  }

  /** The amount that all owners have taken. */
  get taken(): number {
    return this.#taken;
  }

  /** The number of owners that have taken something. */
  get owners(): number {
    return this.#owners.size;
  }

  /** Returns the amount that one owner has taken. */
  takenBy(owner: Owner): number {
    return this.#owners.get(owner) ?? 0;
  }

  /** Takes an amount if both limits allow it. Otherwise takes nothing and returns which limit refused it. */
  take(owner: Owner, amount: number): 'taken' | 'owner_full' | 'full' {
    const { max, ownerMax } = this.#limits();
    const taken = this.takenBy(owner) + amount;
    if (taken > ownerMax) return 'owner_full';
    if (this.#taken + amount > max) return 'full';
    this.exceed(owner, amount);
    return 'taken';
  }

  /** Takes an amount even if it exceeds a limit. */
  exceed(owner: Owner, amount: number): void {
    this.#taken += amount;
    this.#owners.set(owner, this.takenBy(owner) + amount);
  }

  /** Returns an amount to the budget. */
  give(owner: Owner, amount: number): void {
    if (amount === 0) return;
    this.#taken -= amount;
    const left = this.takenBy(owner) - amount;
    if (left <= 0) this.#owners.delete(owner);
    else this.#owners.set(owner, left);
  }
}
