/**
 * Converts between dollars, as people write them, and nano-dollars (10^-9 dollars), as the gateway counts them. Input is never
 * converted to floating point: 0.1 is exactly 100,000,000 nano-dollars. See docs/accounting.md "Prices and rounding".
 */

const pattern = /^([+-]?)(\d{1,40})(?:\.(\d{1,100}))?$|^([+-]?)\.(\d{1,100})$/;
const nanoDigits = 9;
const nanoMax = 2n ** 63n - 1n;

/**
 * Parses a decimal text ("12", "-0.5", ".25") to nano-dollars, rounded half up (away from zero). Returns undefined if the
 * text is not a decimal number (exponents, spaces and digit groups are not allowed) or the amount does not fit into 64 bits.
 */
export function parseDollars(text: string): bigint | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const negative = (match[1] ?? match[4]) === '-';
  const fraction = (match[3] ?? match[5] ?? '').padEnd(nanoDigits + 1, '0');
  const whole = BigInt((match[2] ?? '0') + fraction.slice(0, nanoDigits));
  const nano = fraction.charAt(nanoDigits) >= '5' ? whole + 1n : whole;
  if (nano > nanoMax) return undefined;
  return negative ? -nano : nano;
}

const jsonNumber = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Longer numbers are read as doubles: no one intends so many digits, and reading them exactly would take long. */
const jsonNumberLengthMax = 100;

/**
 * Parses a JSON number ("12", "1e-3") to nano-dollars, exactly (not through a double), rounded half up
 * (away from zero). Returns undefined if the amount does not fit into 64 bits.
 */
export function parseJsonDollars(text: string): bigint | undefined {
  const value = Number(text);
  if (Math.abs(value) >= 1e10 || Number.isNaN(value)) return undefined;
  if (Math.abs(value) < 1e-10) return 0n;
  const match = jsonNumber.exec(text.length > jsonNumberLengthMax ? String(value) : text);
  if (match === null) return undefined;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  const shift = Number(exponent);
  // Moving the decimal point by the exponent needs that many digits on the side to which it moves.
  const digits = '0'.repeat(Math.max(0, -shift)) + whole + fraction + '0'.repeat(Math.max(0, shift));
  const point = Math.max(0, -shift) + whole.length + shift;
  const significant = digits.slice(0, point).replace(/^0+(?=\d)/, '');
  return parseDollars(`${sign}${significant}.${digits.slice(point, point + nanoDigits + 1)}0`);
}

/** Returns the shortest decimal text of an amount: "10", "0.05", "-1.000000001". */
export function dollarsText(nanoUsd: bigint): string {
  return decimalText(nanoUsd, nanoDigits);
}

/** Returns an amount as a number: exact to the nano-dollar up to four million dollars, the nearest double above. */
export function dollarsNumber(nanoUsd: bigint): number {
  const nano = Number(nanoUsd);
  // Both are exact as doubles, so the quotient is the nearest double, equal to the text parsed as a number.
  return Number.isSafeInteger(nano) ? nano / 1e9 : Number(dollarsText(nanoUsd));
}

declare global {
  interface JSON {
    /** A value that is written as this JSON text (ECMAScript 2026). */
    rawJSON(text: string): JsonNumber;
  }
}

/** Returns an amount as the nearest double, or undefined if it is not known. */
export function knownDollars(nanoUsd: bigint | undefined): number | undefined {
  return nanoUsd === undefined ? undefined : dollarsNumber(nanoUsd);
}

/** A JSON number that is written with all its digits, even if a double would lose some. */
export interface JsonNumber {
  readonly rawJSON: string;
}

/** Returns an amount as a JSON number with all its digits. */
export function jsonDollars(nanoUsd: bigint): JsonNumber {
  return JSON.rawJSON(dollarsText(nanoUsd));
}

/** Returns the shortest decimal text of `value` / 10^`digits`. `digits` is at least 1. */
export function decimalText(value: bigint, digits: number): string {
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  const fraction = text.slice(-digits).replace(/0+$/, '');
  return `${value < 0n ? '-' : ''}${text.slice(0, -digits)}${fraction === '' ? '' : `.${fraction}`}`;
}
