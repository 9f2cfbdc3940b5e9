import { expect, test } from 'vitest';
import { killRunningBatch } from '../e2e/batch-kills.ts';

test('50,000 items and 100 kills: every item has one result and one charge, with less than 700 MiB of memory', async () => {
  const line = (item: number): string => (item % 100 === 0 ? 'status=400' : 'tokens=5');
  expect(await killRunningBatch({ items: 50_000, kills: 100, line })).toBeLessThan(700 * 1024 ** 2);
}, 3_600_000);
