import { randomBytes } from 'node:crypto';

/**
 * Reads JSON so that it can be changed and written again without losing what `JSON.parse` loses: digits beyond those of a double, the order of
 * members whose names are numbers, and a member called `__proto__`. Such content is marked in the value; the marks are removed from the written text.
 */

/** The prefix of marks. It is secret, so that no text can contain it on purpose, and JSON escapes none of its characters. */
const mark = `\uf8ff${randomBytes(12).toString('base64url')}`;

/** The mark of this thread, for `markExact` on another one. */
export const exactMark = mark;
const markedName = `"${mark}:`;
const markedNumber = new RegExp(`"${mark}([^"]*)"`, 'g');

/** A text that was read. */
export interface ExactJson {
  /** The value as `JSON.parse` returns it, except that numbers and names that it would change are marked. */
  readonly value: unknown;
  /** Replaces the marks in the written text with the original content; undefined if nothing is marked. */
  readonly restore: ((json: string) => string) | undefined;
}

/** Matches a number that a double may not represent, or a name that an object would move. It may match inside a string, which only costs time. */
const risky = /(?:^|[\s:,[])-?(?:\d[\d.]{15,}|[\d.]+[eE])|"(?:\d+|__proto__)"\s*:/;
/** Matches a string or a number. Strings come first, so that digits inside them are not taken for numbers. */
const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Returns true if `JSON.parse` may lose something of a JSON text; false if it certainly does not. */
export function mayLose(text: string): boolean {
  return risky.test(text);
}

/** Reads one JSON value. Throws `SyntaxError` as `JSON.parse` does. */
export function parseExact(text: string): ExactJson {
  if (!risky.test(text)) return { value: JSON.parse(text), restore: undefined };
  // Refuses invalid JSON with the error for the original text, not for the marked one.
  JSON.parse(text);
  return { value: markExact(text, mark), restore: restoreExact };
}

/** Parses a valid JSON text, and marks what `JSON.parse` would lose. `ownMark`: the mark of the thread that will write the value. */
export function markExact(text: string, ownMark: string): unknown {
  const marked = text.replace(tokens, (token: string, colon: string | undefined) => {
    if (!token.startsWith('"')) return isExact(token) ? token : `"${ownMark}${token}"`;
    return colon !== undefined && /^"(?:\d+|__proto__)"/.test(token) ? `"${ownMark}:${token.slice(1)}` : token;
  });
  return JSON.parse(marked);
}

/** Returns written JSON in which each mark of `parseExact` is replaced by the original content. */
export function restoreExact(json: string): string {
  return json.includes(mark) ? json.replaceAll(markedName, '"').replace(markedNumber, '$1') : json;
}

/** Writes a value as JSON; parts of it may come from `parseExact`. */
export function exactText(value: unknown): string {
  return restoreExact(JSON.stringify(value));
}

/** Returns the objects and arrays of a value of `parseExact` by those of the value of `JSON.parse` for the same text. */
export function pairExact(value: unknown, exact: unknown, pairs = new Map<object, unknown>()): Map<object, unknown> {
  if (typeof value !== 'object' || value === null) return pairs;
  pairs.set(value, exact);
  const inExact = exact as Readonly<Record<string, unknown>>;
  for (const [name, member] of Object.entries(value))
    pairExact(member, inExact[name] ?? inExact[`${mark}:${name}`], pairs);
  return pairs;
}

/** Returns a value as a number, even if `parseExact` has marked it; undefined if it is not a number. */
export function numberIn(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && value.startsWith(mark) ? Number(value.slice(mark.length)) : undefined;
}

/** Returns whether a double has exactly the value of the number, however it is written. */
function isExact(token: string): boolean {
  return toDecimal(token) === toDecimal(String(Number(token)));
}

/** Returns digits and exponent in normal form: "1.50" is "15e-1". */
function toDecimal(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  if (kept === '') return `${sign}0`;
  return `${sign}${kept}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - kept.length)}`;
}
