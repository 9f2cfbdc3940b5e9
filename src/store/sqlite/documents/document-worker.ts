import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { LedgerStartError } from '../../../lib/sqlite/start-error.ts';
import { openForWriting } from '../../../lib/sqlite/database.ts';
import { migrate, readMigrations } from '../../../lib/sqlite/migrations.ts';
import { DocumentEngine, type NumberedCommand } from './document-engine.ts';

/** What the writer of documents is started with. */
export interface DocumentWriterData {
  readonly path: string;
  /** Of all bodies and chunks together. */
  readonly bytesMax: number;
  readonly nowMs: number;
}

/** What it says when it is ready, or why it can't be. */
export type DocumentWriterReady =
  | { readonly ready: true }
  | { readonly ready: false; readonly code: LedgerStartError['code'] | undefined; readonly message: string };

const batchMax = 1024;
const migrations = new URL('migrations/', import.meta.url);
/** How long nothing must have come before what has ended is tidied away. */
const quietMs = 200;

type Message = readonly NumberedCommand[] | 'close';

/** Serves batches until it is told to close: whatever waits, up to the most of a batch, is one transaction. */
function serve(port: MessagePort, data: DocumentWriterData): void {
  const db = openForWriting(data.path);
  // Times and counts of bytes are exact numbers; there is no money here.
  db.defaultSafeIntegers(false);
  db.pragma('wal_autocheckpoint = 1000');
  // What was deleted does not stay readable in the file.
  db.pragma('secure_delete = ON');
  migrate(db, readMigrations(migrations), data.nowMs, 'content file');
  const engine = new DocumentEngine(db, data.bytesMax);
  port.postMessage({ ready: true } satisfies DocumentWriterReady);

  let lastMs = data.nowMs;
  const tidy = (): void => {
    try {
      if (engine.tidy(lastMs)) quiet.refresh();
      // The log is emptied, so that what was deleted is not readable there either.
      else db.pragma('wal_checkpoint(TRUNCATE)');
    } catch {
      // A failing disk shows itself to the next command, which answers for it.
    }
  };
  const quiet = setTimeout(tidy, quietMs);
  const waiting: NumberedCommand[] = [];
  let closing = false;
  const take = (message: Message): void => {
    if (message === 'close') closing = true;
    else waiting.push(...message);
  };
  port.on('message', (first: Message) => {
    take(first);
    while (waiting.length > 0) {
      while (waiting.length < batchMax) {
        const more: { message: Message } | undefined = receiveMessageOnPort(port);
        if (more === undefined) break;
        take(more.message);
      }
      const batch = waiting.splice(0, batchMax);
      lastMs = batch.at(-1)?.nowMs ?? lastMs;
      port.postMessage(engine.run(batch));
    }
    quiet.refresh();
    if (!closing) return;
    clearTimeout(quiet);
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
    port.close();
  });
}

if (parentPort !== null) {
  try {
    serve(parentPort, workerData as DocumentWriterData);
  } catch (error) {
    const code = error instanceof LedgerStartError ? error.code : undefined;
    const message = error instanceof Error ? error.message : String(error);
    parentPort.postMessage({ ready: false, code, message } satisfies DocumentWriterReady);
    parentPort.close();
  }
}
