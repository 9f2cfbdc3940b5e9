import { chmodSync, closeSync, fsyncSync, openSync } from 'node:fs';
import Database from 'better-sqlite3';
import { type Connection, openForReading } from './database.ts';

/** How often to try to begin reading several files at the same moment. A writer commits every few ms, and an attempt takes a tenth of a ms. */
const attemptsMax = 10_000;
/** How many pages of 4 KiB are copied before other work gets its turn. */
const pagesPerStep = 2_000;

/**
 * A snapshot of several databases at one moment, while others may write. As long as it is open, their logs can't be reset, so
 * close it soon.
 */
export class Snapshot {
  readonly #connections: ReadonlyMap<string, Connection>;

  /** Opens the files, read-only. Throws SQLite's error, or an error if no common moment was found. */
  constructor(paths: readonly string[]) {
    const connections = new Map<string, Connection>();
    const watchers: Connection[] = [];
    this.#connections = connections;
    try {
      for (const path of paths) {
        connections.set(path, openForReading(path));
        watchers.push(openForReading(path));
      }
      beginAtOneMoment([...connections.values()], watchers);
    } catch (error) {
      this.close();
      throw error;
    } finally {
      for (const watcher of watchers) watcher.close();
    }
  }

  /** Copies one of the files to a new file (mode 0600) without a log, which is on the disk when the promise resolves. Throws if the copy is damaged. */
  async copy(path: string, target: string): Promise<void> {
    const connection = this.#connections.get(path);
    if (connection === undefined) throw new Error(`${path} is not a file of the snapshot`);
    // The file is created first, because SQLite would make it readable for others.
    closeSync(openSync(target, 'wx', 0o600));
    await connection.backup(target, { progress: () => pagesPerStep });
    finishCopy(target);
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close();
  }
}

/** Begins to read all files, so that nothing was committed to any of them between the first and the last. */
function beginAtOneMoment(connections: readonly Connection[], watchers: readonly Connection[]): void {
  const versions = (): string => watchers.map(each => String(each.pragma('data_version', { simple: true }))).join(' ');
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const before = versions();
    for (const each of connections) {
      each.exec('BEGIN');
      // The first read fixes the moment that the transaction sees.
      each.prepare('SELECT count(*) FROM sqlite_schema').get();
    }
    if (versions() === before) return;
    for (const each of connections) each.exec('ROLLBACK');
  }
  throw new Error(`The databases changed in each of ${attemptsMax} attempts to read them at one moment. Try again.`);
}

/** Makes a copy independent of a log, checks it and syncs it. Throws if SQLite finds it damaged. */
function finishCopy(path: string): void {
  const db = new Database(path, { fileMustExist: true });
  try {
    db.pragma('journal_mode = DELETE');
    const found = db.pragma('quick_check(1)', { simple: true });
    if (found !== 'ok') throw new Error(`${path} is damaged: ${String(found)}`);
  } finally {
    db.close();
  }
  chmodSync(path, 0o600);
  const file = openSync(path, 'r');
  fsyncSync(file);
  closeSync(file);
}
