import { expect, test } from 'vitest';
import { count, dollars, fullDollars, parseDollars, perMillion, perOne, plainDollars } from './money.ts';

test('an amount has six decimals, or nine if it needs them, and is never rounded; a full amount always has nine', () => {
  expect([0n, 138_000n, 1n, 9_947_558_000n, -5n].map(dollars)).toEqual([
    '$0.000000',
    '$0.000138',
    '$0.000000001',
    '$9.947558',
    '−$0.000000005',
  ]);
  expect(dollars(1_234_567_000_000_000n)).toBe('$1,234,567.000000');
  expect(fullDollars(138_000n)).toBe('$0.000138000');
});

test('prices have no trailing zeros, an amount to edit has no currency sign, and counts have thousands separators', () => {
  expect([1_000_000n, 75_000n, 4_000_000n].map(perMillion)).toEqual(['$1', '$0.075', '$4']);
  expect(perOne(40_000_000_000n)).toBe('$0.04');
  expect(plainDollars(50_000_000n)).toBe('0.05');
  expect(count(1234567)).toBe('1,234,567');
});

test('a typed amount is parsed exactly or refused', () => {
  expect(['1', '$0.25', '.5', '0.000000001'].map(parseDollars)).toEqual([
    1_000_000_000n,
    250_000_000n,
    500_000_000n,
    1n,
  ]);
  expect(['', '-1', '1e3', '0.0000000001', '1,000', 'one'].map(parseDollars)).toEqual(Array.from({ length: 6 }));
});
