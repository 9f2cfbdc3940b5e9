/**
 * JSON that is read, changed in places and written again without losing what `JSON.parse` loses: digits beyond a double's, the order of members whose names are
 * numbers, and a member called `__proto__`. What it would lose is marked while it is a value, and unmarked in the written text.
 */

/** A text that was read. */
export interface ExactJson {
  /** What `JSON.parse` makes of it, numbers and names that it would change marked. */
  readonly value: unknown;
  /** Puts into the written text what was marked; undefined if nothing was. */
  readonly restore: ((json: string) => string) | undefined;
}

/** A number that a double may not hold, or a name that an object would move. Also found inside of strings, which costs time and nothing else. */
const risky = /(?:^|[\s:,[])-?(?:\d[\d.]{15,}|[\d.]+[eE])|"(?:\d+|__proto__)"\s*:/;
/** A string, or a number with what stands before it. Strings come first, so that their digits are no numbers. */
const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Reads one JSON value. Throws `SyntaxError` as `JSON.parse` does. */
export function parseExact(text: string): ExactJson {
  if (!risky.test(text)) return { value: JSON.parse(text), restore: undefined };
  const mark = freeMark(JSON.stringify(JSON.parse(text)));
  const marked = text.replace(tokens, (token: string, colon: string | undefined) => {
    if (!token.startsWith('"')) return isExact(token) ? token : `"${mark}${token}"`;
    return colon !== undefined && /^"(?:\d+|__proto__)"/.test(token) ? `"${mark}:${token.slice(1)}` : token;
  });
  const restore = (json: string): string =>
    json.replaceAll(`"${mark}:`, '"').replace(new RegExp(`"${mark}([^"]*)"`, 'g'), '$1');
  return { value: JSON.parse(marked), restore };
}

/** Returns letters that the written text does not have, none of which JSON escapes. */
function freeMark(text: string): string {
  let mark = '\uf8ff';
  while (text.includes(mark)) mark += '\uf8fe';
  return mark;
}

/** Whether a double says the number: the same value, however it is written. */
function isExact(token: string): boolean {
  return decimalOf(token) === decimalOf(String(Number(token)));
}

/** Digits and exponent without what says nothing: "1.50" is "15e-1". */
function decimalOf(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  if (kept === '') return `${sign}0`;
  return `${sign}${kept}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - kept.length)}`;
}
