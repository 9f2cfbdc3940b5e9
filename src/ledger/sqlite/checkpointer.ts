import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';

/** What the checkpointer is started with. */
export interface CheckpointerData {
  readonly path: string;
  /** Counts the writer's commits: nothing is done while it stands still. */
  readonly commits: SharedArrayBuffer;
}

const intervalMs = 50;

/**
 * Moves committed pages from the log into the file, so that the writer never has to. PASSIVE waits for nobody and blocks nobody; what it can't
 * move now it moves the next time.
 */
function serve({ path, commits }: CheckpointerData): void {
  const db = new Database(path, { timeout: 0 });
  db.pragma('synchronous = FULL');
  const count = new Int32Array(commits);
  let seen = -1;
  const timer = setInterval(() => {
    const now = Atomics.load(count, 0);
    if (now === seen) return;
    seen = now;
    try {
      db.pragma('wal_checkpoint(PASSIVE)');
    } catch {
      // A failing disk shows itself to the writer, which answers for it; the next round tries again.
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
