import { workerData } from 'node:worker_threads';
import { type Connection, mayLoseWrites, openForWriting } from '../../../lib/sqlite/database.ts';
import { checkpoint, logBytes, refuseDamaged, refusingDamage } from '../../../lib/sqlite/log-file.ts';
import { isStorageLost, StorageLost } from '../../../lib/sqlite/storage-lost.ts';
import { freeMemory } from '../../../lib/own-memory.ts';
import { migrate } from '../../../lib/sqlite/migrations.ts';
import { documentMigrations } from './document-migrations.ts';
import { serveCalls } from '../../../lib/threads/serve-calls.ts';
import type { SpaceMax } from './eviction.ts';
import { DocumentEngine, type DocumentReply, handedOver, type TimedCommand } from './document-engine.ts';

/** The data with which the writer of documents starts. */
export interface DocumentWriterData {
  readonly path: string;
  readonly max: SpaceMax;
  readonly nowMs: number;
  /** True to look for damage first, because an earlier process did not end properly. */
  readonly checksFile: boolean;
}

/** How long the writer must be idle before it removes expired documents. */
const quietMs = 200;
/** The size of the log at which it is moved into the file. */
const logBytesMax = 4 << 20;
const damageAdvice =
  'Restore it from a backup, or move it away: stored responses, answers of idempotency keys and image tasks are lost then, and no money.';

const { path, max, nowMs, checksFile } = workerData as DocumentWriterData;
const { db, engine } = refusingDamage(path, damageAdvice, open);

function open(): { db: Connection; engine: DocumentEngine } {
  const opened = openForWriting(path);
  // Numbers are enough for times and counts of bytes; there is no money here.
  opened.defaultSafeIntegers(false);
  // Deleted content must not stay readable in the file.
  opened.pragma('secure_delete = ON');
  if (checksFile) refuseDamaged(opened, path, damageAdvice);
  migrate(opened, documentMigrations(), nowMs, 'content file');
  return { db: opened, engine: new DocumentEngine(opened, max) };
}

/** Moves the log into the file. Throws only `StorageLost`: a full disk is noticed and reported by the next command. */
function emptyLog(): void {
  try {
    checkpoint(db, 'TRUNCATE');
  } catch (error) {
    if (isStorageLost(error)) throw error;
  }
}

let lastMs = nowMs;
const quiet = setTimeout(() => {
  try {
    if (engine.tidy(lastMs)) {
      quiet.refresh();
      return;
    }
  } catch (error) {
    if (mayLoseWrites(error)) throw new StorageLost(error);
  }
  // Deleted content must not be readable in the log either.
  emptyLog();
}, quietMs);
serveCalls<TimedCommand, DocumentReply>({
  run(batch, post) {
    lastMs = batch.at(-1)?.nowMs ?? lastMs;
    post('now', engine.run(batch));
    for (const { command } of batch) for (const content of handedOver(command)) freeMemory(content);
    if (logBytes(path) > logBytesMax) emptyLog();
    quiet.refresh();
  },
  end() {
    clearTimeout(quiet);
    checkpoint(db, 'TRUNCATE');
    db.close();
  },
});
