/** A thread that does the least that a durable ledger must: for each message it appends a page to a file, syncs it, and answers. */
import { fdatasyncSync, openSync, writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';

const file = openSync(String(workerData), 'a');
const page = Buffer.alloc(4096, 1);
parentPort?.on('message', (message: unknown) => {
  writeSync(file, page);
  fdatasyncSync(file);
  parentPort?.postMessage(message);
});
