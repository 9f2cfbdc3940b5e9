import { workerData } from 'node:worker_threads';
import { openForWriting } from '../../../lib/sqlite/database.ts';
import { migrate, readMigrations } from '../../../lib/sqlite/migrations.ts';
import { serveCalls } from '../../../lib/threads/serve-calls.ts';
import { DocumentEngine, type DocumentReply, type TimedCommand } from './document-engine.ts';

/** What the writer of documents is started with. */
export interface DocumentWriterData {
  readonly path: string;
  /** Of all bodies and chunks together. */
  readonly bytesMax: number;
  readonly nowMs: number;
}

/** How long nothing must have come before what has ended is tidied away. */
const quietMs = 200;

const { path, bytesMax, nowMs } = workerData as DocumentWriterData;
const db = openForWriting(path);
// Times and counts of bytes are exact numbers; there is no money here.
db.defaultSafeIntegers(false);
db.pragma('wal_autocheckpoint = 1000');
// What was deleted does not stay readable in the file.
db.pragma('secure_delete = ON');
migrate(db, readMigrations(new URL('migrations/', import.meta.url)), nowMs, 'content file');
const engine = new DocumentEngine(db, bytesMax);

let lastMs = nowMs;
const quiet = setTimeout(() => {
  try {
    if (engine.tidy(lastMs)) quiet.refresh();
    // The log is emptied, so that what was deleted is not readable there either.
    else db.pragma('wal_checkpoint(TRUNCATE)');
  } catch {
    // A failing disk shows itself to the next command, which answers for it.
  }
}, quietMs);
serveCalls<TimedCommand, DocumentReply>({
  run(batch, post) {
    lastMs = batch.at(-1)?.nowMs ?? lastMs;
    post('now', engine.run(batch));
    quiet.refresh();
  },
  end() {
    clearTimeout(quiet);
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
  },
});
