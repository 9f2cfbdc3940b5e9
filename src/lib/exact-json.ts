import { randomBytes } from 'node:crypto';

/**
 * JSON that is read, changed in places and written again without losing what `JSON.parse` loses: digits beyond a double's, the order of
 * members whose names are numbers, and a member called `__proto__`. Such content is marked in the value, and unmarked in the written text.
 */

/** The prefix of marks. It is not known outside the process, so no text can contain it on purpose; JSON escapes none of its characters. */
const mark = `\uf8ff${randomBytes(12).toString('base64url')}`;

/** The mark of this thread, for `markExact` on another one. */
export const exactMark = mark;
const markedName = `"${mark}:`;
const markedNumber = new RegExp(`"${mark}([^"]*)"`, 'g');

/** A text that was read. */
export interface ExactJson {
  /** Parses like `JSON.parse`, marking numbers and names that it would change. */
  readonly value: unknown;
  /** Replaces the marks in the written text with their content; undefined if there are none. */
  readonly restore: ((json: string) => string) | undefined;
}

/** A number that a double may not hold, or a name that an object would move. Also found inside of strings, which costs time and nothing else. */
const risky = /(?:^|[\s:,[])-?(?:\d[\d.]{15,}|[\d.]+[eE])|"(?:\d+|__proto__)"\s*:/;
/** A string, or a number with what precedes it. Strings come first, so that their digits are not numbers. */
const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Returns whether `JSON.parse` may change something of a JSON text: false is certain. */
export function mayLose(text: string): boolean {
  return risky.test(text);
}

/** Reads one JSON value. Throws `SyntaxError` as `JSON.parse` does. */
export function parseExact(text: string): ExactJson {
  if (!risky.test(text)) return { value: JSON.parse(text), restore: undefined };
  // Invalid JSON is refused as it was, not as it was marked.
  JSON.parse(text);
  return { value: markExact(text, mark), restore: restoreExact };
}

/** Returns the value of a JSON text that `JSON.parse` accepts and may change, marked with the mark of the thread that will write it. */
export function markExact(text: string, ownMark: string): unknown {
  const marked = text.replace(tokens, (token: string, colon: string | undefined) => {
    if (!token.startsWith('"')) return isExact(token) ? token : `"${ownMark}${token}"`;
    return colon !== undefined && /^"(?:\d+|__proto__)"/.test(token) ? `"${ownMark}:${token.slice(1)}` : token;
  });
  return JSON.parse(marked);
}

/** Returns written JSON with what `parseExact` marked in its values as it stood in the text that was read. */
export function restoreExact(json: string): string {
  return json.includes(mark) ? json.replaceAll(markedName, '"').replace(markedNumber, '$1') : json;
}

/** Returns a value, parts of which may come from `parseExact`, as JSON. */
export function exactText(value: unknown): string {
  return restoreExact(JSON.stringify(value));
}

/** Returns the number that a value is, also one that `parseExact` marked; undefined if it is not a number. */
export function numberIn(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && value.startsWith(mark) ? Number(value.slice(mark.length)) : undefined;
}

/** Returns whether a double represents the number: the same value, however it is written. */
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
