import { type CacheWrites, cacheWrites } from './price.ts';
import type * as o200kBase from 'gpt-tokenizer/encoding/o200k_base';
import { type CacheHint, CacheLifetime, Protocol } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { estimateTokens } from './estimate.ts';
import { type InputSegment, inputSegments } from './input-segments.ts';
import { type TextKind, TextSample } from './text-kind.ts';

export { type TokenEstimate, estimateTokens } from './estimate.ts';

/** A text of whole code points, and its number of tokens (more than one if a code point needs several tokens). */
export interface TokenPiece {
  readonly text: string;
  readonly tokens: number;
}

/**
 * Counts and splits texts with the vocabulary o200k_base. Special tokens are treated as plain text (`<|endoftext|>`). Long runs without a space are cut before they are tokenized, which keeps the time linear and makes the count of such runs up to 1 % too high.
 */
export interface Tokenizer {
  count(text: string): number;
  /** The token ids. */
  encode(text: string): number[];
  /** Returns the texts of the tokens. They concatenate to exactly `text`, and none contains half a code point. */
  split(text: string): string[];
  /** Yields the same texts, each with its number of tokens. */
  pieces(text: string): Generator<TokenPiece>;
}

/** The most characters that are tokenized at once. */
const windowLength = 512;
/**
 * The most characters that are tokenized at once if there is no safe place to cut. The time is quadratic, and 120 characters take a third of the time of 512. Tokens have three digits, and eight of a repeated letter: a multiple of both numbers splits neither.
 */
const hardCutLength = 120;

/** Returns whether a character is visible and can't be in one token with a space after it. */
function endsWord(code: number): boolean {
  return (code > 32 && code < 127) || (code >= 0xc0 && code < 0x1680) || (code > 0x3000 && code < 0xfeff);
}

function isAsciiAlphanumeric(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

/** Returns whether a cut at `at` changes no token, because the vocabulary's pattern always begins a new match there. */
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
 * Cuts a text into runs of at most 512 characters, which are tokenized one by one. Two texts with a common beginning have the same runs, except in the last 512 characters of the common beginning.
 */
export function* tokenRuns(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = cutAfter(text, start);
    yield text.slice(start, end);
    start = end;
  }
}

type Encoding = typeof o200kBase;
/** The spelling of each token, by its id: a text, or bytes if it is not a whole code point. */
type Spellings = readonly (string | readonly number[])[];

/** Makes the package treat special tokens as plain text; otherwise it would throw. */
const plainText = { disallowedSpecial: new Set<string>() };

function utf8Length(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}

/** Reads the ids and the text in parallel, byte by byte, because a token may end inside a code point. */
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
  // Otherwise the package would cache the last 100,000 words, each of which keeps the whole prompt in memory, because it is a slice of it.
  encoding.setMergeCacheSize(0);
  loaded = makeTokenizer(encoding, ranks.default);
  return loaded;
}

let loading: Promise<Tokenizer> | undefined;
let loaded: Tokenizer | undefined;

/** Returns the tokenizer. It is loaded at the first call, because that takes 120 ms and 40 MB, which a start of the gateway should not need. */
export function loadTokenizer(): Promise<Tokenizer> {
  loading ??= importTokenizer();
  return loading;
}

/** Returns the tokenizer if it is already loaded; else undefined. */
export function loadedTokenizer(): Tokenizer | undefined {
  return loaded;
}

/**
 * Returns the input tokens of a request as the simulator counts them: texts by the tokenizer, and fixed numbers for what frames a message or a tool, and for an image.
 */
export function countInput(request: GenerateRequest, tokenizer: Tokenizer): number {
  let count = 0;
  for (const segment of inputSegments(request)) count += tokenizer.count(segment.text) + segment.flatTokens;
  return count;
}

/** Bounds of a request's input tokens. They are estimated without the tokenizer, which takes a few ns per character. */
export interface InputBounds {
  /** The lower bound, of texts only, because images and files have only an upper bound. */
  readonly low: number;
  /**
   * The upper bound, for a hold. It includes the prompt that an upstream adds for tools, but not the additional tokens that another vocabulary than o200k_base may need.
   */
  readonly high: number;
  /** True if there are parts that can't be counted here; `high` does not include them. */
  readonly isSizeUnknown: boolean;
}

/** The bounds of a request's input, and facts about its content. */
export interface MeasuredInput extends InputBounds {
  readonly kind: TextKind;
  /** The upper bound without the prompt that an upstream adds for tools. */
  readonly ownHigh: number;
  /** True if there are images, files or audio, whose tokens do not depend on text. */
  readonly hasMedia: boolean;
  readonly cacheWrites: CacheWrites;
}

/** How many characters are measured at once, which takes about a millisecond. */
const pieceLength = 262_144;

/** Measures a request's input in pieces that take about a millisecond each. */
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
  #cacheWrites: CacheWrites;

  constructor(request: GenerateRequest) {
    this.#request = request;
    this.#segments = inputSegments(request);
    this.#cacheWrites = longer(readWrites(request.cache), readOptions(request));
  }

  /** Measures the next piece. Returns the result after the last piece, undefined before. */
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

  #begin({ kind, text, flatTokensMax, isSizeUnknown, cache }: InputSegment): void {
    if (this.#cacheWrites !== 'half_day') {
      this.#cacheWrites = longer(this.#cacheWrites, cache === undefined ? findWrites(kind, text) : readWrites(cache));
    }
    this.#sample.add(text);
    this.#ownHigh += flatTokensMax;
    this.#hasMedia ||= flatTokensMax > frameTokensMax;
    this.#isSizeUnknown ||= isSizeUnknown;
  }

  /** Only providers of Messages report what was written by its time. */
  #hour(): CacheWrites {
    const { source } = this.#request;
    return source === undefined || source.protocol === Protocol.MESSAGES ? 'hour' : 'mixed_hour';
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
      cacheWrites: this.#cacheWrites === 'hour' ? this.#hour() : this.#cacheWrites,
    };
  }
}

/** Returns what a part that the gateway does not read asks to write, as its JSON says. */
function findWrites(kind: string, json: string): CacheWrites {
  if ((kind !== 'unknown' && kind !== 'server tool') || !json.includes('"cache_control"')) return 'none';
  return json.includes('"1h"') ? 'hour' : 'short';
}

const lifetimes: Readonly<Record<CacheLifetime, CacheWrites>> = {
  [CacheLifetime.CACHE_LIFETIME_UNSPECIFIED]: 'short',
  [CacheLifetime.CACHE_LIFETIME_5M]: 'short',
  [CacheLifetime.CACHE_LIFETIME_30M]: 'half_hour',
  [CacheLifetime.CACHE_LIFETIME_1H]: 'hour',
  [CacheLifetime.CACHE_LIFETIME_12H]: 'half_day',
};

function readWrites(cache: CacheHint | undefined): CacheWrites {
  return cache === undefined ? 'none' : (lifetimes[cache.lifetime] ?? 'half_day');
}

function longer(one: CacheWrites, other: CacheWrites): CacheWrites {
  return cacheWrites.indexOf(one) < cacheWrites.indexOf(other) ? other : one;
}

/** Members that say how long a prefix is kept: for the whole request, or at the end of the prefix. Here only where the protocol's codec does not read them. */
const optionMembers = /(?:^|\.)(?:prompt_cache_(?:options|breakpoint)|cache_control)$/;

/** Returns what members that the gateway does not read ask to write. */
function readOptions({ source }: GenerateRequest): CacheWrites {
  if (source?.unknownFields.some(path => optionMembers.test(path)) !== true) return 'none';
  // In a text of the conversation, the quotes would be escaped.
  const named =
    Buffer.from(source.body)
      .toString('latin1')
      .match(/"ttl"\s*:\s*"(?:30m|1h|12h)"/g) ?? [];
  if (named.some(each => each.includes('12h'))) return 'half_day';
  if (named.some(each => each.includes('1h'))) return 'hour';
  return named.length > 0 ? 'half_hour' : 'short';
}

/** Returns the bounds of a request's input, in one pass over its text. */
export function measureInput(request: GenerateRequest): MeasuredInput {
  const measure = new InputMeasure(request);
  for (;;) {
    const found = measure.next();
    if (found !== undefined) return found;
  }
}

/** Does the same as `measureInput`, but yields to the event loop during a long input, so that other requests continue. */
export function measureInTurns(request: GenerateRequest): MeasuredInput | Promise<MeasuredInput> {
  const measure = new InputMeasure(request);
  return measure.next() ?? measureRest(measure);
}

/** Returns a lower bound of the tokens of texts; if that is above `max`, some number above `max`. Yields to the event loop during long texts. */
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

/** More tokens than the frame of a message, a call or a tool has, and fewer than an image or a file. */
const frameTokensMax = 64;

/** Returns the upper bound of a request's input tokens. */
export function estimateInput(request: GenerateRequest): number {
  return measureInput(request).high;
}

/** The tokens that an upstream adds for tools. The longest known prompt is Anthropic's, with 346 tokens (platform.claude.com, tool use pricing, 2026-11). */
const toolPromptTokens = 350;
