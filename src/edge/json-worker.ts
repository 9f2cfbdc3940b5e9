import { isUtf8 } from 'node:buffer';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import { markExact, mayLose } from '../lib/exact-json.ts';
import { freeMemory } from '../lib/own-memory.ts';
import { hashBody } from './body-hash.ts';
import { type CutBody, cutTexts, TextTaker } from './cut-texts.ts';
import { type ParseReply, type ParseRest, type ParseTask, restRequest } from './json-parser.ts';
import { type BoundedText, findExceeded, parseJson, parseText } from './json-text.ts';

/** The parser's thread: joins and parses large bodies, one after the other. It returns the bytes too, because their memory was transferred to it. */

const mark = String(workerData);
/** If more bytes than this were parsed as a text, what they leave behind is collected at once. */
const collectedBytes = 4 * 1024 ** 2;
/** Collects the garbage of this thread. Nobody waits for it here; without it, V8 would keep several texts of tens of megabytes until more of them come. */
const collectGarbage = readCollector();
/** The second reply, kept until it is requested. */
let rest: ParseRest | undefined;

parentPort?.on('message', (task: ParseTask | typeof restRequest) => {
  if (task === restRequest) {
    parentPort?.postMessage(rest);
    rest = undefined;
    return;
  }
  const { reply, taker, isGarbage } = run(task);
  const post = (): void => {
    const moved = taker?.bytes() ?? [];
    const memory = [reply.bytes, ...moved.map(text => text.bytes)].map(({ buffer }) => buffer);
    parentPort?.postMessage({ ...reply, moved } satisfies ParseReply, memory);
  };
  if (!isGarbage) return post();
  // In later turns, in which no variable refers any more to the text that was parsed, and then to the ones in the reply.
  setImmediate(() => {
    collectGarbage();
    post();
    setImmediate(collectGarbage);
  });
});

/** The reply to a task, except for the texts that `taker` has. */
interface Result {
  readonly reply: Omit<ParseReply, 'moved'>;
  readonly taker: TextTaker | undefined;
  /** True if texts of megabytes are left behind. */
  readonly isGarbage: boolean;
}

function run({ chunks, bounds, comparedPath }: ParseTask): Result {
  rest = undefined;
  const bytes = join(chunks);
  const fingerprint = comparedPath === undefined ? undefined : hashBody(comparedPath, bytes);
  const facts = { bytes, fingerprint, ranges: [], places: [], isLossy: false };
  const exceeded = findExceeded(bytes, bounds);
  if (exceeded !== undefined) return { reply: { ...facts, parsed: { exceeded } }, taker: undefined, isGarbage: false };
  const cut = isUtf8(bytes) ? cutTexts(bytes, mark) : undefined;
  const parsed = parse(bytes, cut);
  const isGarbage = cut === undefined || cut.json.length > collectedBytes || 'problem' in parsed;
  if (cut === undefined || !('value' in parsed)) return { reply: { ...facts, parsed }, taker: undefined, isGarbage };
  const taker = new TextTaker(cut, mark);
  const { value, places } = taker.take(parsed.value);
  if (mayLose(cut.json)) {
    const exact = taker.take(markExact(cut.json, mark));
    rest = { exact: exact.value, places: exact.places };
  }
  const isLossy = rest !== undefined;
  return { reply: { ...facts, parsed: { value }, ranges: cut.texts, places, isLossy }, taker, isGarbage };
}

function readCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  setFlagsFromString('--no-expose-gc');
  return () => {
    // V8 keeps the text in which a pattern was found last.
    /x/.test('x');
    collect();
  };
}

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
