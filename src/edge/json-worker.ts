import { parentPort } from 'node:worker_threads';
import { parseText } from './json-text.ts';

/** Parses large bodies, one after the other; the bytes go back with the answer, because their memory has moved here. */

parentPort?.on('message', (bytes: Uint8Array<ArrayBuffer>) => {
  const parsed = parseText(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
  parentPort?.postMessage([parsed, bytes], [bytes.buffer]);
});
