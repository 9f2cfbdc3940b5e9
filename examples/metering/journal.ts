import { closeSync, existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs';

/**
 * What a service records of a piece of work, in this order: it begins; it is done and costs so much; it has ended
 * (`unpaid`: too late to be charged).
 */
export type Note =
  | { readonly id: string; readonly what: 'begun'; readonly target: string }
  | { readonly id: string; readonly what: 'done'; readonly costNanoUsd: string; readonly latencyMs: number }
  | { readonly id: string; readonly what: 'settled' | 'voided' | 'unpaid' };

/** A piece of work that a crash, of this service or of the gateway, has left without its charge. */
export interface Unfinished {
  readonly id: bigint;
  /** The path of its result. */
  readonly target: string;
  /** Its cost and duration; absent: it was not done. */
  readonly done?: { readonly costNanoUsd: bigint; readonly latencyMs: number };
}

/**
 * The service's memory of its work: a file of JSON lines, each on the disk before the step that it allows. It makes the ids, so that none is ever
 * used twice, and says after a crash what to settle and what to release. One process at a time may use it.
 */
export class Journal {
  readonly #file: number;
  readonly #unfinished = new Map<bigint, Unfinished>();
  #lastId: bigint;

  /** Opens or makes the file. `firstId`: the range of ids is the service's own, since all services of a gateway share the numbers. */
  constructor(path: string, firstId: bigint) {
    this.#lastId = firstId - 1n;
    const written = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
    // A line without its end was being written when the machine stopped: the step it allows was not made.
    const whole = written.subarray(0, written.lastIndexOf('\n') + 1);
    if (whole.length < written.length) truncateSync(path, whole.length);
    for (const line of whole.toString().split('\n').slice(0, -1)) this.#take(JSON.parse(line) as Note);
    this.#file = openSync(path, 'a');
  }

  /** Work without a charge yet, oldest first. */
  unfinished(): Unfinished[] {
    return [...this.#unfinished.values()];
  }

  /** Notes that work begins, and answers its id. */
  begin(target: string): bigint {
    const id = this.#lastId + 1n;
    this.#write({ id: id.toString(), what: 'begun', target });
    return id;
  }

  /** Notes that work is done and what it costs: from here on it will be charged, whatever stops. */
  done(id: bigint, costNanoUsd: bigint, latencyMs: number): void {
    this.#write({ id: id.toString(), what: 'done', costNanoUsd: costNanoUsd.toString(), latencyMs });
  }

  /** Notes that the gateway has charged the work, or holds nothing for it any more. */
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
