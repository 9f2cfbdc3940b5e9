import type * as o200kBase from 'gpt-tokenizer/encoding/o200k_base';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { estimateTokens } from './estimate.ts';
import { type InputSegment, inputSegments } from './input-segments.ts';
import { type TextKind, TextSample } from './text-kind.ts';

export { type TokenEstimate, estimateTokens } from './estimate.ts';

/** A run of whole code points and how many tokens spell it (more than one if a code point needs several). */
export interface TokenPiece {
  readonly text: string;
  readonly tokens: number;
}

/**
 * Counts and splits by the vocabulary o200k_base. Special tokens have no meaning here: `<|endoftext|>` is text like any other. Long runs without
 * a space are cut before they are merged, which keeps the time linear and makes the count up to 1 % too high there.
 */
export interface Tokenizer {
  count(text: string): number;
  /** The token ids. */
  encode(text: string): number[];
  /** The texts of the tokens: they concatenate to `text` exactly, and none holds half a code point. */
  split(text: string): string[];
  /** The same lazily, with the tokens of each. */
  pieces(text: string): Generator<TokenPiece>;
}

/** The most characters that are merged in one go. */
const windowLength = 512;
/**
 * The window if there is no safe cut: the merge is quadratic in the run, and 120 costs a third of 512. Digits are
 * tokens of three and one letter repeated of eight: a multiple of both cuts neither.
 */
const hardCutLength = 120;

/** Returns whether a character is visible and can't join the space after it: no token spans such a place. */
function endsWord(code: number): boolean {
  return (code > 32 && code < 127) || (code >= 0xc0 && code < 0x1680) || (code > 0x3000 && code < 0xfeff);
}

function isAsciiAlphanumeric(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

/** Returns whether the vocabulary's pattern always starts anew at `at`, so that a cut there changes no token. */
function isSafeCut(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  const before = text.charCodeAt(at - 1);
  return (code === 32 && endsWord(before)) || (code === 10 && isAsciiAlphanumeric(before));
}

function cutAfter(text: string, start: number): number {
  if (text.length - start <= windowLength) return text.length;
  for (let at = start + windowLength; at > start; at -= 1) if (isSafeCut(text, at)) return at;
  const end = start + hardCutLength;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last < 0xdc00 ? end + 1 : end;
}

/**
 * Cuts a text into runs of at most 512 characters that are tokenized one by one. Texts with the same beginning have
 * the same runs, up to the last 512 characters that they share.
 */
export function* tokenRuns(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = cutAfter(text, start);
    yield text.slice(start, end);
    start = end;
  }
}

type Encoding = typeof o200kBase;
/** A token's spelling by its id: text, or bytes if it is not a whole code point. */
type Spellings = readonly (string | readonly number[])[];

/** Every text is plain: without this the package throws at the spelling of a special token. */
const plainText = { disallowedSpecial: new Set<string>() };

function utf8Length(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}

/** Walks ids and text in parallel, byte by byte, because a token may end inside a code point. */
function* spell(run: string, ids: readonly number[], spellings: Spellings): Generator<TokenPiece> {
  let start = 0;
  let end = 0;
  let tokens = 0;
  let bytesLeft = 0;
  for (const id of ids) {
    const spelling = spellings[id] ?? '';
    tokens += 1;
    if (typeof spelling === 'string' && bytesLeft === 0) {
      end += spelling.length;
    } else {
      bytesLeft += typeof spelling === 'string' ? Buffer.byteLength(spelling) : spelling.length;
      for (;;) {
        const codePoint = run.codePointAt(end);
        if (codePoint === undefined || utf8Length(codePoint) > bytesLeft) break;
        bytesLeft -= utf8Length(codePoint);
        end += codePoint < 0x10000 ? 1 : 2;
      }
    }
    if (bytesLeft > 0 || end === start) continue;
    yield { text: run.slice(start, end), tokens };
    start = end;
    tokens = 0;
  }
}

function makeTokenizer(encoding: Encoding, spellings: Spellings): Tokenizer {
  const encodeRun = (run: string): number[] => encoding.encode(run, plainText);
  function* pieces(text: string): Generator<TokenPiece> {
    for (const run of tokenRuns(text)) yield* spell(run, encodeRun(run), spellings);
  }
  return {
    count(text) {
      let count = 0;
      for (const run of tokenRuns(text)) count += encoding.countTokens(run, plainText);
      return count;
    },
    encode(text) {
      const ids: number[] = [];
      for (const run of tokenRuns(text)) ids.push(...encodeRun(run));
      return ids;
    },
    split: text => Array.from(pieces(text), piece => piece.text),
    pieces,
  };
}

async function importTokenizer(): Promise<Tokenizer> {
  const [encoding, ranks] = await Promise.all([
    import('gpt-tokenizer/encoding/o200k_base'),
    import('gpt-tokenizer/bpeRanks/o200k_base'),
  ]);
  // The package would keep the last 100,000 words, each of which keeps the whole prompt that it is a slice of.
  encoding.setMergeCacheSize(0);
  loaded = makeTokenizer(encoding, ranks.default);
  return loaded;
}

let loading: Promise<Tokenizer> | undefined;
let loaded: Tokenizer | undefined;

/** Returns the tokenizer, loaded once on first use (120 ms and 40 MB that a start should not wait for). */
export function loadTokenizer(): Promise<Tokenizer> {
  loading ??= importTokenizer();
  return loading;
}

/** The tokenizer if it is loaded by now. */
export function loadedTokenizer(): Tokenizer | undefined {
  return loaded;
}

/**
 * Returns input tokens as the simulator bills them: each text by the tokenizer, and flat figures for the frame of a
 * message or a tool and for an image.
 */
export function countInput(request: GenerateRequest, tokenizer: Tokenizer): number {
  let count = 0;
  for (const segment of inputSegments(request)) count += tokenizer.count(segment.text) + segment.flatTokens;
  return count;
}

/** Bounds of a request's input tokens, made without the tokenizer: a few ns a character. */
export interface InputBounds {
  /** The lower bound: text alone, since images and files only have an upper bound. */
  readonly low: number;
  /**
   * The upper bound, for a hold. It includes what an upstream adds for its own tool prompt, but not what another
   * vocabulary than o200k_base needs more.
   */
  readonly high: number;
  /** It has parts that can't be counted here, which `high` does not cover. */
  readonly isSizeUnknown: boolean;
}

/** The bounds of a request's input, and its parts. */
export interface MeasuredInput extends InputBounds {
  readonly kind: TextKind;
  /** Upper bound without what an upstream may add for its tools. */
  readonly ownHigh: number;
  /** It has images, files or sound, whose tokens do not follow from text. */
  readonly hasMedia: boolean;
}

/** Characters that are measured in one go: about a millisecond. */
const pieceLength = 262_144;

/** A request's input, measured in pieces of about a millisecond each. */
class InputMeasure {
  readonly #request: GenerateRequest;
  readonly #segments: readonly InputSegment[];
  readonly #sample = new TextSample();
  #at = 0;
  /** The index in the segment's text at which the next piece begins. */
  #from = 0;
  #low = 0;
  #ownHigh = 0;
  #hasMedia = false;
  #isSizeUnknown = false;

  constructor(request: GenerateRequest) {
    this.#request = request;
    this.#segments = inputSegments(request);
  }

  /** Measures the next piece. Returns the result once the last one is measured. */
  next(): MeasuredInput | undefined {
    let left = pieceLength;
    for (; this.#at < this.#segments.length; this.#at += 1) {
      const segment = this.#segments[this.#at];
      if (segment === undefined) break;
      if (this.#from === 0) this.#begin(segment);
      const { text } = segment;
      while (this.#from < text.length) {
        if (left <= 0) return undefined;
        const piece = text.length <= pieceLength ? text : text.slice(this.#from, this.#from + pieceLength);
        const tokens = estimateTokens(piece);
        this.#low += tokens.low;
        this.#ownHigh += tokens.high;
        this.#from += piece.length;
        left -= piece.length;
      }
      this.#from = 0;
    }
    return this.#found();
  }

  #begin({ text, flatTokensMax, isSizeUnknown }: InputSegment): void {
    this.#sample.add(text);
    this.#ownHigh += flatTokensMax;
    this.#hasMedia ||= flatTokensMax > frameTokensMax;
    this.#isSizeUnknown ||= isSizeUnknown;
  }

  #found(): MeasuredInput {
    const high = this.#ownHigh + (this.#request.tools.length > 0 ? toolPromptTokens : 0);
    const { kind } = this.#sample;
    return {
      low: this.#low,
      high,
      isSizeUnknown: this.#isSizeUnknown,
      kind,
      ownHigh: this.#ownHigh,
      hasMedia: this.#hasMedia,
    };
  }
}

/** Returns the bounds of a request's input. One pass over its text. */
export function measureInput(request: GenerateRequest): MeasuredInput {
  const measure = new InputMeasure(request);
  for (;;) {
    const found = measure.next();
    if (found !== undefined) return found;
  }
}

/** Like `measureInput`, but yields to the event loop during a long input, so that other requests continue. */
export function measureInTurns(request: GenerateRequest): MeasuredInput | Promise<MeasuredInput> {
  const measure = new InputMeasure(request);
  return measure.next() ?? measureRest(measure);
}

/** Returns a lower bound of the tokens of texts, or any number above `max`; yields to the event loop during long texts. */
export async function leastTokensInTurns(texts: Iterable<string>, max: number): Promise<number> {
  let low = 0;
  let measured = 0;
  for (const text of texts) {
    for (let at = 0; at < text.length && low <= max; at += pieceLength) {
      const piece = text.slice(at, at + pieceLength);
      low += estimateTokens(piece).low;
      measured += piece.length;
      if (measured < pieceLength) continue;
      measured = 0;
      await new Promise(setImmediate);
    }
  }
  return low;
}

async function measureRest(measure: InputMeasure): Promise<MeasuredInput> {
  for (;;) {
    await new Promise(setImmediate);
    const found = measure.next();
    if (found !== undefined) return found;
  }
}

/** The frame of a message, a call or a tool takes fewer; the placeholder of an image or a file takes more. */
const frameTokensMax = 64;

/** Returns the upper bound of a request's input tokens alone. */
export function estimateInput(request: GenerateRequest): number {
  return measureInput(request).high;
}

/** Anthropic's own tool prompt, the longest known: 346 tokens (platform.claude.com, tool use pricing, 2026-11). */
const toolPromptTokens = 350;
