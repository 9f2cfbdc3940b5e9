import fc from 'fast-check';
import { expect, test } from 'vitest';
import { scaledInteger } from './decimal.ts';

test.each([
  ['0', 6, 0n],
  ['1', 6, 1_000_000n],
  ['0.10', 6, 100_000n],
  ['0.1000000000', 6, 100_000n],
  ['.5', 6, 500_000n],
  ['3.', 6, 3_000_000n],
  ['0.000001', 6, 1n],
  ['0.0000001', 6, undefined],
  ['-1', 6, undefined],
  ['1e3', 6, undefined],
  ['0x10', 6, undefined],
  ['', 6, undefined],
  ['.', 6, undefined],
  ['1,5', 6, undefined],
  ['12.345678901', 9, 12_345_678_901n],
  ['7', 0, 7n],
])('%s with %d decimals is %s', (text, digits, expected) => {
  expect(scaledInteger(text, digits)).toBe(expected);
});

test('every integer is read back from its decimal text', () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 15n - 1n), fc.integer({ min: 1, max: 9 }), (value, digits) => {
      const text = value.toString().padStart(digits + 1, '0');
      const decimal = `${text.slice(0, -digits)}.${text.slice(-digits)}`;
      expect(scaledInteger(decimal, digits)).toBe(value);
    }),
  );
});
