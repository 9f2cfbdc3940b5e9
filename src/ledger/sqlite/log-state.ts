/** Pages of the log above which the writer itself checkpoints: 64 MB. The checkpointer normally keeps it far below. */
const pagesMax = 16_000;

/** The state of the log, in memory that the ledger's threads share. */
export class LogState {
  readonly #words: Int32Array;

  constructor(memory = new SharedArrayBuffer(8)) {
    this.#words = new Int32Array(memory);
  }

  /** The shared memory from which another thread makes its own `LogState`. */
  get memory(): SharedArrayBuffer {
    return this.#words.buffer as SharedArrayBuffer;
  }

  /** Commits so far, modulo 2^32. */
  get commits(): number {
    return Atomics.load(this.#words, 0);
  }

  addCommit(): void {
    Atomics.add(this.#words, 0, 1);
  }

  /** Pages of the log after the last checkpoint. */
  get pages(): number {
    return Atomics.load(this.#words, 1);
  }

  set pages(pages: number) {
    Atomics.store(this.#words, 1, pages);
  }

  /** The checkpointer does not keep up. */
  get isLong(): boolean {
    return this.pages > pagesMax;
  }
}
