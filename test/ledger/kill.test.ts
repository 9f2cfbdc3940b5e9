import { expect, test } from 'vitest';
import { killOften } from './kill.ts';

test('killed with -9 under load 20 times: nothing acknowledged is lost, nothing is charged twice, every invariant holds', async () => {
  const { settled, openedInMs } = await killOften(20);
  expect(settled).toBeGreaterThan(100);
  // Beside other tests; `test/long` measures alone.
  expect(openedInMs).toBeLessThan(20_000);
});
