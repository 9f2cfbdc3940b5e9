import { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';

/** The timeouts of an upstream, in ms. */
export interface UpstreamTimeouts {
  /** For establishing a connection. */
  readonly connectMs: number;
  /** From sending the request to the first event of the answer; if it is not streamed, to its head. */
  readonly firstEventMs: number;
  /** Between bytes of the answer after that. Comments in a stream count as bytes, because a busy upstream sends them. */
  readonly idleMs: number;
  /** For the whole answer. */
  readonly totalMs: number;
}

/** The phases of an attempt, each with its limit in ms, and its failure if the limit passes. */
const phases = {
  /** No connection yet. */
  connecting: { limitMs: ({ connectMs }: UpstreamTimeouts) => connectMs, kind: 'connect' },
  /** The request is being sent, and its answer has not begun. */
  sent: { limitMs: ({ firstEventMs }: UpstreamTimeouts) => firstEventMs, kind: 'first_event_timeout' },
  /** The upstream is still loading its model, and will be retried. */
  loading: { limitMs: ({ firstEventMs }: UpstreamTimeouts) => firstEventMs, kind: 'first_event_timeout' },
  /** The answer has begun. The limit is the time between bytes. */
  answering: { limitMs: ({ idleMs }: UpstreamTimeouts) => idleMs, kind: 'idle_timeout' },
  /** Every choice has ended; usage and the formal end are missing. */
  finishing: { limitMs: () => 2_000, kind: 'truncated' },
  /** The body of an error is being read. */
  refused: { limitMs: () => 5_000, kind: 'truncated' },
  /** The answer is complete, but its connection can't be reused yet. */
  draining: { limitMs: () => 2_000, kind: 'truncated' },
} as const;

/** One of the phases. */
export type Phase = keyof typeof phases;

/** The time limits of one attempt, that of the current phase and the total, with one timer. Call `stop` at the end. */
export class Deadlines {
  readonly #timeouts: UpstreamTimeouts;
  readonly #runtime: Runtime;
  readonly #expired: (failure: UpstreamFailure) => void;
  readonly #timer: Timer;
  readonly #totalAtMs: number;
  #phase: Phase = 'sent';
  /** When the phase expires; Infinity: never. */
  #phaseAtMs = Infinity;
  /** When the timer fires; Infinity: it has fired; -Infinity: it is stopped. */
  #timerAtMs: number;
  #isPaused = false;

  /** `expired` is called when a limit passes. Until `enter` is called, only the total limit runs. */
  constructor(timeouts: UpstreamTimeouts, runtime: Runtime, expired: (failure: UpstreamFailure) => void) {
    this.#timeouts = timeouts;
    this.#runtime = runtime;
    this.#expired = expired;
    this.#totalAtMs = runtime.monotonicMs() + timeouts.totalMs;
    this.#timerAtMs = this.#totalAtMs;
    this.#timer = runtime.after(timeouts.totalMs, () => this.#fire());
  }

  /** Starts or restarts a phase. */
  enter(phase: Phase): void {
    const nowMs = this.#runtime.monotonicMs();
    this.#phase = phase;
    this.#phaseAtMs =
      this.#isPaused && phase === 'answering' ? Infinity : nowMs + phases[phase].limitMs(this.#timeouts);
    this.#arm(nowMs);
  }

  /** Stops the time between bytes, because the receiver has paused the answer. */
  pause(): void {
    this.#isPaused = true;
    if (this.#phase === 'answering') this.#phaseAtMs = Infinity;
  }

  /** Restarts the time between bytes, because the receiver has resumed the answer. */
  resume(): void {
    this.#isPaused = false;
    if (this.#phase === 'answering') this.enter('answering');
  }

  /** Ends all limits; phases that are entered later have none. */
  stop(): void {
    this.#timerAtMs = -Infinity;
    this.#timer.cancel();
  }

  /** Sets the timer. If it would fire too early, it is kept and checks the limits when it fires, because setting it for every chunk would take more time. */
  #arm(nowMs: number): void {
    const dueAtMs = Math.min(this.#phaseAtMs, this.#totalAtMs);
    if (dueAtMs >= this.#timerAtMs) return;
    this.#timerAtMs = dueAtMs;
    this.#timer.restart(dueAtMs - nowMs);
  }

  #fire(): void {
    const nowMs = this.#runtime.monotonicMs();
    this.#timerAtMs = Infinity;
    if (nowMs >= this.#totalAtMs) this.#expired(new UpstreamFailure('total_timeout'));
    else if (nowMs < this.#phaseAtMs) this.#arm(nowMs);
    else {
      const cause = new Error(`time-out while ${this.#phase}`);
      this.#expired(new UpstreamFailure(phases[this.#phase].kind, { cause }));
    }
  }
}
