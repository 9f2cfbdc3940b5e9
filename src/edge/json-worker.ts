import { isUtf8 } from 'node:buffer';
import { parentPort, workerData } from 'node:worker_threads';
import { markExact, mayLose } from '../lib/exact-json.ts';
import { freeMemory } from '../lib/own-memory.ts';
import { hashBody } from './body-hash.ts';
import { type CutBody, cutTexts, findPlaces } from './cut-texts.ts';
import { type ParseReply, type ParseRest, type ParseTask, restRequest } from './json-parser.ts';
import { type BoundedText, findExceeded, parseJson, parseText } from './json-text.ts';

/** The parser's thread: joins and parses large bodies, one after the other. It returns the bytes too, because their memory was transferred to it. */

const mark = String(workerData);
/** The second reply, kept until it is requested. */
let rest: ParseRest | undefined;

parentPort?.on('message', (task: ParseTask | typeof restRequest) => {
  if (task === restRequest) {
    parentPort?.postMessage(rest);
    rest = undefined;
    return;
  }
  const { chunks, bounds, comparedPath } = task;
  const bytes = join(chunks);
  const fingerprint = comparedPath === undefined ? undefined : hashBody(comparedPath, bytes);
  const exceeded = findExceeded(bytes, bounds);
  const cut = exceeded === undefined && isUtf8(bytes) ? cutTexts(bytes, mark) : undefined;
  const parsed = exceeded === undefined ? parse(bytes, cut) : { exceeded };
  rest = cut !== undefined && 'value' in parsed ? readRest(cut) : undefined;
  const texts = { ranges: cut?.texts ?? [], places: findCut(parsed, cut) };
  const reply: ParseReply = [parsed, bytes, fingerprint, texts, rest !== undefined];
  parentPort?.postMessage(reply, [bytes.buffer]);
});

function join(chunks: readonly Uint8Array<ArrayBuffer>[]): Buffer<ArrayBuffer> {
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) return Buffer.from(first.buffer, first.byteOffset, first.length);
  const bytes = Buffer.allocUnsafeSlow(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
    freeMemory(chunk);
  }
  return bytes;
}

/** Parses a body. If it is not JSON, the whole of it is parsed, because the error names a position in it. */
function parse(bytes: Buffer, cut: CutBody | undefined): BoundedText {
  const parsed = cut && parseJson(cut.json);
  return parsed === undefined || ('problem' in parsed && cut !== undefined && cut.texts.length > 0)
    ? parseText(bytes)
    : parsed;
}

function findCut(parsed: BoundedText, cut: CutBody | undefined): ParseRest['places'] {
  return 'value' in parsed && cut !== undefined && cut.texts.length > 0 ? findPlaces(parsed.value, mark) : [];
}

function readRest({ json, texts }: CutBody): ParseRest | undefined {
  if (!mayLose(json)) return undefined;
  const exact = markExact(json, mark);
  return { exact, places: texts.length === 0 ? [] : findPlaces(exact, mark) };
}
