import { closeSync, fdatasync, openSync } from 'node:fs';

/**
 * Syncs the log of a WAL file, to make commits with `synchronous = NORMAL` durable: such a commit has written its frames to the kernel,
 * which keeps them if the process is killed, and SQLite itself syncs where the order of writes matters (a new log's header, checkpoints).
 * One sync at a time, off this thread; it covers every commit before its start.
 */
export class WalSync {
  readonly #log: number;
  /** The next sync's callers. */
  #waiting: ((error: Error | null) => void)[] = [];
  #isSyncing = false;

  /** `path`: the database, whose log must exist. */
  constructor(path: string) {
    this.#log = openSync(`${path}-wal`, 'r+');
  }

  /** Calls back when everything committed so far is on the disk, or could not be written there. */
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
