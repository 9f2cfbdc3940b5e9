import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** The most memory that the main process of a gateway may have under any attack, in bytes. Source: docs/security.md "Memory". */
export const peakBytesMax = 1.5 * 1024 ** 3;

/** Measures the most memory (RSS) that a process has had, as the kernel counts it. */
export class PeakMemory {
  readonly #pid: number;
  #earlier = 0;

  constructor(pid: number) {
    this.#pid = pid;
  }

  /** The most bytes since the start of the process. */
  get highest(): number {
    return Math.max(this.#earlier, this.recent);
  }

  /** The most bytes since the last `restart`. */
  get recent(): number {
    return this.#read('VmHWM');
  }

  /** Begins to measure anew. Returns the bytes that the process has now. */
  restart(): number {
    this.#earlier = this.highest;
    writeFileSync(`/proc/${this.#pid}/clear_refs`, '5');
    return this.#read('VmRSS');
  }

  #read(name: 'VmHWM' | 'VmRSS'): number {
    const status = readFileSync(`/proc/${this.#pid}/status`, 'utf8');
    return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) * 1024;
  }
}

/** Adds the last test of a file of attacks: whatever they were, the gateway has never had too much memory. */
export function testPeak(gateway: { readonly pid: number }, peak = new PeakMemory(gateway.pid)): void {
  test('the gateway has had at most 1.5 GiB of memory', () => {
    if (process.env['ATTACK_SHOW'] !== undefined) console.log('peak', peak.highest);
    expect(peak.highest).toBeLessThan(peakBytesMax);
  });
}
