import { expect, test } from 'vitest';
import { readCourse, type RequestTry, writeCourse } from './course.ts';

const done: RequestTry = {
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
  expect(writeCourse({ tries: [done], extensions: [] })).toBeUndefined();
  expect(writeCourse({ tries: [], extensions: [] })).toBeUndefined();
});

test('reading a course returns what was written', () => {
  const failed = { ...done, firstEventMs: undefined, result: 'overloaded', status: 529, reason: 'priority' };
  const course = {
    tries: [failed, { ...done, startedMs: 900, reason: 'fallback' }],
    extensions: [{ atMs: 1000, heldNanoUsd: 9_007_199_254_740_993n }],
  };
  expect(readCourse(writeCourse(course) ?? '')).toEqual(course);
});

test('a long course is stored with its first entries and the last one', () => {
  const tries = Array.from({ length: 100 }, (_, index) => ({ ...done, startedMs: index }));
  const read = readCourse(writeCourse({ tries, extensions: [] }) ?? '');
  expect(read.tries.length).toBe(32);
  expect(read.tries.at(-1)?.startedMs).toBe(99);
});
