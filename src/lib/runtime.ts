import { type Clock, systemClock } from './clock.ts';

/** A call that is scheduled for later. */
export interface Timer {
  /** Cancels the call. Does nothing if it was already made. */
  cancel(): void;
  /** Schedules the call for `ms` from now, even if it was cancelled or already made. */
  restart(ms: number): void;
}

/**
 * The program's source of time, timers and randomness, so that a test can control all of them. Timers are coarse: they fire
 * up to `tickMs` late, never early, and keep no process alive.
 */
export interface Runtime extends Clock {
  /** Milliseconds since some moment, by a monotonic clock. */
  monotonicMs(): number;
  /** Calls `run` once, `ms` from now. */
  after(ms: number, run: () => void): Timer;
  /** Returns a number in [0, 1), for spreading load, not for secrets. */
  random(): number;
}

/** How late a timer may fire. */
export const tickMs = 20;

/** A timer and its place in the wheel's list. */
class WheelTimer implements Timer {
  readonly #wheel: TimerWheel;
  readonly run: () => void;
  dueMs = 0;
  /** Its index in the list; -1: not in the list. */
  place = -1;

  constructor(wheel: TimerWheel, run: () => void) {
    this.#wheel = wheel;
    this.run = run;
  }

  cancel(): void {
    this.#wheel.remove(this);
  }

  restart(ms: number): void {
    this.#wheel.set(this, ms);
  }
}

/**
 * Runs all timers of the process with one timer of Node.js. They are in an unordered array, and every tick checks each of them: a few thousand
 * comparisons cost less than as many timers of Node.js, and restarting one is a single assignment. It is an array and not a Set or a Map,
 * because V8 keeps moving what passes through those to its old generation.
 */
export class TimerWheel {
  readonly #monotonicMs: () => number;
  readonly #timers: WheelTimer[] = [];
  #ticking: NodeJS.Timeout | undefined;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Calls `run` once, `ms` from now. */
  after(ms: number, run: () => void): Timer {
    const timer = new WheelTimer(this, run);
    this.set(timer, ms);
    return timer;
  }

  /** Sets when a timer fires. */
  set(timer: WheelTimer, ms: number): void {
    timer.dueMs = this.#monotonicMs() + ms;
    if (timer.place >= 0) return;
    timer.place = this.#timers.length;
    this.#timers.push(timer);
    this.#ticking ??= setInterval(() => this.#tick(), tickMs).unref();
  }

  /** Takes a timer out. */
  remove(timer: WheelTimer): void {
    const { place } = timer;
    if (place < 0) return;
    timer.place = -1;
    const last = this.#timers.pop();
    if (last === undefined || last === timer) return;
    this.#timers[place] = last;
    last.place = place;
  }

  #tick(): void {
    const nowMs = this.#monotonicMs();
    // Backwards, because a timer that fires is removed and the last one moves to its index, which has been checked already.
    for (let place = this.#timers.length - 1; place >= 0; place -= 1) {
      const timer = this.#timers[place];
      if (timer === undefined || timer.dueMs > nowMs) continue;
      this.remove(timer);
      timer.run();
    }
    if (this.#timers.length > 0) return;
    clearInterval(this.#ticking);
    this.#ticking = undefined;
  }
}

const wheel = new TimerWheel(() => performance.now());

/** The system's time, timers and randomness. */
export const systemRuntime: Runtime = {
  now: () => systemClock.now(),
  monotonicMs: () => performance.now(),
  after: (ms, run) => wheel.after(ms, run),
  random: Math.random,
};
