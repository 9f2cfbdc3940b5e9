import { Rotation } from '../lib/rotation.ts';
import { BusyOwners } from './busy-owners.ts';

/** How much work starts in one turn of the event loop, and how much may wait. */
export interface FairLimits {
  /** The milliseconds of work in one turn of the event loop after which no more jobs start in that turn. */
  readonly sliceMs: number;
  /** The most jobs of one owner that may wait. */
  readonly waitingMax: number;
}

type Job = () => void;

/** How often the jobs of busy owners are started. */
const gatherMs = 2;

/**
 * Spreads jobs over turns of the event loop. Waiting jobs are started in rotation, one of each owner (account), so that an owner that sends a
 * hundred times as many jobs as the others delays only itself. If no job waits and the turn has time left, a job starts at once.
 *
 * Jobs of busy owners start together every 2 ms while others have jobs, too: what follows them (the call of the provider, its answer, the charge) then also comes together, and many turns of the event loop with
 * one step each cost three times as much processor time as one turn with many. That time is what the others' jobs would wait for.
 */
export class FairQueue<Owner> {
  readonly #limits: () => FairLimits;
  readonly #nowMs: () => number;
  readonly #waiting = new Rotation<Owner, Job>();
  readonly #busy: BusyOwners<Owner>;
  /** Jobs of busy owners, until they are started or wait for their turn. */
  readonly #gathered = new Rotation<Owner, { readonly owner: Owner; readonly job: Job }>();
  #spentMs = 0;
  #isScheduled = false;

  constructor(limits: () => FairLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
    this.#busy = new BusyOwners(nowMs);
  }

  /** Runs a job now or in a later turn. Returns false if too many jobs of its owner already wait; the job then never runs. */
  run(owner: Owner, job: Job): boolean {
    const { sliceMs, waitingMax } = this.#limits();
    if (this.#busy.count(owner)) return this.#gather(owner, job, waitingMax);
    this.#schedule();
    if (this.#waiting.size === 0 && this.#spentMs < sliceMs) {
      this.#execute(job);
      return true;
    }
    if (this.#waiting.countOf(owner) >= waitingMax) return false;
    this.#waiting.add(owner, job);
    return true;
  }

  #gather(owner: Owner, job: Job, waitingMax: number): boolean {
    if (this.#waiting.countOf(owner) + this.#gathered.countOf(owner) >= waitingMax) return false;
    this.#gathered.add(owner, { owner, job });
    // Not the timers of `Runtime`, which fire up to 20 ms late.
    if (this.#gathered.size === 1) setTimeout(() => this.#startGathered(), gatherMs);
    return true;
  }

  #startGathered(): void {
    for (const { owner, job } of this.#gathered.takeAll()) this.#waiting.add(owner, job);
    if (!this.#isScheduled) this.#nextTurn();
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
      const job = this.#waiting.takeNext();
      if (job === undefined) return;
      this.#execute(job);
    }
    this.#schedule();
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
