import { readFileSync, writeFileSync } from 'node:fs';

const mebibyte = 1024 ** 2;
/** What the gateway may take at most under every attack, in bytes: 1.5 GB, with the heap that the start script, the unit and the image give it (docs/security.md "Memory"). */
export const peakBytesMax = 1.5 * 1024 * mebibyte;

/** Measures how much memory (RSS) a process has had at most, as the kernel counts it. */
export class PeakMemory {
  readonly #pid: number;
  #highest = 0;

  constructor(pid: number) {
    this.#pid = pid;
  }

  /** Returns the most bytes since the start of the process. */
  get highest(): number {
    this.#highest = Math.max(this.#highest, this.#read('VmHWM'));
    return this.#highest;
  }

  /** Returns the most bytes since the last `restart`. */
  get recent(): number {
    return this.#read('VmHWM');
  }

  /** Begins to measure the peak anew. Returns the bytes that the process has now. */
  restart(): number {
    this.#highest = this.highest;
    writeFileSync(`/proc/${this.#pid}/clear_refs`, '5');
    return this.#read('VmRSS');
  }

  #read(name: 'VmHWM' | 'VmRSS'): number {
    const status = readFileSync(`/proc/${this.#pid}/status`, 'utf8');
    return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) * 1024;
  }
}
