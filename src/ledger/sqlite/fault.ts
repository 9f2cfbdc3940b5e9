/**
 * Injected faults: tests make the n-th step of the writer fail, for every n, to check its guarantees. The gateway never injects faults.
 */

/**
 * Where a step can fail: before a statement, the commit, the sync or the reply (which is then lost), or when a message has arrived.
 */
export type FaultPoint = 'statement' | 'commit' | 'sync' | 'reply' | 'message';

/** A fault: the steps at `point` fail from the `nth` on (counted from 1), `times` in a row. */
export interface FaultPlan {
  readonly point: FaultPoint;
  readonly nth: number;
  readonly times: number;
  /** An error code of SQLite; `exit`: the writer dies; `bug`: an error without a known code. */
  readonly kind: 'SQLITE_FULL' | 'SQLITE_IOERR_WRITE' | 'SQLITE_BUSY' | 'SQLITE_CONSTRAINT_CHECK' | 'exit' | 'bug';
  /** Counts the failures for the test: an Int32 in shared memory. */
  readonly fired?: SharedArrayBuffer;
}

/** Ends the writer, because nothing catches it. */
export class WriterDeath extends Error {
  override readonly name = 'WriterDeath';
}

/** Counts steps and throws as planned. */
export class Faults {
  readonly #plan: FaultPlan;
  readonly #failure: (code: string) => Error;
  #seen = 0;

  /** `failure` creates the engine's own error for a code. */
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
    if (kind === 'exit') throw new WriterDeath('an injected fault ended the writer');
    throw kind === 'bug' ? new Error('a fault on purpose') : this.#failure(kind);
  }
}
