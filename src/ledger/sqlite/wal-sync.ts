import { closeSync, fdatasync, openSync } from 'node:fs';

/**
 * Syncs the write-ahead log of a database, to make commits with `synchronous = NORMAL` durable. Such a commit has only been handed to the
 * operating system, which keeps it if the process is killed. SQLite itself syncs where the order of writes matters (header of a new log,
 * checkpoints).
 */
export class WalSync {
  readonly #log: number;

  /** `path`: the database, whose log must exist. */
  constructor(path: string) {
    this.#log = openSync(`${path}-wal`, 'r+');
  }

  /** Calls back when everything that has been committed so far is on the disk, or with the error if it could not be written. The sync runs on another thread. */
  run(onSynced: (error: Error | null) => void): void {
    fdatasync(this.#log, onSynced);
  }

  close(): void {
    closeSync(this.#log);
  }
}
