import { InvalidArgumentError } from 'commander';
import { readDuration } from '../config/durations.ts';
import { systemClock } from '../lib/clock.ts';
import { parseDollars } from '../lib/dollars.ts';
import { parseIsoTime } from '../lib/iso-time.ts';

/**
 * Parses texts of the command line. Each throws `InvalidArgumentError`, which is wrong use (exit code 2), if the text
 * is not valid.
 */

/** An id: an integer from 1. */
export function idArgument(text: string): bigint {
  return BigInt(wholeNumber(text, 1));
}

/** Parses a limit: an integer from 0, where 0 means none. */
export function limitArgument(text: string): bigint {
  return BigInt(wholeNumber(text, 0));
}

/** A count: an integer from 0. */
export function countArgument(text: string): number {
  return wholeNumber(text, 0);
}

/** A UTC day or a moment as ISO 8601, in ms since 1970. */
export function timeArgument(text: string): bigint {
  const isTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const ms = isTime ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw new InvalidArgumentError('It must be a day or a time, such as 2026-11-01 or 2026-11-01T12:00:00Z.');
  return BigInt(ms);
}

/** A port: 1 to 65535. */
export function portArgument(text: string): number {
  const port = wholeNumber(text, 1);
  if (port > 65_535) throw new InvalidArgumentError('It must be 1 to 65535.');
  return port;
}

function wholeNumber(text: string, least: number): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value) || value < least) {
    throw new InvalidArgumentError(`It must be an integer from ${least}.`);
  }
  return value;
}

/** From a second to ten years. */
const readSpan = (text: string): number | undefined => readDuration(text, 1000, 3650);

/** A time span such as 90s, 30m, 2h or 7d, in milliseconds. */
export function spanArgument(text: string): number {
  const ms = readSpan(text);
  if (ms === undefined) {
    throw new InvalidArgumentError('It must be a time span from 1s to 3650d, such as 90s, 30m, 2h, 7d.');
  }
  return ms;
}

/** A time in ISO 8601, or a time span from now on, in milliseconds since 1970 UTC. */
export function expiryArgument(text: string): bigint {
  const time = parseIsoTime(text);
  if (time !== undefined) return BigInt(time.floorMs);
  const ms = readSpan(text);
  if (ms !== undefined) return BigInt(systemClock.now() + ms);
  throw new InvalidArgumentError('It must be a time such as 2026-12-31T23:59Z, or a time span such as 30m, 2h, 7d.');
}

/** The same in milliseconds, or undefined for `none`. */
export function expiryOrNone(text: string): { readonly ms: bigint | undefined } {
  return { ms: text === 'none' ? undefined : expiryArgument(text) };
}

/** Dollars as nano-dollars, negative ones too. */
function dollarsArgument(text: string): bigint {
  const nanoUsd = parseDollars(text);
  if (nanoUsd === undefined) throw new InvalidArgumentError('It must be dollars as a decimal number, such as 12.50.');
  return nanoUsd;
}

/** An amount that is there, as nano-dollars: 0 or more. */
export function balanceArgument(text: string): bigint {
  const nanoUsd = dollarsArgument(text);
  if (nanoUsd < 0n) throw new InvalidArgumentError('It must be 0 or more.');
  return nanoUsd;
}

/** An amount that moves, as nano-dollars: anything but 0. */
export function creditArgument(text: string): bigint {
  const nanoUsd = dollarsArgument(text);
  if (nanoUsd === 0n) throw new InvalidArgumentError('It must not be 0.');
  return nanoUsd;
}

/** An amount as nano-dollars, or undefined for `none`. */
export function dollarsOrNone(text: string): { readonly limit: bigint | undefined } {
  return { limit: text === 'none' ? undefined : balanceArgument(text) };
}

/** Parses one of some names, and returns its value. */
export function nameArgument<T>(values: Readonly<Record<string, T>>): (text: string) => T {
  return text => {
    const value = Object.hasOwn(values, text) ? values[text] : undefined;
    if (value === undefined) throw new InvalidArgumentError(`It must be ${Object.keys(values).join(' or ')}.`);
    return value;
  };
}

/** Words with commas between them; white space around them and empty ones do not count. */
export function wordsArgument(text: string): string[] {
  return text
    .split(',')
    .map(word => word.trim())
    .filter(word => word !== '');
}

/** An id, or undefined for `none`. */
export function idOrNone(text: string): { readonly id: bigint | undefined } {
  return { id: text === 'none' ? undefined : idArgument(text) };
}

/** An amount as nano-dollars, or undefined for `none`. */
export function balanceOrNone(text: string): { readonly nanoUsd: bigint | undefined } {
  return { nanoUsd: text === 'none' ? undefined : balanceArgument(text) };
}

/** Seconds, from 0. */
export function secondsArgument(text: string): number {
  return wholeNumber(text, 0);
}

/** Names with values, with commas between them. */
export function tagsArgument(text: string): Record<string, string> {
  const pairs = wordsArgument(text).map(word => {
    const at = word.indexOf('=');
    if (at < 1) throw new InvalidArgumentError('It must be names with values, such as team=search,env=prod.');
    return [word.slice(0, at), word.slice(at + 1)] as const;
  });
  return Object.fromEntries(pairs);
}

/** A JSON object, as its text. */
export function jsonArgument(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text;
  } catch {
    // Refused below, like every other text that is not an object.
  }
  throw new InvalidArgumentError('It must be a JSON object.');
}
