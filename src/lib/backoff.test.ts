import fc from 'fast-check';
import { expect, test } from 'vitest';
import { backoffMs, sleepOn } from './backoff.ts';
import { systemRuntime } from './runtime.ts';

const realSleep = sleepOn(systemRuntime);

const policy = { baseMs: 500, maxMs: 8_000 };

test('the longest wait doubles with each failure up to the maximum, and jitter can reduce a wait to 0', () => {
  const ceilings = [1, 2, 3, 4, 5, 6, 60].map(failures => backoffMs(failures, policy, () => 0.5) * 2);
  expect(ceilings).toEqual([500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
  expect(backoffMs(3, policy, () => 0)).toBe(0);
});

test('a wait that the other side requested is the minimum; jitter adds at most the base', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 100_000 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (failures, requestedMs, drawn) => {
        const wait = backoffMs(failures, policy, () => drawn, requestedMs);
        return wait >= requestedMs && wait <= requestedMs + policy.baseMs;
      },
    ),
  );
});

test('a sleep lasts as long as requested, and rejects with the signal’s reason as soon as the signal is aborted', async () => {
  const started = performance.now();
  await realSleep(30, new AbortController().signal);
  expect(performance.now() - started).toBeGreaterThanOrEqual(28);
  const leaving = new AbortController();
  const slept = realSleep(60_000, leaving.signal);
  leaving.abort(new Error('gone'));
  await expect(slept).rejects.toThrow('gone');
  await expect(realSleep(1, AbortSignal.abort(new Error('gone before')))).rejects.toThrow('gone before');
});
