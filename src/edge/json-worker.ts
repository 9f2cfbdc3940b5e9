import { parentPort } from 'node:worker_threads';
import type { ParseTask, ParseReply } from './json-parser.ts';
import { hashBody } from './body-hash.ts';
import { parseWithin } from './json-text.ts';

/** Joins and parses large bodies, one after the other; the bytes go back with the answer, because their memory has moved here. */

parentPort?.on('message', ({ chunks, bounds, comparedPath }: ParseTask) => {
  const bytes = Buffer.concat(chunks);
  const fingerprint = comparedPath === undefined ? undefined : hashBody(comparedPath, bytes);
  const reply: ParseReply = [parseWithin(bytes, bounds), bytes, fingerprint];
  parentPort?.postMessage(reply, [bytes.buffer]);
});
