/** The same with 200 kills: test/long/ledger-kill.test.ts. */
import { expect, test } from 'vitest';
import { killOften } from './kill.ts';

test('killed with -9 under load 10 times: nothing acknowledged is lost, nothing is charged twice, every invariant holds', async () => {
  const { settled, openingCpuMs } = await killOften(10);
  expect(settled).toBeGreaterThan(50);
  expect(openingCpuMs).toBeLessThan(1000);
});
