/** Whatever members a request has, the account is charged exactly what the provider bills, or the request is refused before it is sent. */
import { expect, test } from 'vitest';
import { runBillingCases } from './billing-cases.ts';

test('2,000 random requests are charged what the provider bills for them', { timeout: 180_000 }, async () => {
  const tally = await runBillingCases(2_000, 20_261_129);
  expect(tally.charged).toBeGreaterThan(600);
  expect(tally.refused).toBeGreaterThan(300);
});
