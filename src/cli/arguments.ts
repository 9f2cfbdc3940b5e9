import { InvalidArgumentError } from 'commander';
import { readDuration } from '../config/durations.ts';
import { systemClock } from '../lib/clock.ts';
import { defined } from '../lib/defined.ts';
import { parseDollars } from '../lib/dollars.ts';
import { parseIsoTime } from '../lib/iso-time.ts';
import { CommandFailure } from './failure.ts';

/**
 * Parses texts of the command line. Each function throws `InvalidArgumentError`, which counts as wrong use (exit code 2), if the text is not
 * valid.
 */

/** Parses an id: an integer from 1. */
export function idArgument(text: string): bigint {
  return BigInt(wholeNumber(text, 1));
}

/** Parses a limit: an integer from 0, where 0 means none. */
export function limitArgument(text: string): bigint {
  return BigInt(wholeNumber(text, 0));
}

/** Parses a count: an integer from 0. */
export function countArgument(text: string): number {
  return wholeNumber(text, 0);
}

/** Parses a UTC day or a time in ISO 8601. Returns milliseconds since 1970. */
export function timeArgument(text: string): bigint {
  const isTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const ms = isTime ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw new InvalidArgumentError('It must be a day or a time, such as 2026-11-01 or 2026-11-01T12:00:00Z.');
  return BigInt(ms);
}

/** Parses a port: 1 to 65535. */
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

/** Parses a time span from a second to ten years; undefined if it is not one. */
const readSpan = (text: string): number | undefined => readDuration(text, 1000, 3650);

/** Parses a time span such as 90s, 30m, 2h or 7d. Returns milliseconds. */
export function spanArgument(text: string): number {
  const ms = readSpan(text);
  if (ms === undefined) {
    throw new InvalidArgumentError('It must be a time span from 1s to 3650d, such as 90s, 30m, 2h, 7d.');
  }
  return ms;
}

/** Parses a time in ISO 8601, or a time span from now on. Returns milliseconds since 1970 UTC. */
export function expiryArgument(text: string): bigint {
  const time = parseIsoTime(text);
  if (time !== undefined) return BigInt(time.floorMs);
  const ms = readSpan(text);
  if (ms !== undefined) return BigInt(systemClock.now() + ms);
  throw new InvalidArgumentError('It must be a time such as 2026-12-31T23:59Z, or a time span such as 30m, 2h, 7d.');
}

/** Like `expiryArgument`, with undefined for `none`. */
export function expiryOrNone(text: string): { readonly ms: bigint | undefined } {
  return { ms: text === 'none' ? undefined : expiryArgument(text) };
}

/** Parses dollars, also negative ones. Returns nano-dollars. */
function dollarsArgument(text: string): bigint {
  const nanoUsd = parseDollars(text);
  if (nanoUsd === undefined) throw new InvalidArgumentError('It must be dollars as a decimal number, such as 12.50.');
  return nanoUsd;
}

/** Parses a balance in dollars, 0 or more. Returns nano-dollars. */
export function balanceArgument(text: string): bigint {
  const nanoUsd = dollarsArgument(text);
  if (nanoUsd < 0n) throw new InvalidArgumentError('It must be 0 or more.');
  return nanoUsd;
}

/** Parses an amount in dollars that is added or debited, which must not be 0. Returns nano-dollars. */
export function creditArgument(text: string): bigint {
  const nanoUsd = dollarsArgument(text);
  if (nanoUsd === 0n) throw new InvalidArgumentError('It must not be 0.');
  return nanoUsd;
}

/** Parses an amount in dollars. Returns nano-dollars, or undefined for `none`. */
export function dollarsOrNone(text: string): { readonly limit: bigint | undefined } {
  return { limit: text === 'none' ? undefined : balanceArgument(text) };
}

/** Returns a parser of the given names, which returns the value of the name. */
export function nameArgument<T>(values: Readonly<Record<string, T>>): (text: string) => T {
  return text => {
    const value = Object.hasOwn(values, text) ? values[text] : undefined;
    if (value === undefined) throw new InvalidArgumentError(`It must be ${Object.keys(values).join(' or ')}.`);
    return value;
  };
}

/** Parses words separated by commas. White space around words is removed, and empty words are ignored. */
export function wordsArgument(text: string): string[] {
  return text
    .split(',')
    .map(word => word.trim())
    .filter(word => word !== '');
}

/** Parses a balance in dollars. Returns nano-dollars, or undefined for `none`. */
export function balanceOrNone(text: string): { readonly nanoUsd: bigint | undefined } {
  return { nanoUsd: text === 'none' ? undefined : balanceArgument(text) };
}

/** Parses seconds: an integer from 0. */
export function secondsArgument(text: string): number {
  return wholeNumber(text, 0);
}

/** Parses tags separated by commas: `team=search,env=prod`. */
export function tagsArgument(text: string): Record<string, string> {
  const pairs = wordsArgument(text).map(word => {
    const at = word.indexOf('=');
    if (at < 1) throw new InvalidArgumentError('It must be names with values, such as team=search,env=prod.');
    return [word.slice(0, at), word.slice(at + 1)] as const;
  });
  return Object.fromEntries(pairs);
}

/** Checks that a text is a JSON object, and returns the text. */
export function jsonArgument(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text;
  } catch {
    // The text is not JSON and is refused below.
  }
  throw new InvalidArgumentError('It must be a JSON object.');
}

/** Returns the changes of an update that are not undefined. Throws `CommandFailure` (wrong use) if there is none, because no option was given. */
export function requireChange<T extends object>(command: string, changes: T): ReturnType<typeof defined<T>> {
  if (Object.values(changes).some(value => value !== undefined)) return defined(changes);
  throw new CommandFailure(2, [`Name what to change: see tollgate ${command} --help.`]);
}
