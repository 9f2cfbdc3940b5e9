import { parentPort } from 'node:worker_threads';
import type { ParseTask, ParseReply } from './json-parser.ts';
import { parseWithin } from './json-text.ts';

/** Joins and parses large bodies, one after the other; the bytes are returned with the answer, because their memory was transferred to this thread. */

parentPort?.on('message', ({ chunks, bounds }: ParseTask) => {
  const bytes = Buffer.concat(chunks);
  const reply: ParseReply = [parseWithin(bytes, bounds), bytes];
  parentPort?.postMessage(reply, [bytes.buffer]);
});
