/** The window in which jobs are counted. */
export const windowMs = 200;
/** An owner with more jobs than this in the last window is busy. */
export const busyJobs = 50;

/** Finds the owners (accounts) that have many jobs. */
export class BusyOwners<Owner> {
  readonly #nowMs: () => number;
  /** The number of jobs by owner, in this window and in the one before. */
  #counts = new Map<Owner, number>();
  #last = new Map<Owner, number>();
  #endsAtMs = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Counts a job. Returns whether its owner was busy in the last window, in which other owners had jobs, too. */
  count(owner: Owner): boolean {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#endsAtMs) {
      this.#last = nowMs < this.#endsAtMs + windowMs ? this.#counts : new Map<Owner, number>();
      this.#counts = new Map();
      this.#endsAtMs = nowMs + windowMs;
    }
    this.#counts.set(owner, (this.#counts.get(owner) ?? 0) + 1);
    return this.#last.size > 1 && (this.#last.get(owner) ?? 0) > busyJobs;
  }
}
