import { createHash } from 'node:crypto';
import { type CacheHint, CacheLifetime } from '../gen/tollgate/v1/content_pb.ts';
import type { Clock } from '../lib/clock.ts';
import { type CountedSegment, sumTokens } from './counted-input.ts';
import type { CacheMode } from './models.ts';

/** Input tokens in buckets that do not overlap, and their sum. */
export interface InputBuckets {
  readonly total: number;
  readonly uncached: number;
  readonly read: number;
  readonly write5m: number;
  readonly write1h: number;
}

/** A place where a cached prefix can end, with the number of tokens of the prefix and a hash of its text. */
interface Boundary {
  readonly tokens: number;
  readonly key: string;
  /** The client's hint to end a cached prefix here. */
  readonly hint: CacheHint | undefined;
}

/** The shortest prefix that is cached, as with OpenAI and most of Anthropic's models. */
const prefixTokensMin = 1_024;
/** Automatically cached prefixes are counted in steps of this many tokens (OpenAI). */
const automaticStep = 128;
/** How many segments before a hint are searched for the end of a cached prefix (Anthropic). */
const lookback = 20;
const minuteMs = 60_000;
const lifetimesMs = { fiveMinutes: 5 * minuteMs, hour: 60 * minuteMs } as const;
/** The most prefixes that are cached, at about 200 bytes each. Beyond it the one that was used least recently is removed. */
const entriesMax = 50_000;

interface Entry {
  readonly lifetimeMs: number;
  readonly expiresAtMs: number;
}

/** Returns the hash of a prefix that is extended by a text. `before`: the hash of the prefix. */
function extendHash(before: string, text: string): string {
  return createHash('sha256').update(before).update('\n').update(text).digest('base64url');
}

function readLifetime(hint: CacheHint | undefined): number {
  return hint?.lifetime === CacheLifetime.CACHE_LIFETIME_1H ? lifetimesMs.hour : lifetimesMs.fiveMinutes;
}

/** Keeps prefixes of prompts in memory, and returns how many tokens of a prompt are read from this cache or written to it. */
export class PromptCache {
  readonly #clock: Clock;
  /** By the prefix's hash, least recently used first. */
  readonly #entries = new Map<string, Entry>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Splits a prompt's tokens into buckets, and stores the prefixes that it writes. `whole`: the hint for the whole request. */
  splitInput(
    model: string,
    mode: CacheMode,
    segments: readonly CountedSegment[],
    whole: CacheHint | undefined,
  ): InputBuckets {
    const total = segments.reduce((sum, each) => sum + sumTokens(each), 0);
    const none = { total, uncached: total, read: 0, write5m: 0, write1h: 0 };
    if (mode === 'none' || total < prefixTokensMin) return none;
    if (mode === 'automatic') return this.#automatic(model, segments, none);
    const hinted = whole !== undefined || segments.some(({ segment }) => segment.cache !== undefined);
    return hinted ? this.#hinted(listBoundaries(model, segments, whole), none) : none;
  }

  /** Prompts may differ after any run of text, so a cached prefix can end after each; nothing is charged for writing. */
  #automatic(model: string, segments: readonly CountedSegment[], none: InputBuckets): InputBuckets {
    const boundaries = runBoundaries(model, segments).filter(each => each.tokens >= prefixTokensMin);
    const found = boundaries.findLast(each => this.#read(each.key))?.tokens ?? 0;
    for (const each of boundaries) this.#write(each.key, lifetimesMs.fiveMinutes);
    const read = found - (found % automaticStep);
    return { ...none, read, uncached: none.total - read };
  }

  #hinted(boundaries: readonly Boundary[], none: InputBuckets): InputBuckets {
    const last = boundaries.findLastIndex(each => each.hint !== undefined);
    const lastHour = boundaries.findLastIndex(each => readLifetime(each.hint) === lifetimesMs.hour);
    const read = this.#longestRead(boundaries, last);
    const tokensAt = (at: number): number => {
      const tokens = boundaries[at]?.tokens ?? 0;
      return tokens >= prefixTokensMin ? tokens : 0;
    };
    const tokensToLastHourHint = Math.max(read, tokensAt(lastHour));
    const tokensToLastHint = Math.max(tokensToLastHourHint, tokensAt(last));
    for (const { key, tokens, hint } of boundaries) {
      if (hint !== undefined && tokens >= prefixTokensMin) this.#write(key, readLifetime(hint));
    }
    return {
      total: none.total,
      uncached: none.total - tokensToLastHint,
      read,
      write1h: tokensToLastHourHint - read,
      write5m: tokensToLastHint - tokensToLastHourHint,
    };
  }

  /** Returns the number of tokens of the longest cached prefix that ends at a hint or at most `lookback` segments before one; 0 if there is none. */
  #longestRead(boundaries: readonly Boundary[], last: number): number {
    let away = lookback;
    for (let at = last; at >= 0; at -= 1) {
      const boundary = boundaries[at];
      if (boundary === undefined || boundary.tokens < prefixTokensMin) return 0;
      away = boundary.hint === undefined ? away + 1 : 0;
      if (away <= lookback && this.#read(boundary.key)) return boundary.tokens;
    }
    return 0;
  }

  /** Returns whether a prefix is cached now; reading it restarts its lifetime. */
  #read(key: string): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    if (entry.expiresAtMs <= this.#clock.now()) {
      this.#entries.delete(key);
      return false;
    }
    this.#write(key, entry.lifetimeMs);
    return true;
  }

  #write(key: string, lifetimeMs: number): void {
    const now = this.#clock.now();
    const before = this.#entries.get(key);
    const kept = before !== undefined && before.expiresAtMs > now ? before.lifetimeMs : 0;
    const longest = Math.max(kept, lifetimeMs);
    this.#entries.delete(key);
    this.#entries.set(key, { lifetimeMs: longest, expiresAtMs: now + longest });
    if (this.#entries.size <= entriesMax) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}

/** Returns the ends of all segments. A hint for the whole request applies to the last segment that is not an end marker. */
function listBoundaries(
  model: string,
  segments: readonly CountedSegment[],
  whole: CacheHint | undefined,
): readonly Boundary[] {
  const boundaries: Boundary[] = [];
  const lastFilled = segments.findLastIndex(({ segment }) => segment.kind !== 'end');
  let key = model;
  let tokens = 0;
  for (const [at, each] of segments.entries()) {
    key = extendHash(key, `${each.segment.kind}\n${each.segment.text}`);
    tokens += sumTokens(each);
    const hint = each.segment.cache ?? (at === lastFilled ? whole : undefined);
    boundaries.push({ tokens, key, hint });
  }
  return boundaries;
}

/** Returns the ends of all runs of text. */
function runBoundaries(model: string, segments: readonly CountedSegment[]): Boundary[] {
  const boundaries: Boundary[] = [];
  let key = model;
  let tokens = 0;
  for (const { segment, runs } of segments) {
    key = extendHash(key, segment.kind);
    tokens += segment.flatTokens;
    for (const run of runs) {
      key = extendHash(key, run.text);
      tokens += run.tokens;
      boundaries.push({ tokens, key, hint: undefined });
    }
  }
  return boundaries;
}
