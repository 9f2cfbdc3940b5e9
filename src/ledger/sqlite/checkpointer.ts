import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { checkpoint } from '../../lib/sqlite/log-file.ts';
import { isStorageLost } from '../../lib/sqlite/storage-lost.ts';
import { lowerOwnPriority } from '../../lib/threads/thread-priority.ts';
import { LogState } from './log-state.ts';

/** The data that the checkpointer starts with. */
export interface CheckpointerData {
  readonly path: string;
  /** The memory of a `LogState`. As long as its number of commits does not change, no checkpoint is made. */
  readonly log: SharedArrayBuffer;
}

/** A checkpoint syncs log and file, and the first commit after it syncs the log again, so that requests wait longer around each. A longer interval lets the log grow at full load until the writer makes checkpoints itself (`LogState`). */
const intervalMs = 1000;

/**
 * Moves committed pages from the log into the file, so that the writer need not do it. A PASSIVE checkpoint waits for no one and blocks no one;
 * pages that can't be moved now are moved the next time. The thread ends if a checkpoint throws `StorageLost`.
 */
function serve({ path, log: memory }: CheckpointerData): void {
  lowerOwnPriority();
  const db = new Database(path, { timeout: 0 });
  db.pragma('synchronous = FULL');
  const log = new LogState(memory);
  let seen = -1;
  const timer = setInterval(() => {
    const now = log.commits;
    if (now === seen) return;
    seen = now;
    try {
      log.pages = checkpoint(db, 'PASSIVE').pages;
    } catch (error) {
      // If the log is long, the writer also makes checkpoints, and one that fails ends the writer's thread. It does not if the log seems empty.
      log.pages = 0;
      if (isStorageLost(error)) throw error;
      // The writer notices and reports a full disk. The next round tries again.
      seen = -1;
    }
  }, intervalMs);
  parentPort?.on('message', () => {
    clearInterval(timer);
    db.close();
    parentPort?.close();
  });
}

if (parentPort !== null) serve(workerData as CheckpointerData);
