import { Buffer } from 'node:buffer';
import { randomBytes, randomFillSync } from 'node:crypto';
import type { Clock } from './clock.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** The length of a public id: `req_`, 10 digits of the ledger id, 11 of random bits. */
const idLength = 25;
const idMax = 2 ** 53 - 1;

/** The header with a request's id, from an edge to the core. The network listener replaces it in the calls of all others. */
export const requestIdHeader = 'x-tollgate-request-id';

/** 62^8, the largest power of 62 whose remainders are safe integers. */
const digits8 = 62n ** 8n;

/** The digits that `base62` writes. A key has the most, 43. */
const written = Buffer.alloc(64);

/** Returns an unsigned integer in base62, padded with zeros on the left. */
export function base62(value: number | bigint, length: number): string {
  let rest = value;
  let left = length;
  // Eight digits at a time, because each BigInt operation is expensive.
  while (typeof rest === 'bigint' && rest >= digits8 && left > 0) {
    const count = Math.min(left, 8);
    writeDigits(Number(rest % digits8), left, count);
    left -= count;
    rest /= digits8;
  }
  writeDigits(Number(rest), left, left);
  return written.toString('latin1', 0, length);
}

/** Writes the last `count` digits of a value so that they end before `end`. They are written as bytes, because adding characters to a text would make a text for each. */
function writeDigits(value: number, end: number, count: number): void {
  let rest = value;
  for (let at = end - 1; at >= end - count; at -= 1) {
    written[at] = alphabet.charCodeAt(rest % 62);
    rest = Math.floor(rest / 62);
  }
}

/** Returns `length` random base62 characters (5.95 bits each). */
export function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      // 248 is the largest multiple of 62 in a byte. Bytes from 248 on are skipped, because they would make some characters likelier.
      if (byte < 248 && text.length < length) text += alphabet.charAt(byte % 62);
    }
  }
  return text;
}

/** How many processes may make ids for one ledger. */
const instances = 64;

/**
 * Makes the gateway's ids: 53-bit integers (41 bits of ms, 6 of a counter that can continue into the next ms, 6 of the instance) that always ascend, whatever the clock does. A
 * request gets its id before anything else happens, so that each command for it can be repeated without harm.
 */
export class IdSource {
  readonly #clock: Clock;
  readonly #monotonicMs: (() => number) | undefined;
  readonly #refusal: (reason: string) => Error;
  /** The difference between the wall clock and the monotonic clock when the source was made. */
  readonly #offsetMs: number;
  #last: number;

  /**
   * `last`: the highest id that was ever stored, so that ids ascend across restarts, too; 0 if there is none.
   */
  constructor(clock: Clock, last = 0, options: IdSourceOptions = {}) {
    const { instance = 0, monotonicMs, refusal = defaultRefusal } = options;
    this.#clock = clock;
    this.#monotonicMs = monotonicMs;
    this.#refusal = refusal;
    this.#offsetMs = clock.now() - (monotonicMs?.() ?? 0);
    this.#last = last - (last % instances) + instance;
  }

  /** Continues with the number of another instance; ids still ascend. */
  renumber(instance: number): void {
    this.#last += instance - (this.#last % instances);
  }

  /**
   * Makes an id. Throws the `refusal` if the wall clock has jumped more than a day ahead since the source was made, because later ids could not be lower again, or if 53 bits are no
   * longer enough.
   */
  next(): number {
    const instance = this.#last % instances;
    const nowMs = this.#clock.now();
    const aheadMs = this.#monotonicMs === undefined ? 0 : nowMs - this.#monotonicMs() - this.#offsetMs;
    if (aheadMs > aheadMaxMs) throw this.#refusal(`the clock has jumped ${Math.round(aheadMs / 1000)} s ahead`);
    const id = Math.max(this.#last + instances, nowMs * 4096 + instance);
    if (id > idMax) throw this.#refusal('ids of 53 bits have run out: the clock is, or was, beyond September 2039');
    this.#last = id;
    return id;
  }
}

interface IdSourceOptions {
  /** 0 (or absent) in the gateway; 1 to 63 in edges of other processes. Each process has a different number, so that no two make the same id. */
  readonly instance?: number;
  /** A monotonic clock; absent: jumps of the wall clock are not noticed. */
  readonly monotonicMs?: () => number;
  /** Makes the error to throw if no id can be made; absent: a `RangeError`. */
  readonly refusal?: (reason: string) => Error;
}

const aheadMaxMs = 86_400_000;
const defaultRefusal = (reason: string): Error => new RangeError(`no id can be made: ${reason}`);

/** Random bytes for many ids: a call for 8 bytes costs as much as one for 4 KiB. */
const pool = Buffer.alloc(4096);
let poolUsed = pool.length;

function randomBits64(): bigint {
  if (poolUsed === pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  poolUsed += 8;
  return pool.readBigUInt64BE(poolUsed - 8);
}

/** Returns the public id of a request: its ledger id and 64 random bits, which can't be guessed. */
export function publicRequestId(id: number): string {
  return `${requestIdStart(id)}${base62(randomBits64(), 11)}`;
}

/** Returns the beginning of a request's public id, which is enough to find it in a log. */
export function requestIdStart(id: number): string {
  return `req_${base62(id, 10)}`;
}

/** Returns a request id without `req_`, from which the ids of answers are made. */
export function requestIdEnd(requestId: string): string {
  return requestId.startsWith('req_') ? requestId.slice(4) : requestId;
}

/** Returns a public request id without a ledger id, for requests that arrive while no id can be made. */
export function unnumberedRequestId(): string {
  return `req_z${randomBase62(20)}`;
}

/**
 * Returns the random bits of a public request id as a signed 64-bit integer: with the ledger id, this is all that must be
 * stored. Returns the whole public id if `publicRequestId` has not made it.
 */
export function requestPart(id: number, requestId: string): bigint | string {
  if (parseLedgerId(requestId) !== id) return requestId;
  const bits = BigInt(base62Value(requestId, 14, 17)) * digits8 + BigInt(base62Value(requestId, 17, 25));
  return bits >> 64n === 0n ? BigInt.asIntN(64, bits) : requestId;
}

/** Returns the public request id of a ledger id and its `requestPart`. */
export function formatRequestId(id: number, part: bigint | string): string {
  return typeof part === 'string' ? part : `${requestIdStart(id)}${base62(BigInt.asUintN(64, part), 11)}`;
}

/** The values of the base62 digits by their character codes; undefined for other characters. */
const digitValues: readonly (number | undefined)[] = Array.from({ length: 128 }, (_, code) => {
  const value = alphabet.indexOf(String.fromCharCode(code));
  return value === -1 ? undefined : value;
});

/** Returns the value of the base62 digits from `start` to before `end`; exact up to 2^53. NaN if there are other characters. */
function base62Value(text: string, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at++) value = value * 62 + (digitValues[text.charCodeAt(at)] ?? Number.NaN);
  return value;
}

/** Returns the ledger id that a public request id contains; undefined if the gateway can't have made the id. */
export function parseLedgerId(requestId: string): number | undefined {
  if (requestId.length !== idLength || !requestId.startsWith('req_')) return undefined;
  const value = base62Value(requestId, 4, 14);
  const isPublicId = !Number.isNaN(base62Value(requestId, 14, idLength));
  return isPublicId && value <= idMax ? value : undefined;
}
