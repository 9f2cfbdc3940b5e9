/** The limits of a budget: bytes in all, and bytes of one owner. */
export interface BudgetLimits {
  readonly bytesMax: number;
  readonly ownerBytesMax: number;
}

/** Bytes of memory that requests take, counted per owner and in all, so that no owner and no sum of them takes more than is allowed. */
export class MemoryBudget<Owner> {
  readonly #limits: () => BudgetLimits;
  readonly #owners = new Map<Owner, number>();
  #bytes = 0;

  /** `limits` is called at each use, because a reload may change them. */
  constructor(limits: () => BudgetLimits) {
    this.#limits = limits;
  }

  /** Bytes that all owners have taken. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes that one owner has taken. */
  bytesTakenBy(owner: Owner): number {
    return this.#owners.get(owner) ?? 0;
  }

  /** Takes bytes if they are left. Returns what refused them otherwise; then nothing was taken. */
  take(owner: Owner, bytes: number): 'taken' | 'owner_full' | 'full' {
    const { bytesMax, ownerBytesMax } = this.#limits();
    const taken = this.bytesTakenBy(owner) + bytes;
    if (taken > ownerBytesMax) return 'owner_full';
    if (this.#bytes + bytes > bytesMax) return 'full';
    this.#bytes += bytes;
    this.#owners.set(owner, taken);
    return 'taken';
  }

  /** Returns bytes to the budget. */
  give(owner: Owner, bytes: number): void {
    if (bytes === 0) return;
    this.#bytes -= bytes;
    const left = this.bytesTakenBy(owner) - bytes;
    if (left <= 0) this.#owners.delete(owner);
    else this.#owners.set(owner, left);
  }
}
