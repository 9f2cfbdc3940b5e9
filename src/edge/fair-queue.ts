/** How much work is started at a time, and how much may wait. */
export interface FairLimits {
  /** Milliseconds of work in one turn of the event loop; after that, no more jobs start in that turn. */
  readonly sliceMs: number;
  /** The most jobs of one owner that may wait. */
  readonly waitingMax: number;
}

type Job = () => void;

/**
 * Spreads jobs over turns of the event loop. Waiting jobs start in turn, one of each owner, so that an owner (an account) that sends a
 * hundred times as many as the others delays only itself. If none wait and there is time left in a turn, a job starts at once.
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

  /** Runs a job now or in a later turn. Returns false if too many jobs of its owner already wait; the job then never runs. */
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

  /** Takes a job of the owner at the front of the queue; if more of its jobs wait, the owner goes to the end. */
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
