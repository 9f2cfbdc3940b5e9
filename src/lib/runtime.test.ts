import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { systemRuntime, tickMs, TimerWheel } from './runtime.ts';

let nowMs = 0;
let wheel: TimerWheel;
beforeEach(() => {
  vi.useFakeTimers();
  nowMs = 0;
  wheel = new TimerWheel(() => nowMs);
});
afterEach(() => {
  vi.useRealTimers();
});

/** Advances the time, ms by ms. */
function pass(ms: number): void {
  for (let each = 0; each < ms; each += 1) {
    nowMs += 1;
    vi.advanceTimersByTime(1);
  }
}

test('a timer fires once, never early and at most a tick late', () => {
  for (const ms of [0, 1, tickMs - 1, tickMs, tickMs + 1, 333]) {
    const setMs = nowMs;
    const firedAt: number[] = [];
    wheel.after(ms, () => firedAt.push(nowMs));
    pass(1_000);
    expect(firedAt).toHaveLength(1);
    const tookMs = (firedAt[0] ?? Number.NaN) - setMs;
    expect(tookMs).toBeGreaterThanOrEqual(ms);
    expect(tookMs).toBeLessThanOrEqual(ms + tickMs);
  }
});

test('a cancelled timer does not fire, and is cancelled again without harm', () => {
  let fired = 0;
  const timer = wheel.after(50, () => (fired += 1));
  timer.cancel();
  timer.cancel();
  pass(200);
  expect(fired).toBe(0);
});

test('a restarted timer counts from the restart, even if it was cancelled or has fired', () => {
  const firedAt: number[] = [];
  const timer = wheel.after(100, () => firedAt.push(nowMs));
  pass(90);
  timer.restart(100);
  pass(90);
  expect(firedAt).toEqual([]);
  timer.cancel();
  timer.restart(50);
  pass(80);
  expect(firedAt).toHaveLength(1);
  timer.restart(50);
  pass(80);
  expect(firedAt).toHaveLength(2);
});

test('a timer that restarts itself fires at its interval, at most once a tick', () => {
  let fired = 0;
  const timer = wheel.after(0, () => {
    fired += 1;
    timer.restart(0);
  });
  pass(10 * tickMs);
  expect(fired).toBe(10);
});

test('whichever timers fire and cancel each other in a tick, every other timer fires once', () => {
  for (let firing = 0; firing < 6; firing += 1) {
    for (let cancelled = 0; cancelled < 6; cancelled += 1) {
      const fired: number[] = [];
      const timers = Array.from({ length: 6 }, (_, each) =>
        wheel.after(10, () => {
          fired.push(each);
          if (each === firing) timers[cancelled]?.cancel();
        }),
      );
      pass(3 * tickMs);
      const isTooLate = fired.includes(cancelled);
      expect(fired.toSorted((a, b) => a - b)).toEqual(
        [0, 1, 2, 3, 4, 5].filter(each => isTooLate || each !== cancelled),
      );
    }
  }
});

test('removed timers do not affect the others', () => {
  const fired: number[] = [];
  const timers = Array.from({ length: 20 }, (_, each) => wheel.after(10 * each, () => fired.push(each)));
  for (const each of [19, 0, 7, 8, 3, 18]) timers[each]?.cancel();
  pass(1_000);
  expect(fired.toSorted((a, b) => a - b)).toEqual([1, 2, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
});

test('without timers the wheel uses no timer of Node.js, and with timers it uses one', () => {
  expect(vi.getTimerCount()).toBe(0);
  const timer = wheel.after(10, () => undefined);
  wheel.after(10, () => undefined);
  expect(vi.getTimerCount()).toBe(1);
  pass(2 * tickMs);
  expect(vi.getTimerCount()).toBe(0);
  timer.restart(10);
  expect(vi.getTimerCount()).toBe(1);
});

test('the system’s runtime has wall time, a monotonic clock and randomness', async () => {
  vi.useRealTimers();
  expect(Math.abs(systemRuntime.now() - Date.now())).toBeLessThan(1_000);
  const beganMs = systemRuntime.monotonicMs();
  await new Promise<void>(resolve => {
    systemRuntime.after(30, resolve);
    // The wheel keeps no process alive, and need not keep this one.
    setTimeout(resolve, 5_000).unref();
  });
  expect(systemRuntime.monotonicMs() - beganMs).toBeGreaterThanOrEqual(30);
  expect(systemRuntime.random()).toBeGreaterThanOrEqual(0);
  expect(systemRuntime.random()).toBeLessThan(1);
});
