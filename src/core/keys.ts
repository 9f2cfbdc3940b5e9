import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { GatewayError } from '../errors/gateway-error.ts';
import { base62 } from '../lib/ids.ts';
import type { HeaderReader } from '../lib/push.ts';

/**
 * Makes keys, and reads the credential of a caller. Only the SHA-256 and the masked form of a key are stored, so a key can't be recovered. Source: docs/security.md "Credentials".
 */

/** The prefix of each kind of credential. In this file, "key" also means a session token and the token of a sign-in link, which are made and stored in the same way. */
export const keyPrefixes = {
  apiKey: 'sk-tg-',
  managementKey: 'mk-tg-',
  session: 'ss-tg-',
  signInLink: 'lk-tg-',
} as const;

/** The minimum length of a key in characters, prefix included. Keys from bootstrap variables may be shorter than generated ones. */
const keyCharsMin = 24;
const keyCharsMax = 512;
/** How many base62 characters a key has after its prefix: 62^43 is the first power of 62 above 2^256. */
const keyDigits = 43;

/** A key and what is stored of it: `hash` (SHA-256) and `masked`. `text` is never stored; a generated key is shown once. */
export interface KeyMaterial {
  readonly text: string;
  readonly hash: Uint8Array;
  readonly masked: string;
}

/** Makes a new key: the prefix of its kind, and 43 base62 characters made from 32 random bytes. */
export function makeKey(kind: keyof typeof keyPrefixes): KeyMaterial {
  const digits = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), keyDigits);
  return keyMaterial(keyPrefixes[kind] + digits);
}

/** Returns a key with the given text, its hash and its masked form. */
export function keyMaterial(text: string): KeyMaterial {
  return { text, hash: hashKey(text), masked: maskKey(text) };
}

/** Returns the SHA-256 of a key's text. */
export function hashKey(text: string): Uint8Array {
  return hash('sha256', text, 'buffer');
}

/** Returns the masked form of a key: its prefix, and the first 4 and last 4 characters after it (`sk-tg-a1B2…Z9y8`). */
export function maskKey(text: string): string {
  const prefix = findPrefix(text) ?? '';
  return `${text.slice(0, prefix.length + 4)}…${text.slice(-4)}`;
}

const prefixes = Object.values(keyPrefixes);

/** Returns the prefix that a text begins with; undefined if it is none of a key. */
function findPrefix(text: string): string | undefined {
  for (const prefix of prefixes) if (text.startsWith(prefix)) return prefix;
  return undefined;
}

/** Returns true if a text has the form of a key. Other texts are refused without looking them up in the ledger. */
export function isKeyText(text: string): boolean {
  return text.length >= keyCharsMin && text.length <= keyCharsMax && findPrefix(text) !== undefined;
}

/** Compares two secrets in constant time. */
export function secretsEqual(one: string, other: string): boolean {
  return timingSafeEqual(hashKey(one), hashKey(other));
}

const bearerPattern = /^bearer +\S+ *$/i;
const bearerLength = 'bearer '.length;

/**
 * Returns the credential in a call's metadata: `authorization: Bearer KEY` or `x-api-key: KEY`. Throws
 * `invalid_api_key` if there is none, if `authorization` has another form, or if both are present and differ.
 */
export function readCredential(headers: HeaderReader): string {
  const authorization = headers.get('authorization');
  const apiKey = headers.get('x-api-key')?.trim();
  // Without `exec`, which makes an array of the matches: this runs three times for each request.
  const isBearer = authorization !== null && bearerPattern.test(authorization);
  const bearer = isBearer ? authorization.slice(bearerLength).trim() : undefined;
  if (authorization !== null && bearer === undefined) {
    throw new GatewayError('invalid_api_key', 'The authorization header must have the form "Bearer KEY".');
  }
  if (bearer !== undefined && apiKey !== undefined && bearer !== apiKey) {
    throw new GatewayError(
      'invalid_api_key',
      'The authorization and x-api-key headers have different keys. Send only one of them.',
    );
  }
  const credential = bearer ?? apiKey;
  if (credential === undefined || credential === '') {
    throw new GatewayError('invalid_api_key', 'An API key is missing.');
  }
  return credential;
}
