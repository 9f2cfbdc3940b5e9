import { randomBytes } from 'node:crypto';
import type { Clock } from './clock.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const idPattern = /^req_([0-9A-Za-z]{10})[0-9A-Za-z]{11}$/;
const idMax = 2 ** 53 - 1;

/** The header in which the edge names a request to the core of its process; the network listener strips it, so that nobody else can. */
export const requestIdHeader = 'x-tollgate-request-id';

/** An unsigned integer in base62, padded with zeros on the left. */
export function base62(value: number | bigint, length: number): string {
  let rest = BigInt(value);
  let text = '';
  while (text.length < length) {
    text = alphabet.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return text;
}

/** `length` base62 characters of fresh randomness (5.95 bits each). */
export function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      // 248 is the largest multiple of 62 in a byte: what lies above would make some characters likelier.
      if (byte < 248 && text.length < length) text += alphabet.charAt(byte % 62);
    }
  }
  return text;
}

/**
 * Makes the gateway's ids: 53-bit integers (41 bits of ms, 12 of a counter) that grow whatever the clock does. They name a
 * request in the ledger before anything else happens, which makes every repeat of a command harmless.
 */
export class IdSource {
  readonly #clock: Clock;
  #last: number;

  /** `last`: the highest id that was ever stored, so that ids grow across restarts too; 0 for none. */
  constructor(clock: Clock, last = 0) {
    this.#clock = clock;
    this.#last = last;
  }

  next(): number {
    this.#last = Math.max(this.#last + 1, this.#clock.now() * 4096);
    return this.#last;
  }
}

/** The public id of a request: its ledger id and 64 random bits, which nobody can guess. */
export function publicRequestId(id: number): string {
  return `req_${base62(id, 10)}${base62(randomBytes(8).readBigUInt64BE(), 11)}`;
}

/** The ledger id inside a public request id; undefined where the gateway could not have made the id. */
export function ledgerIdOf(requestId: string): number | undefined {
  const digits = idPattern.exec(requestId)?.[1];
  if (digits === undefined) return undefined;
  let value = 0;
  for (const digit of digits) {
    value = value * 62 + alphabet.indexOf(digit);
    if (value > idMax) return undefined;
  }
  return value;
}
