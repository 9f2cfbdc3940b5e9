import { workerData } from 'node:worker_threads';
import { isStorageFailure, openForReading } from '../../lib/sqlite/database.ts';
import { serveCalls } from '../../lib/threads/serve-calls.ts';
import { ColumnStore, findColumnsFolder } from '../columns/column-store.ts';
import { prepareReads, type ReaderData, type ReadReply, type ReadRequest, type Reads } from './reads.ts';

/** Runs one read. */
function answer(reads: Reads, { name, args, sweptBy }: ReadRequest): ReadReply {
  try {
    if (sweptBy !== undefined && reads.needsSweep(sweptBy)) return { outcome: 'unswept' };
    const read = reads[name] as (...values: readonly unknown[]) => unknown;
    return { outcome: 'done', value: read(...args) };
  } catch (error) {
    const message = `${name}: ${error instanceof Error ? error.message : String(error)}`;
    return { outcome: isStorageFailure(error) ? 'storage' : 'failed', message };
  }
}

const { path, plans } = workerData as ReaderData;
const db = openForReading(path);
const reads = prepareReads(db, plans, new ColumnStore(findColumnsFolder(path)));
serveCalls<ReadRequest, ReadReply>({
  run(batch, post) {
    // Each reply is posted at once, so that it does not wait for the later reads of the batch.
    for (const request of batch) post('now', [answer(reads, request)]);
  },
  end: () => void db.close(),
});
