/**
 * Dollars as people write them and nano-dollars (10^-9 dollars) as the gateway counts them. Nothing here goes through floating point on the
 * way in: 0.1 is 100,000,000 nano-dollars, exactly. Source: decisions §6.
 */

const pattern = /^([+-]?)(\d{1,40})(?:\.(\d{1,100}))?$|^([+-]?)\.(\d{1,100})$/;
const nanoDigits = 9;
const nanoMax = 2n ** 63n - 1n;

/**
 * Nano-dollars of a decimal text ("12", "-0.5", ".25"), rounded half up (away from zero) to the nano-dollar. Undefined where the text is no
 * decimal number (exponents, blanks and digit groups are none) or is more than 64 bits hold.
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

/** The shortest decimal text of an amount: "10", "0.05", "-1.000000001". */
export function dollarsText(nanoUsd: bigint): string {
  return decimalText(nanoUsd, nanoDigits);
}

/** The amount as a JSON number; exact to the nano-dollar up to four million dollars, as near as a double gets above. */
export function dollarsNumber(nanoUsd: bigint): number {
  return Number(dollarsText(nanoUsd));
}

/** The shortest decimal text of `value` / 10^`digits`; `digits` is at least 1. */
export function decimalText(value: bigint, digits: number): string {
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  const fraction = text.slice(-digits).replace(/0+$/, '');
  return `${value < 0n ? '-' : ''}${text.slice(0, -digits)}${fraction === '' ? '' : `.${fraction}`}`;
}
