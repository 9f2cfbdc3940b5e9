/** A gateway whose wall clock a test moves, also while it runs: libfaketime, where it is installed (Debian: `apt-get install faketime`). */
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';

/** Where Debian's package puts it. */
const library = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';

/** Whether a clock can be moved here. Where not, says so aloud: tests that are skipped in silence are not missed. */
export function canMoveClock(): boolean {
  const installed = existsSync(library);
  if (!installed) console.warn(`SKIPPED: tests of a running gateway with a moved clock; ${library} is not there`);
  return installed;
}

/** The environment of a process whose clock stands apart by that much, as "+25h". */
export function movedClock(offset: string): Readonly<Record<string, string>> {
  return { LD_PRELOAD: library, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
}

/** A clock that is set while a process runs; it goes on from where it was set. */
export class FakeClock {
  readonly #file = join(tmpdir(), `tollgate-clock-${randomUUID()}`);

  constructor(time: string) {
    this.set(time);
  }

  /** Of the processes that are to have it. */
  get environment(): Readonly<Record<string, string>> {
    const { FAKETIME: _, ...rest } = movedClock('');
    return { ...rest, FAKETIME_TIMESTAMP_FILE: this.#file, FAKETIME_NO_CACHE: '1' };
  }

  /** Sets it, as "2028-02-29T23:59:00Z": at once and for every process that has it. */
  set(time: string): void {
    const seconds = (Date.parse(time) - Date.now()) / 1000;
    // Whole: a process reads it whenever it looks at the clock.
    writeFileSync(`${this.#file}.next`, `${seconds < 0 ? '' : '+'}${seconds.toFixed(3)}`);
    renameSync(`${this.#file}.next`, this.#file);
  }

  remove(): void {
    rmSync(this.#file, { force: true });
  }
}
