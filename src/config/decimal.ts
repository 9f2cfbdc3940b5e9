const decimalPattern = /^(?:(\d{1,15})(?:\.(\d*))?|\.(\d+))$/;

/**
 * Parses a decimal text as an exact integer of its `digits`th decimal place ("0.25" with 6 digits is 250000n), never
 * through a floating-point number. Undefined if the text is not a plain decimal from 0 below 10^15, or has more
 * decimals than that (zeros at the end do not count).
 */
export function scaledInteger(text: string, digits: number): bigint | undefined {
  const match = decimalPattern.exec(text);
  if (match === null) return undefined;
  const [, whole = '0', fraction = '', bareFraction = fraction] = match;
  const decimals = bareFraction.replace(/0+$/, '');
  if (decimals.length > digits) return undefined;
  return BigInt(whole) * 10n ** BigInt(digits) + BigInt(decimals.padEnd(digits, '0') || '0');
}
