/** `test/long/ledger-kill.test.ts` does the same with 200 kills. */
import { expect, test } from 'vitest';
import { killOften } from './kill.ts';

test('after 10 kills (kill -9) under load, nothing acknowledged is lost, nothing is charged twice, and every invariant holds', async () => {
  const { settled, openingCpuMs } = await killOften(10);
  expect(settled).toBeGreaterThan(50);
  expect(openingCpuMs).toBeLessThan(1000);
});
