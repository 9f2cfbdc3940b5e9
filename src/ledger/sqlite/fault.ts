/**
 * Faults on purpose: tests make the n-th step of the writer fail, for every n, to see that its promises hold. The gateway itself
 * never gives a plan.
 */

/**
 * Points where a step can fail: before a statement, before the commit, before the sync, before the reply (which is lost), when a message
 * has come.
 */
export type FaultPoint = 'statement' | 'commit' | 'sync' | 'reply' | 'message';

/** What fails: from the `nth` step at `point` on (from 1), `times` in a row. */
export interface FaultPlan {
  readonly point: FaultPoint;
  readonly nth: number;
  readonly times: number;
  /** SQLite's code of the error; `exit`: the writer dies; `bug`: an error that no code expects. */
  readonly kind: 'SQLITE_FULL' | 'SQLITE_IOERR_WRITE' | 'SQLITE_BUSY' | 'SQLITE_CONSTRAINT_CHECK' | 'exit' | 'bug';
  /** Counts the failures for the test that ordered them; an Int32 of shared memory. */
  readonly fired?: SharedArrayBuffer;
}

/** Ends the writer: it is never caught. */
export class WriterDeath extends Error {
  override readonly name = 'WriterDeath';
}

/** Counts steps and throws as planned. */
export class Faults {
  readonly #plan: FaultPlan;
  readonly #failure: (code: string) => Error;
  #seen = 0;

  /** `failure` makes the engine's own error of a code. */
  constructor(plan: FaultPlan, failure: (code: string) => Error) {
    this.#plan = plan;
    this.#failure = failure;
  }

  /** Throws if the plan says so. */
  step(point: FaultPoint): void {
    const { nth, times, kind } = this.#plan;
    if (point !== this.#plan.point) return;
    this.#seen++;
    if (this.#seen < nth || this.#seen >= nth + times) return;
    if (this.#plan.fired !== undefined) Atomics.add(new Int32Array(this.#plan.fired), 0, 1);
    if (kind === 'exit') throw new WriterDeath('the writer was told to die');
    throw kind === 'bug' ? new Error('a fault on purpose') : this.#failure(kind);
  }
}
