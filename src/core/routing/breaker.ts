import type { Clock } from '../../lib/clock.ts';

/** closed: requests pass; open: none does; half_open: one does, and decides. */
export type BreakerState = 'closed' | 'open' | 'half_open';

/** When a breaker opens and for how long. */
export interface BreakerPolicy {
  /** Failed requests in a row that open it. */
  readonly failuresToOpen: number;
  /** How long it stays open before one request may try. */
  readonly openMs: number;
}

/** Source: decisions §4. */
export const defaultBreakerPolicy: BreakerPolicy = { failuresToOpen: 5, openMs: 10_000 };

/** The right of one request to use a route. It reports once what became of it there; later reports do nothing. */
export interface Permit {
  /** The route has begun to answer. */
  answering(): void;
  /** It answered to the end. */
  succeeded(): void;
  /** It failed in a way that counts, after the request's last try there. */
  failed(): void;
  /** Nothing was learnt: the caller left, or the upstream refused for a reason that says nothing about its health. */
  released(): void;
}

/**
 * The circuit breaker of one route. Permits that were given before it last changed say nothing about what it is now, so their
 * reports are ignored.
 */
export class Breaker {
  readonly #clock: Clock;
  readonly #policy: BreakerPolicy;
  readonly #changed: (state: BreakerState) => void;
  #state: BreakerState = 'closed';
  #failures = 0;
  #openedAtMs = 0;
  #probing = false;
  /** Grows whenever the breaker opens: what was permitted before is history. */
  #era = 0;

  constructor(clock: Clock, policy: BreakerPolicy, changed: (state: BreakerState) => void) {
    this.#clock = clock;
    this.#policy = policy;
    this.#changed = changed;
  }

  /** What it is now; an open one whose time is over is half open. */
  get state(): BreakerState {
    return this.#state === 'open' && this.#openIsOver() ? 'half_open' : this.#state;
  }

  /** Whether a request would get a permit now. */
  get passable(): boolean {
    const { state } = this;
    return state === 'closed' || (state === 'half_open' && !this.#probing);
  }

  /** A permit, or undefined where the route must not be used now. */
  acquire(): Permit | undefined {
    if (!this.passable) return undefined;
    const probe = this.state === 'half_open';
    if (probe) {
      this.#probing = true;
      this.#become('half_open');
    }
    return this.#permit(probe);
  }

  #permit(probe: boolean): Permit {
    const era = this.#era;
    let reported = false;
    let answered = false;
    const once = (report: () => void): void => {
      if (reported) return;
      reported = true;
      if (era === this.#era) report();
    };
    return {
      answering: () => {
        if (answered || reported || era !== this.#era) return;
        answered = true;
        // A probe whose route has begun to answer lets the others in, because its own answer may take an hour; the next failure opens the breaker again at once.
        if (probe) this.#close(this.#policy.failuresToOpen - 1);
      },
      succeeded: () => once(() => this.#close(0)),
      failed: () => once(() => this.#countFailure(probe)),
      released: () =>
        once(() => {
          if (probe && !answered) this.#probing = false;
        }),
    };
  }

  /** The wall clock may step back: that must not keep a route shut. */
  #openIsOver(): boolean {
    const elapsed = this.#clock.now() - this.#openedAtMs;
    return elapsed < 0 || elapsed >= this.#policy.openMs;
  }

  /** Lets requests pass; `failures`: how many it has counted already. */
  #close(failures: number): void {
    this.#probing = false;
    this.#failures = failures;
    this.#become('closed');
  }

  #countFailure(probe: boolean): void {
    this.#failures += 1;
    if (!probe && this.#failures < this.#policy.failuresToOpen) return;
    this.#era += 1;
    this.#probing = false;
    this.#failures = 0;
    this.#openedAtMs = this.#clock.now();
    this.#become('open');
  }

  #become(state: BreakerState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#changed(state);
  }
}
