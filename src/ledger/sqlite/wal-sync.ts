import { closeSync, fdatasync, openSync } from 'node:fs';

/**
 * Syncs the write-ahead log of a database, to make commits with `synchronous = NORMAL` durable. Such a commit has only been handed to the
 * operating system, which keeps it if the process is killed. SQLite itself syncs where the order of writes matters (header of a new log,
 * checkpoints). Only one sync runs at a time, on another thread; it covers every commit before its start.
 */
export class WalSync {
  readonly #log: number;
  /** The callbacks of the next sync. */
  #waiting: ((error: Error | null) => void)[] = [];
  #isSyncing = false;

  /** `path`: the database, whose log must exist. */
  constructor(path: string) {
    this.#log = openSync(`${path}-wal`, 'r+');
  }

  /** Calls back when everything that has been committed so far is on the disk, or with the error if it could not be written. */
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
