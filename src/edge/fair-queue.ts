/** How much work is started at a time, and how much may wait. */
export interface FairLimits {
  /** Milliseconds of work that are started in one turn of the event loop. */
  readonly sliceMs: number;
  /** Requests of one account that may wait. */
  readonly waitingMax: number;
}

type Job = () => void;

/**
 * Starts requests in turns of the event loop, one of each account after the other: an account that sends a hundred times as many as the
 * others delays only itself. While there is time left in a turn, a request starts at once.
 */
export class FairQueue<Owner> {
  readonly #limits: () => FairLimits;
  readonly #nowMs: () => number;
  /** Jobs that wait, by owner, in the order in which owners are served. */
  readonly #waiting = new Map<Owner, Job[]>();
  #spentMs = 0;
  #isScheduled = false;

  constructor(limits: () => FairLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  /** Runs a job now or in a later turn. Returns false if too many of its owner wait; then it never runs. */
  run(owner: Owner, job: Job): boolean {
    const { sliceMs, waitingMax } = this.#limits();
    this.#schedule();
    if (this.#waiting.size === 0 && this.#spentMs < sliceMs) {
      this.#execute(job);
      return true;
    }
    const jobs = this.#waiting.get(owner);
    if (jobs === undefined) this.#waiting.set(owner, [job]);
    else if (jobs.length >= waitingMax) return false;
    else jobs.push(job);
    return true;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#nextTurn());
  }

  #nextTurn(): void {
    this.#isScheduled = false;
    this.#spentMs = 0;
    const { sliceMs } = this.#limits();
    while (this.#spentMs < sliceMs) {
      const job = this.#takeNext();
      if (job === undefined) return;
      this.#execute(job);
    }
    this.#schedule();
  }

  /** Returns the next job of the owner who waits longest for one; the owner then goes to the end of the queue. */
  #takeNext(): Job | undefined {
    for (const [owner, jobs] of this.#waiting) {
      const job = jobs.shift();
      this.#waiting.delete(owner);
      if (jobs.length > 0) this.#waiting.set(owner, jobs);
      return job;
    }
    return undefined;
  }

  #execute(job: Job): void {
    const beganMs = this.#nowMs();
    try {
      job();
    } finally {
      this.#spentMs += this.#nowMs() - beganMs;
    }
  }
}
