import { write, writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';

const standardError = 2;
const bufferCharacters = 15_360;
const flushEveryMs = 100;
/** The most characters that wait while standard error can't be written; further lines are lost. */
const waitingCharactersMax = 16 * 1024 ** 2;
/** How often and for how long the end of the process tries to write to a pipe that is full. */
const lastAttempts = { count: 100, everyMs: 20 } as const;

/**
 * Buffers lines for standard error. Pino's own stream is not used for that: it measures everything that waits at each line, a full disk makes it
 * throw, and at the end of the process it tries again without end if the reader is gone or the disk is full.
 */
export class LineBuffer implements DestinationStream {
  #lines: string[] = [];
  #characters = 0;
  /** Bytes of which no write is running, although they were taken from the lines. */
  #rest: Uint8Array = new Uint8Array();
  #isWriting = false;
  /** True if a line was written only in part. */
  #isCut = false;
  #lost = 0;
  #onRestored: ((lost: number) => void) | undefined;

  constructor() {
    process.on('exit', () => this.#writeRest());
    setInterval(() => this.#flush(), flushEveryMs).unref();
  }

  /** Calls `listener` whenever lines can be written again after some were lost, with their number. */
  onRestored(listener: (lost: number) => void): void {
    this.#onRestored = listener;
  }

  write(line: string): void {
    if (this.#characters >= waitingCharactersMax) {
      this.#lost += 1;
      return;
    }
    this.#lines.push(line);
    this.#characters += line.length;
    if (this.#characters >= bufferCharacters) this.#flush();
  }

  #flush(): void {
    if (this.#isWriting || this.#lines.length === 0) return;
    this.#isWriting = true;
    const count = this.#lines.length;
    this.#writeAll(this.#take(), count);
  }

  #take(): Uint8Array {
    const bytes = Buffer.from((this.#isCut ? '\n' : '') + this.#lines.join(''));
    this.#lines = [];
    this.#characters = 0;
    return bytes;
  }

  /** Writes the bytes of `count` lines. They are lost if that fails, unless only a pipe is full. */
  #writeAll(bytes: Uint8Array, count: number): void {
    write(standardError, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') {
        this.#rest = bytes;
        setTimeout(() => {
          this.#rest = new Uint8Array();
          this.#writeAll(bytes, count);
        }, flushEveryMs).unref();
        return;
      }
      const rest = bytes.subarray(error === null ? written : bytes.length);
      if (error === null && rest.length > 0) {
        this.#isCut = true;
        this.#writeAll(rest, count);
        return;
      }
      this.#isWriting = false;
      if (error === null) this.#noteWritten();
      else this.#lost += count;
    });
  }

  #noteWritten(): void {
    this.#isCut = false;
    const lost = this.#lost;
    this.#lost = 0;
    if (lost > 0) this.#onRestored?.(lost);
  }

  /** Writes what is left before the process ends. Gives up if that fails, or if a pipe stays full. */
  #writeRest(): void {
    let rest: Uint8Array = Buffer.concat([this.#rest, this.#take()]);
    for (let attempts = 0; rest.length > 0 && attempts < lastAttempts.count;) {
      try {
        rest = rest.subarray(writeSync(standardError, rest));
      } catch (thrown) {
        if (!(thrown instanceof Error && 'code' in thrown && thrown.code === 'EAGAIN')) return;
        attempts += 1;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lastAttempts.everyMs);
      }
    }
  }
}
