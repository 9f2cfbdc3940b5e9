import { parentPort, workerData } from 'node:worker_threads';
import { markExact, mayLose } from '../lib/exact-json.ts';
import { hashBody } from './body-hash.ts';
import { type ParseReply, type ParseRest, type ParseTask, restRequest } from './json-parser.ts';
import { parseWithin } from './json-text.ts';

/** The parser's thread: joins and parses large bodies, one after the other. It returns the bytes too, because their memory was transferred to it. */

/** The second reply, kept until it is requested. */
let rest: ParseRest | undefined;

parentPort?.on('message', (task: ParseTask | typeof restRequest) => {
  if (task === restRequest) {
    parentPort?.postMessage(rest);
    rest = undefined;
    return;
  }
  const { chunks, bounds, comparedPath } = task;
  const bytes = Buffer.concat(chunks);
  const fingerprint = comparedPath === undefined ? undefined : hashBody(comparedPath, bytes);
  const parsed = parseWithin(bytes, bounds);
  rest = 'value' in parsed ? readRest(bytes.toString('utf8')) : undefined;
  const reply: ParseReply = [parsed, bytes, fingerprint, rest !== undefined];
  parentPort?.postMessage(reply, [bytes.buffer]);
});

function readRest(text: string): ParseRest | undefined {
  return mayLose(text) ? { exact: markExact(text, String(workerData)) } : undefined;
}
