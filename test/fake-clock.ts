/** A wall clock that a test moves, also while the gateway runs. */
import { randomUUID } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const preload = pathToFileURL(join(import.meta.dirname, 'moved-clock.mjs')).href;

/** A clock that is set while a process runs; it continues from the set time. */
export class FakeClock {
  readonly #file = join(tmpdir(), `tollgate-clock-${randomUUID()}`);

  /** `time`: for example "2028-02-29T23:59:00Z". */
  constructor(time: string) {
    this.set(time);
  }

  /** The environment variables of a process that uses the clock. */
  get environment(): Readonly<Record<string, string>> {
    return { NODE_OPTIONS: `--import=${preload}`, MOVED_CLOCK_FILE: this.#file };
  }

  /** Sets the clock at once for every process that uses it. `time`: for example "2028-02-29T23:59:00Z". */
  set(time: string): void {
    // Written atomically, because a process reads the file whenever it reads the clock.
    writeFileSync(`${this.#file}.next`, String(Date.parse(time) - Date.now()));
    renameSync(`${this.#file}.next`, this.#file);
  }

  remove(): void {
    rmSync(this.#file, { force: true });
  }
}

const minuteMs = 60_000;

/** Returns a clock that is `minutes` minutes ahead. */
export function clockAhead(minutes: number): FakeClock {
  return new FakeClock(new Date(Date.now() + minutes * minuteMs).toISOString());
}
