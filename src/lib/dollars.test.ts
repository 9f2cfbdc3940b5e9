import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dollarsNumber, dollarsText, jsonDollars, parseDollars, parseJsonDollars } from './dollars.ts';

test('decimal texts are converted to nano-dollars exactly, rounded half up', () => {
  const cases: [string, bigint][] = [
    ['0', 0n],
    ['10', 10_000_000_000n],
    ['0.1', 100_000_000n],
    ['.25', 250_000_000n],
    ['+1', 1_000_000_000n],
    ['-0.5', -500_000_000n],
    ['0.0000000004', 0n],
    ['0.0000000005', 1n],
    ['0.00000000149999', 1n],
    ['-0.0000000005', -1n],
    ['0.9999999999', 1_000_000_000n],
    ['9223372036.854775807', 2n ** 63n - 1n],
  ];
  for (const [text, nano] of cases) expect([text, parseDollars(text)]).toEqual([text, nano]);
});

test('a string that is not a decimal number, or is too large for the ledger, is refused', () => {
  for (const text of ['', ' 1', '1 ', '1.', '.', '-', '1e3', '0x10', '1,000', '$1', 'NaN', 'Infinity', '1.2.3', '٣']) {
    expect([text, parseDollars(text)]).toEqual([text, undefined]);
  }
  expect(parseDollars('9223372036.854775808')).toBeUndefined();
});

test('every amount is read back from its text, which has no trailing zeros', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n) + 1n, max: 2n ** 63n - 1n }), nano => {
      const text = dollarsText(nano);
      expect(parseDollars(text)).toBe(nano);
      expect(text).not.toMatch(/\.\d*0$|\.$|^-?0\d/);
    }),
  );
});

test('amounts are shown as the shortest decimals', () => {
  expect(dollarsText(10_000_000_000n)).toBe('10');
  expect(dollarsText(50_000_000n)).toBe('0.05');
  expect(dollarsText(-1_000_000_001n)).toBe('-1.000000001');
  expect(dollarsText(0n)).toBe('0');
  expect(JSON.stringify(dollarsNumber(300_000_000n))).toBe('0.3');
  expect(JSON.stringify(dollarsNumber(3_999_999_999_999_999n))).toBe('3999999.999999999');
  expect(JSON.stringify(jsonDollars(1_000_000_000_123_456_789n))).toBe('1000000000.123456789');
  expect(JSON.stringify(jsonDollars(1n))).toBe('0.000000001');
});

test('JSON numbers are converted to nano-dollars exactly, even if a double would round them', () => {
  const cases: [string, bigint | undefined][] = [
    ['0', 0n],
    ['-0', 0n],
    ['12', 12_000_000_000n],
    ['2.5', 2_500_000_000n],
    ['1e-3', 1_000_000n],
    ['25E-1', 2_500_000_000n],
    ['1.5e2', 150_000_000_000n],
    ['0.0000000005', 1n],
    ['4.9e-10', 0n],
    ['5e-10', 1n],
    ['-5e-10', -1n],
    ['1e-400', 0n],
    ['1e400', undefined],
    ['9000000000.000000001', 9_000_000_000_000_000_001n],
    ['9999999999', undefined],
    [`0.${'0'.repeat(60)}1e61`, 1_000_000_000n],
    [`1${'0'.repeat(60)}e-60`, 1_000_000_000n],
    [`0.${'0'.repeat(200)}1e201`, 1_000_000_000n],
  ];
  for (const [text, nano] of cases) expect([text, parseJsonDollars(text)]).toEqual([text, nano]);
});

test('a JSON number without an exponent is read like the same decimal text', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(9n * 10n ** 18n), max: 9n * 10n ** 18n }), nano => {
      const text = dollarsText(nano);
      expect(parseJsonDollars(text)).toBe(nano);
      expect(parseJsonDollars(`${text}${text.includes('.') ? '' : '.0'}000e0`)).toBe(nano);
    }),
  );
});
