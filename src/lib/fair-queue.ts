import { Rotation } from './rotation.ts';

/** How much work starts in one turn of the event loop, and how much may wait. */
export interface FairLimits {
  /** The milliseconds of work in one turn of the event loop after which no more jobs start in that turn. */
  readonly sliceMs: number;
  /** The most jobs of one owner that may wait. */
  readonly waitingMax: number;
  /** The most jobs that start in one turn, for jobs that do most of their work after they have returned; absent: no limit. */
  readonly jobsMax?: number;
}

/** Returns false if there was nothing to do any more, so that the job does not count as one of its turn. */
type Job = () => boolean | void;

/**
 * Spreads jobs over turns of the event loop. Waiting jobs are started in rotation, one of each owner (account), so that an owner that sends a
 * hundred times as many jobs as the others delays only itself. If no job waits and the turn has time left, a job starts at once.
 */
export class FairQueue<Owner> {
  readonly #limits: () => FairLimits;
  readonly #nowMs: () => number;
  readonly #waiting = new Rotation<Owner, Job>();
  #spentMs = 0;
  #started = 0;
  #isScheduled = false;

  constructor(limits: () => FairLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  /** Runs a job now or in a later turn. Returns false if too many jobs of its owner already wait; the job then never runs. */
  run(owner: Owner, job: Job): boolean {
    this.#schedule();
    if (this.#waiting.size === 0 && this.#hasRoom()) {
      this.#execute(job);
      return true;
    }
    if (this.#waiting.countOf(owner) >= this.#limits().waitingMax) return false;
    this.#waiting.add(owner, job);
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
    this.#started = 0;
    while (this.#hasRoom()) {
      const job = this.#waiting.takeNext();
      if (job === undefined) return;
      this.#execute(job);
    }
    this.#schedule();
  }

  /** Returns whether one more job may start in this turn. */
  #hasRoom(): boolean {
    const { sliceMs, jobsMax = Infinity } = this.#limits();
    return this.#spentMs < sliceMs && this.#started < jobsMax;
  }

  #execute(job: Job): void {
    const beganMs = this.#nowMs();
    this.#started += 1;
    try {
      if (job() === false) this.#started -= 1;
    } finally {
      this.#spentMs += this.#nowMs() - beganMs;
    }
  }
}
