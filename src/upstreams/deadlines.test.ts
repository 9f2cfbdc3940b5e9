import { expect, test } from 'vitest';
import { systemRuntime, type Runtime } from '../lib/runtime.ts';
import type { UpstreamFailure } from '../generation/upstream.ts';
import { Deadlines } from './deadlines.ts';

const timeouts = { connectMs: 100, firstEventMs: 300, idleMs: 200, totalMs: 1_000 };

/** Returns deadlines whose clock the test controls. */
function driven() {
  let nowMs = 5_000;
  let dueMs = Infinity;
  let settings = 0;
  let run = (): void => undefined;
  const restart = (ms: number): void => {
    settings += 1;
    dueMs = nowMs + ms;
  };
  const runtime: Runtime = {
    ...systemRuntime,
    monotonicMs: () => nowMs,
    after: (ms, fire) => {
      run = fire;
      restart(ms);
      return { cancel: () => (dueMs = Infinity), restart };
    },
  };
  const expired: [kind: string, atMs: number][] = [];
  const deadlines = new Deadlines(timeouts, runtime, ({ kind }: UpstreamFailure) => {
    expired.push([kind, nowMs - 5_000]);
    deadlines.stop();
  });
  const pass = (ms: number): void => {
    for (let each = 0; each < ms; each += 1) {
      nowMs += 1;
      if (nowMs < dueMs) continue;
      dueMs = Infinity;
      run();
    }
  };
  return { deadlines, expired, pass, settings: () => settings };
}

test.each([
  ['connecting', 'connect', 100],
  ['sent', 'first_event_timeout', 300],
  ['answering', 'idle_timeout', 200],
  ['finishing', 'truncated', 1_000],
] as const)('the limit of the phase %s is %s', (phase, kind, atMs) => {
  const { deadlines, expired, pass } = driven();
  deadlines.enter(phase);
  pass(5_000);
  // If the phase may last longer, the total limit expires first.
  expect(expired).toEqual([[phase === 'finishing' ? 'total_timeout' : kind, atMs]]);
});

test('the next phase has its own limit, even a longer one', () => {
  const { deadlines, expired, pass } = driven();
  deadlines.enter('connecting');
  pass(90);
  deadlines.enter('sent');
  pass(290);
  expect(expired).toEqual([]);
  deadlines.enter('answering');
  pass(199);
  deadlines.enter('answering');
  pass(200);
  expect(expired).toEqual([['idle_timeout', 779]]);
});

test('the total limit expires even if bytes keep coming, and the timer is rarely set again', () => {
  const { deadlines, expired, pass, settings } = driven();
  deadlines.enter('sent');
  for (let chunk = 0; chunk < 200; chunk += 1) {
    deadlines.enter('answering');
    pass(10);
  }
  expect(expired).toEqual([['total_timeout', 1_000]]);
  expect(settings()).toBeLessThan(15);
});

test('the idle limit does not run during a pause, and restarts after it; the total limit keeps running', () => {
  const { deadlines, expired, pass } = driven();
  deadlines.enter('answering');
  pass(150);
  deadlines.pause();
  pass(300);
  deadlines.enter('answering');
  pass(300);
  expect(expired).toEqual([]);
  deadlines.resume();
  pass(199);
  expect(expired).toEqual([]);
  pass(1);
  expect(expired).toEqual([['idle_timeout', 950]]);
});

test('a pause does not stop the limit of the first event', () => {
  const first = driven();
  first.deadlines.enter('sent');
  first.deadlines.pause();
  first.pass(300);
  expect(first.expired).toEqual([['first_event_timeout', 300]]);
});

test('nothing expires after a stop', () => {
  const { deadlines, expired, pass } = driven();
  deadlines.enter('sent');
  deadlines.stop();
  pass(5_000);
  expect(expired).toEqual([]);
});
