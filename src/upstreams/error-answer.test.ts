import { expect, test } from 'vitest';
import { UpstreamFailure } from '../generation/upstream.ts';
import { cleanFailure, retryAfterMs } from './error-answer.ts';

const clock = { now: () => Date.UTC(2026, 10, 21, 12, 0, 0) };

test.each([
  [{ 'retry-after': '7' }, 7_000],
  [{ 'retry-after': ' 1.5 ' }, 1_500],
  [{ 'retry-after': '0' }, 0],
  [{ 'retry-after': ['3', '9'] }, 3_000],
  [{ 'retry-after-ms': '250', 'retry-after': '7' }, 250],
  [{ 'retry-after-ms': 'soon', 'retry-after': '7' }, 7_000],
  [{ 'retry-after': 'Sat, 21 Nov 2026 12:00:30 GMT' }, 30_000],
  [{ 'retry-after': 'Sat, 21 Nov 2026 11:00:00 GMT' }, 0],
  [{ 'retry-after': '999999999' }, 86_400_000],
  [{ 'retry-after': '-5' }, undefined],
  [{ 'retry-after': 'later' }, undefined],
  [{ 'retry-after': '' }, undefined],
  [{}, undefined],
])('%j asks to wait %s ms', (headers, expected) => {
  expect(retryAfterMs(headers, clock)).toBe(expected);
});

test('a cleaned failure keeps everything except its texts', () => {
  const cause = new Error('socket hang up');
  const failure = new UpstreamFailure('reported', {
    status: 500,
    message: 'secret',
    param: 'a b',
    retryAfterMs: 5,
    cause,
  });
  const cleaned = cleanFailure(failure, text => text.replace('secret', 'x'));
  expect([cleaned.kind, cleaned.facts, cleaned.cause]).toEqual([
    'reported',
    { status: 500, message: 'x', retryAfterMs: 5, cause },
    cause,
  ]);
});

test('a code is kept unchanged; a code that contains a secret is removed', () => {
  const coded = (detailCode: string) =>
    cleanFailure(new UpstreamFailure('status', { detailCode }), text => text.replace('secret', 'x')).facts;
  expect([coded('thread_unsupported_request'), coded('secret_1')]).toEqual([
    { detailCode: 'thread_unsupported_request' },
    {},
  ]);
});
