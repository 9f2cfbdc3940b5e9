import { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';

/** How long an upstream may take, in ms. */
export interface UpstreamTimeouts {
  /** To take a connection. */
  readonly connectMs: number;
  /** From the sent request to the first event of the answer; to its head if it was asked for whole. */
  readonly firstEventMs: number;
  /** Between any bytes of the answer after that; comments count, they are what a busy upstream sends. */
  readonly idleMs: number;
  /** For all of it. */
  readonly totalMs: number;
}

/** How far an attempt has come. Each phase has a time limit of its own. */
export type DeadlinePhase =
  | 'connecting' // no connection yet
  | 'sent' // the request goes out, its answer has not begun
  | 'answering' // the answer has begun: the limit is between any bytes
  | 'finishing' // every choice has ended, usage and the formal end are missing
  | 'refused' // the body of an error is being read
  | 'draining'; // the answer is whole, and its connection not yet free

/** How long usage and the end may take after the last choice has ended. */
const graceMs = 2_000;
/** How long the body of an error may take. */
const errorBodyMs = 5_000;
/** How long a connection may take to become free after a whole answer. */
const drainMs = 2_000;

/** A limit has passed that is no failure of the upstream: what has come is all that there is. */
export class GraceOver extends Error {
  override readonly name = 'GraceOver';
}

/** The time limits of one attempt, phase and total in one timer. `stop` ends them. */
export class Deadlines {
  readonly #timeouts: UpstreamTimeouts;
  readonly #runtime: Runtime;
  readonly #expired: (reason: Error) => void;
  readonly #timer: Timer;
  readonly #totalAtMs: number;
  #phase: DeadlinePhase = 'connecting';
  /** When the phase's time is over; Infinity: it does not run. */
  #phaseAtMs = Infinity;
  /** When the timer fires; Infinity: it does not. */
  #dueAtMs: number;
  #isPaused = false;

  /** Calls `expired` with the failure, or with `GraceOver`, when a limit passes. Only the total limit runs until `enter`. */
  constructor(timeouts: UpstreamTimeouts, runtime: Runtime, expired: (reason: Error) => void) {
    this.#timeouts = timeouts;
    this.#runtime = runtime;
    this.#expired = expired;
    this.#totalAtMs = runtime.monotonicMs() + timeouts.totalMs;
    this.#dueAtMs = this.#totalAtMs;
    this.#timer = runtime.after(timeouts.totalMs, () => this.#fire());
  }

  /** Begins a phase, or begins it again. */
  enter(phase: DeadlinePhase): void {
    const nowMs = this.#runtime.monotonicMs();
    this.#phase = phase;
    this.#phaseAtMs = this.#isPaused && phase === 'answering' ? Infinity : nowMs + this.#limitMs(phase);
    this.#arm(nowMs);
  }

  /** The receiver has enough for now: the time between bytes does not run. */
  pause(): void {
    this.#isPaused = true;
    if (this.#phase === 'answering') this.#phaseAtMs = Infinity;
  }

  /** The receiver wants more again: the time between bytes begins anew. */
  resume(): void {
    this.#isPaused = false;
    if (this.#phase === 'answering') this.enter('answering');
  }

  /** Ends all limits. */
  stop(): void {
    this.#timer.cancel();
  }

  /** A timer that is too early looks again when it fires: cheaper than setting it anew for every chunk. */
  #arm(nowMs: number): void {
    const dueAtMs = Math.min(this.#phaseAtMs, this.#totalAtMs);
    if (dueAtMs >= this.#dueAtMs) return;
    this.#dueAtMs = dueAtMs;
    this.#timer.restart(dueAtMs - nowMs);
  }

  #fire(): void {
    const nowMs = this.#runtime.monotonicMs();
    this.#dueAtMs = Infinity;
    if (nowMs >= this.#totalAtMs) this.#expired(new UpstreamFailure('total_timeout'));
    else if (nowMs >= this.#phaseAtMs) this.#expired(failureIn(this.#phase));
    else this.#arm(nowMs);
  }

  #limitMs(phase: DeadlinePhase): number {
    switch (phase) {
      case 'connecting':
        return this.#timeouts.connectMs;
      case 'sent':
        return this.#timeouts.firstEventMs;
      case 'answering':
        return this.#timeouts.idleMs;
      case 'finishing':
        return graceMs;
      case 'refused':
        return errorBodyMs;
      case 'draining':
        return drainMs;
    }
  }
}

function failureIn(phase: DeadlinePhase): Error {
  switch (phase) {
    case 'connecting':
      return new UpstreamFailure('connect', { cause: new Error('connect time-out') });
    case 'sent':
      return new UpstreamFailure('first_event_timeout');
    case 'answering':
      return new UpstreamFailure('idle_timeout');
    case 'finishing':
    case 'refused':
    case 'draining':
      return new GraceOver(`the upstream took too long while ${phase}`);
  }
}
