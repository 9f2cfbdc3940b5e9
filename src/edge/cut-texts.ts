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
  readonly path: readonly (string | number)[];
  /** The index of the text. */
  readonly text: number;
}

/** A body without its long texts. */
export interface CutBody {
  /** The JSON, with a short text in place of each long one. */
  readonly json: string;
  readonly texts: readonly TextRange[];
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

/** Returns where the cut texts belong in a value that was parsed from a `CutBody`. */
export function findPlaces(value: unknown, mark: string): TextPlace[] {
  const start = standIn(mark, 0).slice(0, -1);
  const places: TextPlace[] = [];
  const path: (string | number)[] = [];
  const look = (each: unknown): void => {
    if (typeof each === 'string') {
      if (each.startsWith(start)) places.push({ path: [...path], text: Number(each.slice(start.length)) });
    } else if (Array.isArray(each)) {
      for (const [index, entry] of each.entries()) lookInto(index, entry);
    } else if (typeof each === 'object' && each !== null) {
      for (const [name, member] of Object.entries(each)) lookInto(name, member);
    }
  };
  const lookInto = (step: string | number, each: unknown): void => {
    path.push(step);
    look(each);
    path.pop();
  };
  look(value);
  return places;
}

/** Reads the cut texts, in turns of the event loop; a text of tens of megabytes has a turn of its own. */
export async function readTexts(bytes: Buffer, ranges: readonly TextRange[]): Promise<string[]> {
  const texts: string[] = [];
  let read = 0;
  for (const { from, to } of ranges) {
    if (read + to - from > turnBytes && read > 0) {
      read = 0;
      await new Promise(setImmediate);
    }
    texts.push(bytes.toString('latin1', from, to));
    read += to - from;
  }
  return texts;
}

/** Puts the texts into their places. Returns the value, which is another one if it is a text itself. */
export function fillPlaces(value: unknown, places: readonly TextPlace[], texts: readonly string[]): unknown {
  for (const { path, text } of places) {
    const last = path.at(-1);
    if (last === undefined) return texts[text];
    let holder = value as Record<string | number, unknown>;
    for (const step of path.slice(0, -1)) holder = holder[step] as Record<string | number, unknown>;
    holder[last] = texts[text];
  }
  return value;
}
