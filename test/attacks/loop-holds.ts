import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const recorder = join(import.meta.dirname, 'record-holds.mjs');

/** How long a gateway's event loop is held by computing, measured inside it in CPU time of its main thread: the load of the machine does not count. */
export class LoopHolds {
  readonly #folder = mkdtempSync(join(tmpdir(), 'tollgate-holds-'));
  readonly #file = join(this.#folder, 'holds');

  constructor() {
    writeFileSync(this.#file, '');
  }

  /** The environment to start the gateway with. `options` are further options of Node.js. */
  environment(options = ''): Record<string, string> {
    return { NODE_OPTIONS: `${options} --import ${recorder}`.trim(), RECORD_HOLDS_FILE: this.#file };
  }

  /** Returns the longest hold in ms since `sinceMs` (Unix ms); 0 if none took 10 ms. Makes the gateway at `url` turn its event loop first. */
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
