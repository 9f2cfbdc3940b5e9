/** 200,000 random requests are charged what the provider bills for them, or refused before they are sent. */
import { expect, test } from 'vitest';
import { runBillingCases } from '../e2e/billing-cases.ts';

test.each(Array.from({ length: 20 }, (_, index) => 41_000 + index))('10,000 requests with the seed %i', async seed => {
  const tally = await runBillingCases(10_000, seed);
  expect(tally.charged).toBeGreaterThan(3_000);
  expect(tally.refused).toBeGreaterThan(1_500);
});
