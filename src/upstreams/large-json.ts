import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Json, JsonObject } from '../codecs/codec.ts';
import { restoreExact } from '../lib/exact-json.ts';

/** Bodies with more characters than this are written in several turns of the event loop. */
const largeLength = 1024 ** 2;
/** How many characters are written at once, which takes less than a millisecond. */
const sliceLength = 262_144;
/** How many bytes are copied at once. */
const copyBytes = 4 * 1024 ** 2;
/** The character with which a mark of `parseExact` begins. A text that begins with it is not split. */
const markCode = 0xf8ff;

/** Returns whether the texts and names of a body are so long that it should be written in several turns of the event loop. */
export function isLargeJson(body: JsonObject): boolean {
  return countUpTo(body, largeLength) > largeLength;
}

/** Returns the length of all texts and names of a value; if that is above `max`, some number above `max`. */
function countUpTo(value: Json | undefined, max: number): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 1;
  let count = 0;
  if (Array.isArray(value)) {
    for (const entry of value) {
      count += countUpTo(entry, max - count);
      if (count > max) break;
    }
    return count;
  }
  for (const name of Object.keys(value)) {
    count += name.length + countUpTo(value[name], max - count);
    if (count > max) break;
  }
  return count;
}

/**
 * Writes a value as well-formed JSON, in turns of the event loop that take about a millisecond each. Objects for which `isSealed` returns true are written unchanged, with everything in them.
 */
export async function writeInTurns(value: JsonObject, isSealed: (object: JsonObject) => boolean): Promise<Buffer> {
  const written: Buffer[] = [];
  let waiting = '';
  const flush = (): void => {
    written.push(Buffer.from(waiting));
    waiting = '';
  };
  for (const piece of pieces(value, isSealed, false)) {
    waiting += piece;
    if (waiting.length < sliceLength) continue;
    flush();
    await nextTurn();
  }
  flush();
  return joinInTurns(written);
}

/** Yields the JSON of a value, piece by piece. */
function* pieces(value: Json, isSealed: (object: JsonObject) => boolean, sealed: boolean): Generator<string> {
  if (typeof value === 'string') yield* textPieces(value, sealed);
  else if (Array.isArray(value)) {
    for (const [at, entry] of value.entries()) {
      yield at === 0 ? '[' : ',';
      yield* pieces(entry, isSealed, sealed);
    }
    yield value.length === 0 ? '[]' : ']';
  } else if (typeof value === 'object' && value !== null) {
    const within = sealed || isSealed(value);
    let separator = '{';
    for (const [name, member] of Object.entries(value)) {
      if (member === undefined) continue;
      yield separator;
      separator = ',';
      yield* textPieces(name, within);
      yield ':';
      yield* pieces(member, isSealed, within);
    }
    yield separator === '{' ? '{}' : '}';
  } else yield JSON.stringify(value ?? null);
}

/** Yields a text as JSON; long texts in slices that split no surrogate pair. */
function* textPieces(text: string, sealed: boolean): Generator<string> {
  if (text.length <= sliceLength || text.charCodeAt(0) === markCode) {
    yield restoreExact(JSON.stringify(sealed ? text : text.toWellFormed()));
    return;
  }
  yield '"';
  for (let at = 0; at < text.length;) {
    const last = text.charCodeAt(at + sliceLength - 1);
    const end = at + sliceLength + (last >= 0xd800 && last < 0xdc00 ? 1 : 0);
    const slice = text.slice(at, end);
    yield JSON.stringify(sealed ? slice : slice.toWellFormed()).slice(1, -1);
    at = end;
  }
  yield '"';
}

async function joinInTurns(parts: readonly Buffer[]): Promise<Buffer> {
  const joined = Buffer.allocUnsafeSlow(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  let copied = 0;
  for (const part of parts) {
    at += part.copy(joined, at);
    copied += part.length;
    if (copied < copyBytes) continue;
    copied = 0;
    await nextTurn();
  }
  return joined;
}
