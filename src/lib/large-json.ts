import { setImmediate as nextTurn } from 'node:timers/promises';
import { restoreExact } from './exact-json.ts';

/** Bodies with more characters than this are written in several turns of the event loop. */
const largeLength = 1024 ** 2;
/** How many characters are written at once, which takes less than a millisecond. */
const sliceLength = 262_144;
/** The character with which a mark of `parseExact` begins. A text that begins with it is not split. */
const markCode = 0xf8ff;

/** Accepts objects that are written as they are, with all that is in them; in others, half a surrogate pair becomes U+FFFD. */
export type SealedObjects = (object: object) => boolean;

/** Returns whether the texts and names of a JSON value are so long that it should be written in several turns of the event loop. */
export function isLargeJson(value: unknown): boolean {
  return countUpTo(value, largeLength) > largeLength;
}

/** Returns the length of all texts and names of a value; if that is above `max`, some number above `max`. */
function countUpTo(value: unknown, max: number): number {
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
  const members = value as Readonly<Record<string, unknown>>;
  for (const name in members) {
    count += name.length + countUpTo(members[name], max - count);
    if (count > max) break;
  }
  return count;
}

/**
 * Writes a JSON value in turns of the event loop of about a millisecond each. Marks of `parseExact` are replaced with their content. Members
 * that are undefined are left out.
 */
export async function writeInTurns(value: unknown, isSealed: SealedObjects): Promise<Buffer> {
  const json = await LargeJson.measure(value, isSealed);
  const written = Buffer.allocUnsafeSlow(json.length);
  let at = 0;
  for await (const slice of json.slices()) at += slice.copy(written, at);
  return written;
}

/** A JSON value of megabytes that is written while it is sent, as `writeInTurns` writes it: never is all of it in memory. The value must not change meanwhile. */
export class LargeJson {
  readonly #value: unknown;
  readonly #isSealed: SealedObjects;
  /** In bytes. */
  readonly length: number;

  private constructor(value: unknown, isSealed: SealedObjects, length: number) {
    this.#value = value;
    this.#isSealed = isSealed;
    this.length = length;
  }

  /** Measures a value, in turns of the event loop. */
  static async measure(value: unknown, isSealed: SealedObjects): Promise<LargeJson> {
    let length = 0;
    let waiting = 0;
    for (const piece of pieces(value, isSealed, false)) {
      length += Buffer.byteLength(piece);
      waiting += piece.length;
      if (waiting < sliceLength) continue;
      waiting = 0;
      await nextTurn();
    }
    return new LargeJson(value, isSealed, length);
  }

  /** Yields the JSON in slices, each in a turn of the event loop; every call begins from the start. */
  async *slices(): AsyncGenerator<Buffer, void, undefined> {
    let waiting = '';
    for (const piece of pieces(this.#value, this.#isSealed, false)) {
      waiting += piece;
      if (waiting.length < sliceLength) continue;
      yield Buffer.from(waiting);
      waiting = '';
      await nextTurn();
    }
    if (waiting !== '') yield Buffer.from(waiting);
  }
}

/** Yields the JSON of a value, piece by piece. */
function* pieces(value: unknown, isSealed: SealedObjects, sealed: boolean): Generator<string> {
  if (typeof value === 'string') yield* textPieces(value, sealed);
  else if (Array.isArray(value)) {
    for (const [at, entry] of (value as unknown[]).entries()) {
      yield at === 0 ? '[' : ',';
      yield* pieces(entry, isSealed, sealed);
    }
    yield value.length === 0 ? '[]' : ']';
  } else if (typeof value === 'object' && value !== null) {
    const within = sealed || isSealed(value);
    let separator = '{';
    for (const [name, member] of Object.entries(value) as [string, unknown][]) {
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
