const decimalPattern = /^(?:(\d{1,15})(?:\.(\d*))?|\.(\d+))$/;

/**
 * Parses a decimal text and multiplies it by 10^`digits`, exactly: "0.25" with 6 digits is 250000n. It is never converted to
 * floating point. Returns undefined if the text is not a plain decimal from 0 to below 10^15, or has more than `digits`
 * decimals (not counting zeros at the end).
 */
export function scaledInteger(text: string, digits: number): bigint | undefined {
  const match = decimalPattern.exec(text);
  if (match === null) return undefined;
  const [, whole = '0', fraction = '', bareFraction = fraction] = match;
  const decimals = bareFraction.replace(/0+$/, '');
  if (decimals.length > digits) return undefined;
  return BigInt(whole) * 10n ** BigInt(digits) + BigInt(decimals.padEnd(digits, '0') || '0');
}
