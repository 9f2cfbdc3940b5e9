/** If the log has more pages than this (64 MB), the writer makes a checkpoint itself. Normally the checkpointer keeps it far below. */
const pagesMax = 16_000;

/** The state of the log, in memory that the ledger's threads share. */
export class LogState {
  readonly #words: Int32Array;

  constructor(memory = new SharedArrayBuffer(8)) {
    this.#words = new Int32Array(memory);
  }

  /** The shared memory, from which another thread can make a `LogState`. */
  get memory(): SharedArrayBuffer {
    return this.#words.buffer as SharedArrayBuffer;
  }

  /** The number of commits, modulo 2^32. */
  get commits(): number {
    return Atomics.load(this.#words, 0);
  }

  addCommit(): void {
    Atomics.add(this.#words, 0, 1);
  }

  /** The number of pages that the log had after the last checkpoint. */
  get pages(): number {
    return Atomics.load(this.#words, 1);
  }

  set pages(pages: number) {
    Atomics.store(this.#words, 1, pages);
  }

  /** True if the log is too long because the checkpointer does not keep up. */
  get isLong(): boolean {
    return this.pages > pagesMax;
  }
}
