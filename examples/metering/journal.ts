import { closeSync, existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs';

/**
 * The lines about one piece of work, in this order: `begun`; `done`, with its cost; and how it ended (`unpaid`: its hold had
 * expired before it was charged). Amounts and ids are decimal strings.
 */
export type Note =
  | { readonly id: string; readonly what: 'begun'; readonly target: string }
  | { readonly id: string; readonly what: 'done'; readonly costNanoUsd: string; readonly latencyMs: number }
  | { readonly id: string; readonly what: 'settled' | 'voided' | 'unpaid' };

/** Work that is neither charged nor released yet, because this service or the gateway stopped. */
export interface Unfinished {
  readonly id: bigint;
  /** The path of its result. */
  readonly target: string;
  /** Its cost and duration; absent: the work was not finished. */
  readonly done?: { readonly costNanoUsd: bigint; readonly latencyMs: number };
}

/**
 * Records the service's work in a file of JSON lines. Each line is on the disk before the next step is taken, so that after a crash the file says what
 * to settle and what to release. The journal also makes the ids, so that none is used twice. Only one process at a time may use it.
 */
export class Journal {
  readonly #file: number;
  readonly #unfinished = new Map<bigint, Unfinished>();
  #lastId: bigint;

  /** Opens or creates the file. `firstId`: the first id of this service; all services of a gateway share the numbers, so each has a range. */
  constructor(path: string, firstId: bigint) {
    this.#lastId = firstId - 1n;
    const written = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
    // The machine stopped while a line without an end was written, so the step after it was not taken.
    const whole = written.subarray(0, written.lastIndexOf('\n') + 1);
    if (whole.length < written.length) truncateSync(path, whole.length);
    for (const line of whole.toString().split('\n').slice(0, -1)) this.#take(JSON.parse(line) as Note);
    this.#file = openSync(path, 'a');
  }

  /** Returns the work that is neither charged nor released yet, the oldest first. */
  unfinished(): Unfinished[] {
    return [...this.#unfinished.values()];
  }

  /** Records that work begins, and returns its id. */
  begin(target: string): bigint {
    const id = this.#lastId + 1n;
    this.#write({ id: id.toString(), what: 'begun', target });
    return id;
  }

  /** Records that work is done, and its cost. From then on it will be charged, even after a crash. */
  done(id: bigint, costNanoUsd: bigint, latencyMs: number): void {
    this.#write({ id: id.toString(), what: 'done', costNanoUsd: costNanoUsd.toString(), latencyMs });
  }

  /** Records that the gateway has charged the work, or holds nothing for it any more. */
  end(id: bigint, what: 'settled' | 'voided' | 'unpaid'): void {
    this.#write({ id: id.toString(), what });
  }

  close(): void {
    closeSync(this.#file);
  }

  #write(note: Note): void {
    writeSync(this.#file, `${JSON.stringify(note)}\n`);
    fsyncSync(this.#file);
    this.#take(note);
  }

  #take(note: Note): void {
    const id = BigInt(note.id);
    if (id > this.#lastId) this.#lastId = id;
    const known = this.#unfinished.get(id);
    if (note.what === 'begun') this.#unfinished.set(id, { id, target: note.target });
    else if (note.what !== 'done') this.#unfinished.delete(id);
    else if (known !== undefined) {
      const { costNanoUsd, latencyMs } = note;
      this.#unfinished.set(id, { ...known, done: { costNanoUsd: BigInt(costNanoUsd), latencyMs } });
    }
  }
}
