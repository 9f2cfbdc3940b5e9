import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PricingSchema } from '../gen/tollgate/v1/catalog_pb.ts';
import {
  type CostLine,
  costLines,
  sumCost,
  imageSheet,
  lineCostAtto,
  type PricedUsage,
  type PriceSheet,
  priceSheet,
  shareLines,
  tokensWithin,
} from './price.ts';

const nothing: PricedUsage = { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, images: 0 };
/** Converts dollars per 1 million tokens to pico-dollars per token. */
const perMillion = (dollars: number): bigint => BigInt(Math.round(dollars * 1_000_000));
const sheet: PriceSheet = {
  input: perMillion(1),
  cacheRead: perMillion(0.1),
  cacheWrite5m: perMillion(1.25),
  cacheWrite1h: perMillion(2),
  output: perMillion(4),
  image: 40_000_000_000n,
};

test('a request costs the sum of its buckets, each at its own price', () => {
  const usage = { input: 1000, cacheRead: 2000, cacheWrite5m: 300, cacheWrite1h: 40, output: 500, images: 2 };
  // 1,000,000 + 200,000 + 375,000 + 80,000 + 2,000,000 + 2 × 40,000,000 nano-dollars
  expect(sumCost(costLines(usage, sheet, 1000))).toBe(83_655_000n);
  expect(costLines(usage, sheet, 1000).map(line => [line.kind, line.tokens, line.pricePicoUsd])).toEqual([
    ['input', 1000, 1_000_000n],
    ['cache_read', 2000, 100_000n],
    ['cache_write_5m', 300, 1_250_000n],
    ['cache_write_1h', 40, 2_000_000n],
    ['output', 500, 4_000_000n],
    ['image', 2, 40_000_000_000n],
  ]);
});

test.each([
  [500, 2_500_000n],
  [1000, 5_000_000n],
  [2000, 10_000_000n],
])('a tier of %i thousandths applies to every price', (multiplier, cost) => {
  expect(sumCost(costLines({ ...nothing, input: 1000, output: 1000 }, sheet, multiplier))).toBe(cost);
});

test('a discount is taken off after the tier', () => {
  const [line] = costLines({ ...nothing, output: 1000 }, sheet, 500);
  expect(sumCost([{ ...(line as CostLine), discountPermille: 50 }])).toBe(1_900_000n);
});

test('cached tokens that have no price are charged as uncached input', () => {
  const plain = { ...sheet, cacheRead: null, cacheWrite5m: null, cacheWrite1h: null };
  const usage = { ...nothing, cacheRead: 10, cacheWrite5m: 20, cacheWrite1h: 30 };
  expect(sumCost(costLines(usage, plain, 1000))).toBe(60_000n);
});

test('an explicit price of 0 costs nothing; a price that is missing is an error', () => {
  expect(sumCost(costLines({ ...nothing, input: 5 }, { ...sheet, input: 0n }, 1000))).toBe(0n);
  expect(() => costLines({ ...nothing, output: 1 }, { ...sheet, output: null }, 1000)).toThrow('no price for output');
  expect(costLines({ ...nothing, output: 0 }, { ...sheet, output: null }, 1000)).toEqual([]);
});

test.each([
  [499n, 0n],
  [500n, 1n],
  [501n, 1n],
  [1499n, 1n],
  [1500n, 2n],
])('%s pico-dollars are rounded half up to %s nano-dollars', (pico, nano) => {
  expect(sumCost(costLines({ ...nothing, input: 1 }, { ...sheet, input: pico }, 1000))).toBe(nano);
});

test('the sum is rounded once, not its lines', () => {
  const thirds = { ...sheet, input: 400n, output: 400n, cacheRead: 400n };
  expect(sumCost(costLines({ ...nothing, input: 1, output: 1, cacheRead: 1 }, thirds, 1000))).toBe(1n);
});

test('the highest threshold that the input exceeds sets the prices of the whole request, in any order of the thresholds', () => {
  const step = (inputTokens: number, input: number): object => ({
    inputTokens,
    inputPicoUsd: perMillion(input),
    outputPicoUsd: perMillion(input * 2),
    caching: { readPicoUsd: perMillion(input / 10) },
  });
  const pricing = create(PricingSchema, {
    inputPicoUsd: perMillion(1),
    outputPicoUsd: perMillion(4),
    imageNanoUsd: 7n,
    caching: { readPicoUsd: 5n, write5mPicoUsd: 6n },
    above: [step(200_000, 3), step(100_000, 2)],
  });
  expect(priceSheet(pricing, 100_000)).toEqual({
    input: perMillion(1),
    cacheRead: 5n,
    cacheWrite5m: 6n,
    cacheWrite1h: 6n,
    output: perMillion(4),
    image: 7000n,
  });
  expect(priceSheet(pricing, 100_001)).toEqual({
    input: perMillion(2),
    cacheRead: perMillion(0.2),
    cacheWrite5m: null,
    cacheWrite1h: null,
    output: perMillion(4),
    image: 7000n,
  });
  expect(priceSheet(pricing, 200_000).input).toBe(perMillion(2));
  expect(priceSheet(pricing, 200_001).input).toBe(perMillion(3));
});

test('a model without prices has an empty price sheet', () => {
  expect(priceSheet(create(PricingSchema, {}), 1)).toEqual({
    input: null,
    cacheRead: null,
    cacheWrite5m: null,
    cacheWrite1h: null,
    output: null,
    image: null,
  });
});

const lines = fc.array(
  fc.record({
    kind: fc.constantFrom('input' as const, 'output' as const),
    tokens: fc.nat(10_000_000),
    pricePicoUsd: fc.bigInt(0n, 1_000_000_000n),
    multiplierPermille: fc.constantFrom(500, 1000, 2000),
    discountPermille: fc.constantFrom(0, 50),
  }),
  { maxLength: 6 },
);

test('the cost is within half a nano-dollar of the exact sum, and is rounded up from the middle', () => {
  fc.assert(
    fc.property(lines, all => {
      const exact = all.reduce((sum, line) => sum + lineCostAtto(line), 0n);
      const error = sumCost(all) * 1_000_000_000n - exact;
      expect(error > -500_000_000n && error <= 500_000_000n).toBe(true);
    }),
  );
});

test('the order of lines changes nothing, and more tokens never cost less', () => {
  fc.assert(
    fc.property(lines, fc.nat(1000), (all, more) => {
      expect(sumCost(all.toReversed())).toBe(sumCost(all));
      expect(sumCost(all.map(line => ({ ...line, tokens: line.tokens + more }))) >= sumCost(all)).toBe(true);
    }),
  );
});

test('an image has the price of the first row that fits its size and quality, else the model’s general price', () => {
  const pricing = create(PricingSchema, {
    imageNanoUsd: 20_000_000n,
    images: [
      { size: '2048x2048', quality: 'high', imageNanoUsd: 80_000_000n },
      { quality: 'high', imageNanoUsd: 40_000_000n },
      { size: '2048x2048', imageNanoUsd: 30_000_000n },
    ],
  });
  const nano = (size: string, quality: string): bigint =>
    sumCost(costLines({ ...nothing, images: 3 }, imageSheet(pricing, { size, quality }), 1000));
  expect(nano('2048x2048', 'high')).toBe(240_000_000n);
  expect(nano('', 'high')).toBe(120_000_000n);
  expect(nano('1024x1024', 'high')).toBe(120_000_000n);
  expect(nano('2048x2048', '')).toBe(90_000_000n);
  expect(nano('2048x2048', 'low')).toBe(90_000_000n);
  expect(nano('', '')).toBe(60_000_000n);
  expect(imageSheet(create(PricingSchema, {}), { size: '', quality: '' }).image).toBeNull();
});

test('a plan pays for input, cache writes, cache reads and output, in this order, or for what money has left of them', () => {
  const usage = { input: 10, cacheRead: 20, cacheWrite5m: 30, cacheWrite1h: 40, output: 50, images: 0 };
  const shared = (tokens: number, first: boolean) =>
    shareLines(costLines(usage, sheet, 1000), { tokens, first }).map(line => [line.kind, line.tokens, line.byPlan]);
  expect(shared(85, true)).toEqual([
    ['input', 10, true],
    ['cache_read', 5, true],
    ['cache_read', 15, false],
    ['cache_write_5m', 30, true],
    ['cache_write_1h', 40, true],
    ['output', 50, false],
  ]);
  expect(shared(65, false)).toEqual([
    ['input', 10, false],
    ['cache_read', 5, false],
    ['cache_read', 15, true],
    ['cache_write_5m', 30, false],
    ['cache_write_1h', 40, false],
    ['output', 50, true],
  ]);
  expect(shared(0, true).every(([, , byPlan]) => byPlan === false)).toBe(true);
});

const counts = fc.record({
  input: fc.nat(500),
  cacheRead: fc.nat(500),
  cacheWrite5m: fc.nat(500),
  cacheWrite1h: fc.nat(500),
  output: fc.nat(500),
  images: fc.constant(0),
});

test('splitting keeps the number of tokens: money pays for those that the plan does not pay for', () => {
  fc.assert(
    fc.property(counts, fc.nat(3000), fc.boolean(), (usage, tokens, first) => {
      const lines = costLines(usage, sheet, 500);
      const shared = shareLines(lines, { tokens, first });
      const sum = (of: readonly CostLine[]): number => of.reduce((all, line) => all + line.tokens, 0);
      expect(sum(shared)).toBe(sum(lines));
      expect(sum(shared.filter(line => line.byPlan))).toBe(Math.min(tokens, sum(lines)));
      expect(sumCost(shared.filter(line => line.byPlan))).toBe(0n);
      for (const line of lines) {
        expect(sum(shared.filter(({ kind }) => kind === line.kind))).toBe(line.tokens);
      }
    }),
  );
});

test('an amount covers as many tokens as its rounded cost allows, and not one more', () => {
  const cheap: PriceSheet = { ...sheet, input: 100n, cacheRead: 3n, cacheWrite1h: 0n };
  fc.assert(
    fc.property(counts, fc.bigInt(0n, 2_000_000n), fc.constantFrom(sheet, cheap), (usage, nanoUsd, prices) => {
      const lines = costLines(usage, prices, 1000);
      const all = lines.reduce((sum, line) => sum + line.tokens, 0);
      const within = tokensWithin(lines, nanoUsd);
      const sumFirstCost = (tokens: number): bigint =>
        sumCost(shareLines(lines, { tokens: all - tokens, first: false }).filter(line => !line.byPlan));
      expect(sumFirstCost(within) <= nanoUsd).toBe(true);
      if (within < all && nanoUsd > 0n) expect(sumFirstCost(within + 1) > nanoUsd).toBe(true);
    }),
  );
});

test('an amount of 0 covers no token that has a price, even the lowest one', () => {
  expect(tokensWithin(costLines({ ...nothing, input: 5 }, { ...sheet, input: 1n }, 1000), 0n)).toBe(0);
  expect(tokensWithin(costLines({ ...nothing, input: 5, output: 1 }, { ...sheet, input: 0n }, 1000), 0n)).toBe(5);
});
