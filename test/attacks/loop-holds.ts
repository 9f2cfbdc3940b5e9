import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const recorder = join(import.meta.dirname, 'record-holds.mjs');

/** Measures how long computing blocks a gateway's event loop. It is measured inside the gateway, in CPU time of its main thread, so that the load of the machine does not count. */
export class LoopHolds {
  readonly #folder = mkdtempSync(join(tmpdir(), 'tollgate-holds-'));
  readonly #file = join(this.#folder, 'holds');

  constructor() {
    writeFileSync(this.#file, '');
  }

  /** Returns the environment with which to start the gateway. `options`: further options of Node.js. */
  environment(options = ''): Record<string, string> {
    return { NODE_OPTIONS: `${options} --import ${recorder}`.trim(), RECORD_HOLDS_FILE: this.#file };
  }

  /** Returns the longest time in ms that the event loop was blocked since `sinceMs` (Unix ms); 0 if it was less than 10 ms. First makes the gateway at `url` turn its event loop. */
  async longest(url: string, sinceMs: number): Promise<number> {
    await (await fetch(`${url}/healthz`)).text();
    const holds = readFileSync(this.#file, 'utf8').split('\n').slice(0, -1);
    const since = holds.map(line => line.split(' ').map(Number)).filter(([endedMs = 0]) => endedMs >= sinceMs);
    return Math.max(0, ...since.map(([, heldMs = 0]) => heldMs));
  }

  /** Deletes the record. */
  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}

/**
 * Returns the least of up to three measurements, in ms; measures again only if a result is not below `maxMs`. What the code itself computes in one turn is in each of them; a collection of the whole
 * heap, which V8 puts into some turn, is not.
 */
export async function leastHold(maxMs: number, measure: () => Promise<number>): Promise<number> {
  let leastMs = await measure();
  for (let tries = 1; tries < 3 && leastMs >= maxMs; tries += 1) leastMs = Math.min(leastMs, await measure());
  return leastMs;
}
