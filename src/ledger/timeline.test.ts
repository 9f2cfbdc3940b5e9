import { expect, test } from 'vitest';
import { readTimeline, type RequestAttempt, writeTimeline } from './timeline.ts';

const done: RequestAttempt = {
  provider: 'acme',
  model: 'large',
  reason: '',
  startedMs: 0,
  firstEventMs: 12,
  durationMs: 40,
  result: 'completed',
  status: undefined,
};

test('a single attempt that needed no choice of a route and completed is not stored', () => {
  expect(writeTimeline({ attempts: [done], extensions: [] })).toBeUndefined();
  expect(writeTimeline({ attempts: [], extensions: [] })).toBeUndefined();
});

test('reading a timeline returns what was written', () => {
  const failed = { ...done, firstEventMs: undefined, result: 'overloaded', status: 529, reason: 'priority' };
  const timeline = {
    attempts: [failed, { ...done, startedMs: 900, reason: 'fallback' }],
    extensions: [{ atMs: 1000, heldNanoUsd: 9_007_199_254_740_993n }],
  };
  expect(readTimeline(writeTimeline(timeline) ?? '')).toEqual(timeline);
});

test('a long timeline is stored with its first entries and the last one', () => {
  const attempts = Array.from({ length: 100 }, (_, index) => ({ ...done, startedMs: index }));
  const read = readTimeline(writeTimeline({ attempts, extensions: [] }) ?? '');
  expect(read.attempts.length).toBe(32);
  expect(read.attempts.at(-1)?.startedMs).toBe(99);
});
