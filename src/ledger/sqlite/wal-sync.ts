import { closeSync, fdatasync, openSync } from 'node:fs';

/**
 * Syncs the log of a WAL file, to make durable what was committed with `synchronous = NORMAL`: such a commit has written its frames to the kernel, which
 * a killed process does not lose, and SQLite itself syncs wherever the order of writes matters (a new log's header, checkpoints). One sync at a time, off
 * this thread; it covers every commit before its start.
 */
export class WalSync {
  readonly #log: number;
  /** The next sync's callers. */
  #waiting: ((error: Error | null) => void)[] = [];
  #isSyncing = false;

  /** `path`: of the database, whose log must be there. */
  constructor(path: string) {
    this.#log = openSync(`${path}-wal`, 'r+');
  }

  /** Calls back when everything that is committed by now is on the disk, or could not be brought there. */
  run(onSynced: (error: Error | null) => void): void {
    this.#waiting.push(onSynced);
    if (!this.#isSyncing) this.#start();
  }

  close(): void {
    closeSync(this.#log);
  }

  #start(): void {
    const covered = this.#waiting;
    this.#waiting = [];
    this.#isSyncing = true;
    fdatasync(this.#log, error => {
      this.#isSyncing = false;
      for (const onSynced of covered) onSynced(error);
      if (this.#waiting.length > 0) this.#start();
    });
  }
}
