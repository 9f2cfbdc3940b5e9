import fc from 'fast-check';
import { expect, test } from 'vitest';
import { priceTokens, tokensFor } from './grants.ts';

const tokens = fc.nat(2_000_000);
const price = fc.oneof(fc.constantFrom(1n, 333n, 999n, 1000n, 1001n, 4_000_000n), fc.bigInt(1n, 10n ** 12n));

test('tokens cost their exact price rounded up to the nano-dollar', () => {
  expect(priceTokens(0, 4_000_000n)).toBe(0n);
  expect(priceTokens(1, 1n)).toBe(1n);
  expect(priceTokens(3, 1000n)).toBe(3n);
  expect(priceTokens(3, 1001n)).toBe(4n);
});

test('grants as many tokens as the money can pay for, and not one more', () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 13n), tokens, price, (money, held, pico) => {
      const more = tokensFor(money, held, pico);
      const cost = (count: number): bigint => priceTokens(held + count, pico) - priceTokens(held, pico);
      expect(more).toBeGreaterThanOrEqual(0);
      expect(cost(more) <= money).toBe(true);
      if (held + more < Number.MAX_SAFE_INTEGER) expect(cost(more + 1) > money).toBe(true);
    }),
  );
});

test('the grant is at most the largest safe integer', () => {
  expect(tokensFor(10n ** 13n, 5, 1n)).toBe(Number.MAX_SAFE_INTEGER - 5);
  expect(tokensFor(9_007_199_254_740n, 3, 1n)).toBeLessThan(Number.MAX_SAFE_INTEGER);
});

test('any number of tokens is granted if they cost nothing', () => {
  expect(tokensFor(0n, 5, 0n)).toBe(Infinity);
});
