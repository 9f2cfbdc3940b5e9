import { expect, test } from 'vitest';
import { addLimitHeaders, resetText } from './limit-headers.ts';

test.each([
  [-5, '0s'],
  [0, '0s'],
  [1, '1s'],
  [12_000, '12s'],
  [59_001, '1m0s'],
  [90_000, '1m30s'],
  [21_600_000, '6h0m0s'],
  [86_399_000, '23h59m59s'],
])('%i ms are written %s', (ms, text) => {
  expect(resetText(ms)).toBe(text);
});

test('the window with the least remaining is reported, at any position', () => {
  const day = { limit: 'daily_limit', unit: 'requests', max: 1000, remaining: 900, resetAtMs: 90_000 } as const;
  const minute = { limit: 'minute_limit', unit: 'requests', max: 60, remaining: 7, resetAtMs: 13_000 } as const;
  const expected = {
    'x-ratelimit-limit-requests': 60,
    'x-ratelimit-remaining-requests': 7,
    'x-ratelimit-reset-requests': '12s',
  };
  expect(addLimitHeaders({}, [day, minute], 1000)).toEqual(expected);
  expect(addLimitHeaders({}, [minute, day], 1000)).toEqual(expected);
});

test('a key without windows gets no limit headers', () => {
  expect(addLimitHeaders({}, [], 0)).toEqual({});
});
