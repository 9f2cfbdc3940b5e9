import { afterEach, expect, test } from 'vitest';
import { systemRuntime } from '../lib/runtime.ts';
import { LoadWatch, measureHeapShare, measureLevel } from './load-watch.ts';

const limits = { lagMs: 100, heapShare: 0.7 };
const watches: LoadWatch[] = [];
afterEach(() => {
  for (const watch of watches.splice(0)) watch.close();
});

test.each([
  [{ lagMs: 99, heapShare: 0.69 }, 'calm'],
  [{ lagMs: 100, heapShare: 0 }, 'busy'],
  [{ lagMs: 0, heapShare: 0.7 }, 'busy'],
  [{ lagMs: 200, heapShare: 0 }, 'overloaded'],
  [{ lagMs: 0, heapShare: 0.81 }, 'overloaded'],
  [{ lagMs: 500, heapShare: 0 }, 'critical'],
  [{ lagMs: 0, heapShare: 0.91 }, 'critical'],
] as const)('a load of %o is %s', (load, level) => {
  expect(measureLevel(load, limits)).toBe(level);
});

test('a busy gateway refuses only callers whose key is not in memory, and accounts above twice their share', async () => {
  // The limit is half of the used heap: the load exceeds it, but stays well below the next level.
  const heapShare = measureHeapShare() / 2;
  const watch = new LoadWatch(() => ({ lagMs: 60_000, heapShare }), systemRuntime);
  watches.push(watch);
  await expect.poll(() => watch.level, { timeout: 5_000 }).toBe('busy');
  expect(watch.refusesStranger()?.code).toBe('overloaded');
  for (let running = 0; running < 20; running += 1) watch.begin(1n);
  for (const account of [2n, 3n, 4n]) watch.begin(account);
  expect(watch.refuses(1n)?.facts.retryAfterMs).toBe(2000);
  expect([watch.refuses(2n), watch.refuses(5n)]).toEqual([undefined, undefined]);
  for (let ended = 0; ended < 20; ended += 1) watch.end(1n);
  expect(watch.refuses(1n)).toBeUndefined();
});

test('a calm gateway refuses no one', () => {
  const watch = new LoadWatch(() => ({ lagMs: 60_000, heapShare: 1 }), systemRuntime);
  watches.push(watch);
  for (let running = 0; running < 1000; running += 1) watch.begin(1n);
  expect([watch.refuses(1n), watch.refusesStranger()]).toEqual([undefined, undefined]);
});
