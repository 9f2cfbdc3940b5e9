import { workerData } from 'node:worker_threads';
import { openForReading, sqliteCode } from '../../../lib/sqlite/database.ts';
import { serveCalls } from '../../../lib/threads/serve-calls.ts';
import type { ContentName, ContentReply } from './content-reader.ts';
import { intactContent } from './rows.ts';

/** Reads large contents of documents and checks their sums; the bytes move to the thread that asked. */

interface StoredContent {
  readonly content: Uint8Array<ArrayBuffer>;
  readonly crc: number | null;
}

const db = openForReading(String(workerData));
db.defaultSafeIntegers(false);
const body = db.prepare<[number], StoredContent>('SELECT content, crc FROM body WHERE document = ?');
const chunk = db.prepare<[number, number], StoredContent>(
  'SELECT content, crc FROM chunk WHERE document = ? AND seq = ?',
);

function read({ row, seq, owner }: ContentName): ContentReply {
  try {
    const stored = seq === undefined ? body.get(row) : chunk.get(row, seq);
    return { content: stored === undefined ? undefined : intactContent(stored, owner) };
  } catch (error) {
    return { message: error instanceof Error ? error.message : String(error), code: sqliteCode(error) };
  }
}

serveCalls<ContentName, ContentReply>({
  run(batch, post) {
    // Each by itself: receiving many in one turn would hold up that thread.
    for (const name of batch) post('now', [read(name)]);
  },
  movedMemory: reply => ('content' in reply && reply.content !== undefined ? [reply.content.buffer] : []),
  end() {
    db.close();
  },
});
