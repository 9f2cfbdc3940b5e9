import { freeMemory } from '../lib/own-memory.ts';

/**
 * Long texts of a large JSON body, such as images in base64, are cut out of it before it is parsed, and read from its bytes afterwards. Parsing would copy them three times on the parser's thread, and once more to
 * send them to the thread that answers.
 */

/** The bytes of a long text within a body. All are ASCII without escapes, so that they are the text. */
export interface TextRange {
  readonly from: number;
  readonly to: number;
}

/** Where a cut text belongs: the names and indexes that lead to it from the parsed value. */
export interface TextPlace {
  readonly path: readonly string[];
  /** The index of the text: first come the ranges, then the moved ones. */
  readonly text: number;
}

/** A body without its long texts. */
export interface CutBody {
  /** The JSON, with a short text in place of each long one. */
  readonly json: string;
  readonly texts: readonly TextRange[];
}

/** The bytes of a text that was parsed. They are moved to the other thread, where they become a text again: V8 would copy it, and keep that copy in its heap. */
export interface MovedText {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly encoding: 'latin1' | 'utf16le';
}

/** Shorter texts are not cut. */
const longBytes = 65_536;
/** How many bytes are searched at once. */
const searchedBytes = 65_536;
/** In texts longer than this, native code searches for the end. */
const shortBytes = 64;
/** How many bytes of texts are read in one turn of the event loop, which takes about a millisecond. */
const turnBytes = 1024 ** 2;
const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const beyondLatin = /[^\0-\xff]/;
const notPlain = /[^\x20-\x5b\x5d-\x7f]/;

/** Cuts the long texts out of a body, which must be UTF-8. `mark`: a secret that no body contains on purpose. Names are never cut. */
export function cutTexts(bytes: Buffer, mark: string): CutBody {
  const kept: string[] = [];
  const texts: TextRange[] = [];
  let keptFrom = 0;
  for (let open = bytes.indexOf(quote); open !== -1;) {
    const close = findClose(bytes, open + 1);
    if (close === -1) break;
    if (close - open > longBytes && !isName(bytes, close) && isPlain(bytes, open + 1, close)) {
      kept.push(bytes.toString('utf8', keptFrom, open + 1), standIn(mark, texts.length));
      texts.push({ from: open + 1, to: close });
      keptFrom = close;
    }
    open = bytes.indexOf(quote, close + 1);
  }
  kept.push(bytes.toString('utf8', keptFrom));
  return { json: kept.join(''), texts };
}

function standIn(mark: string, index: number): string {
  return `${mark}@${index}`;
}

/** Returns the index of the quote that ends the text whose bytes begin at `from`; -1 if there is none. */
function findClose(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length;) {
    for (const short = Math.min(at + shortBytes, bytes.length); at < short; at += 1) {
      if (bytes[at] === quote) return at;
      if (bytes[at] === backslash) at += 1;
    }
    const end = bytes.indexOf(quote, at);
    if (end === -1) return -1;
    let escapes = end;
    while (escapes > at && bytes[escapes - 1] === backslash) escapes -= 1;
    if ((end - escapes) % 2 === 0) return end;
    at = end + 1;
  }
  return -1;
}

/** Returns whether the text that ends at `close` is the name of a member. */
function isName(bytes: Buffer, close: number): boolean {
  let at = close + 1;
  while (at < bytes.length && (bytes[at] ?? 0) <= 0x20) at += 1;
  return bytes[at] === colon;
}

function isPlain(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += searchedBytes) {
    if (notPlain.test(bytes.toString('latin1', at, Math.min(at + searchedBytes, to)))) return false;
  }
  return true;
}

/** Takes the texts out of values that were parsed from a `CutBody`: those that were cut, and other long ones, which have escapes or characters beyond ASCII. */
export class TextTaker {
  readonly #start: string;
  readonly #cutCount: number;
  /** The long texts that were not cut, each once. */
  readonly #others: string[] = [];

  constructor({ texts }: CutBody, mark: string) {
    this.#start = standIn(mark, 0).slice(0, -1);
    this.#cutCount = texts.length;
  }

  /** Takes the texts out of a value, and returns it and where they belong; the others come after the cut ones. */
  take(value: unknown): { readonly value: unknown; readonly places: readonly TextPlace[] } {
    const places: TextPlace[] = [];
    const path: string[] = [];
    const look = (each: unknown): unknown => {
      if (typeof each === 'string') {
        const text = this.#find(each);
        if (text === undefined) return each;
        places.push({ path: [...path], text });
        return '';
      }
      if (typeof each !== 'object' || each === null) return each;
      for (const [name, member] of Object.entries(each)) {
        path.push(name);
        const left = look(member);
        if (left !== member) (each as Record<string, unknown>)[name] = left;
        path.pop();
      }
      return each;
    };
    return { value: look(value), places };
  }

  /** Returns the bytes of the texts that were not cut. */
  bytes(): MovedText[] {
    return this.#others.map(text => {
      const encoding = beyondLatin.test(text) ? 'utf16le' : 'latin1';
      const bytes = Buffer.allocUnsafeSlow(encoding === 'latin1' ? text.length : 2 * text.length);
      bytes.write(text, encoding);
      return { bytes, encoding };
    });
  }

  #find(text: string): number | undefined {
    if (text.startsWith(this.#start)) {
      const index = Number(text.slice(this.#start.length));
      if (index < this.#cutCount) return index;
    }
    if (text.length <= longBytes) return undefined;
    const found = this.#others.indexOf(text);
    return this.#cutCount + (found === -1 ? this.#others.push(text) - 1 : found);
  }
}

/** Reads the texts, in turns of the event loop; a text of tens of megabytes has a turn of its own. The memory of the moved ones is freed. */
export async function readTexts(
  body: Buffer,
  { ranges, moved }: { readonly ranges: readonly TextRange[]; readonly moved: readonly MovedText[] },
): Promise<string[]> {
  const texts: string[] = [];
  let read = 0;
  const beginReading = async (count: number): Promise<void> => {
    if (read > 0 && read + count > turnBytes) {
      read = 0;
      await new Promise(setImmediate);
    }
    read += count;
  };
  for (const { from, to } of ranges) {
    await beginReading(to - from);
    texts.push(body.toString('latin1', from, to));
  }
  for (const { bytes, encoding } of moved) {
    await beginReading(bytes.length);
    texts.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString(encoding));
    freeMemory(bytes);
  }
  return texts;
}

/** Puts the texts into their places. Returns the value, which is another one if it is a text itself. */
export function fillPlaces(value: unknown, places: readonly TextPlace[], texts: readonly string[]): unknown {
  for (const { path, text } of places) {
    const last = path.at(-1);
    if (last === undefined) return texts[text];
    let holder = value as Record<string, unknown>;
    for (const step of path.slice(0, -1)) holder = holder[step] as Record<string, unknown>;
    holder[last] = texts[text];
  }
  return value;
}
