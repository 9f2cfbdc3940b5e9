import { expect, test } from 'vitest';
import { killOften } from './kill.ts';

test('killed with -9 under load 20 times: nothing acknowledged is lost, nothing is charged twice, every invariant holds', async () => {
  const { settled, openingCpuMs } = await killOften(20);
  expect(settled).toBeGreaterThan(100);
  expect(openingCpuMs).toBeLessThan(1000);
});
