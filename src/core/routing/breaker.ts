import type { Clock } from '../../lib/clock.ts';
import { markRequest } from './request-mark.ts';

/** closed: requests pass; open: none does; half_open: one does, and decides. */
export type BreakerState = 'closed' | 'open' | 'half_open';

/** The thresholds and times of a breaker. */
export interface BreakerPolicy {
  /** Failed requests in a row that open it. */
  readonly failuresToOpen: number;
  /** How long the breaker stays open before it lets one request through. */
  readonly openMs: number;
  /** How long another account counts as a user of the route. */
  readonly usedMs: number;
}

/** Source: docs/architecture.md "Routing". */
export const defaultBreakerPolicy: BreakerPolicy = { failuresToOpen: 5, openMs: 10_000, usedMs: 60_000 };

/** The caller and its request: one account's requests alone do not open the breaker for others. */
export interface BreakerCaller {
  readonly hold: { readonly accountId: number | undefined };
  readonly request: object;
}

/** A counted failure. An unknown account counts as a new one. */
interface CountedFailure {
  readonly accountId: number | undefined;
  readonly mark: string;
}

/** The most failures that are kept while only one account has them. */
const failuresKept = 32;

/** The last use of a route by an account. */
interface RouteUser {
  readonly accountId: number | undefined;
  usedAtMs: number;
}

/** The right of one request to use a route. It reports its result there once; later reports do nothing. */
export interface Permit {
  /** The route has begun to answer. */
  answering(): void;
  /** It answered to the end. */
  succeeded(): void;
  /** It failed in a way that counts, after the request's last attempt there. */
  failed(): void;
  /** Nothing was learned: the caller disconnected, or the upstream refused for a reason that is not about its health. */
  released(): void;
}

/**
 * The circuit breaker of one route. It opens after failures in a row of at least two accounts, or of one that is the
 * only caller; repeated failures of one request count once. Permits from before its last change say nothing about its
 * present state, so their reports are ignored.
 */
export class Breaker {
  readonly #clock: Clock;
  readonly #policy: BreakerPolicy;
  readonly #changed: (state: BreakerState) => void;
  #state: BreakerState = 'closed';
  /** Consecutive failures, each of a different request. */
  #failures: CountedFailure[] = [];
  /** True after the route was open and has begun to answer: the next failure opens it again. */
  #isSuspect = false;
  /** The account that used the route last, and the last other one. */
  #lastUser: RouteUser | undefined;
  #userBefore: RouteUser | undefined;
  #openedAtMs = 0;
  #probing = false;
  /** Grows whenever the breaker opens: results of calls that were permitted before are ignored. */
  #era = 0;

  constructor(clock: Clock, policy: BreakerPolicy, changed: (state: BreakerState) => void) {
    this.#clock = clock;
    this.#policy = policy;
    this.#changed = changed;
  }

  /** The present state; an open breaker whose time has passed is half open. */
  get state(): BreakerState {
    return this.#state === 'open' && this.#openIsOver() ? 'half_open' : this.#state;
  }

  /** Returns whether a request would get a permit now. */
  get passable(): boolean {
    const { state } = this;
    return state === 'closed' || (state === 'half_open' && !this.#probing);
  }

  /** Returns a permit, or undefined if the route must not be used now. `caller` undefined: unknown. */
  acquire(caller?: BreakerCaller): Permit | undefined {
    if (!this.passable) return undefined;
    this.#noteUser(caller?.hold.accountId);
    const probe = this.state === 'half_open';
    if (probe) {
      this.#probing = true;
      this.#become('half_open');
    }
    return this.#permit(probe, caller);
  }

  #permit(probe: boolean, caller: BreakerCaller | undefined): Permit {
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
        // A probe whose route has begun to answer lets others in, because its own answer may take an hour; the next
        // failure opens the breaker again at once.
        if (probe) this.#close(true);
      },
      succeeded: () => once(() => this.#close(false)),
      failed: () => once(() => this.#countFailure(probe, caller)),
      released: () =>
        once(() => {
          if (probe && !answered) this.#probing = false;
        }),
    };
  }

  /** The wall clock may step back: that must not keep a breaker open. */
  #openIsOver(): boolean {
    const elapsed = this.#clock.now() - this.#openedAtMs;
    return elapsed < 0 || elapsed >= this.#policy.openMs;
  }

  /** Closes it; `isSuspect`: the next failure opens it again. */
  #close(isSuspect: boolean): void {
    this.#probing = false;
    if (this.#failures.length > 0) this.#failures = [];
    this.#isSuspect = isSuspect;
    this.#become('closed');
  }

  #countFailure(probe: boolean, caller: BreakerCaller | undefined): void {
    if (!probe && !this.#isSuspect && !this.#opensAfter(caller)) return;
    this.#era += 1;
    this.#probing = false;
    this.#failures = [];
    this.#isSuspect = false;
    this.#openedAtMs = this.#clock.now();
    this.#become('open');
  }

  /** Returns whether this failure, with those before it, opens the breaker. */
  #opensAfter(caller: BreakerCaller | undefined): boolean {
    const accountId = caller?.hold.accountId;
    const mark = accountId === undefined || caller === undefined ? '' : markRequest(caller.request);
    if (mark === '' || !this.#failures.some(failure => failure.mark === mark)) this.#failures.push({ accountId, mark });
    if (this.#failures.length > failuresKept) this.#failures.shift();
    if (this.#failures.length < this.#policy.failuresToOpen) return false;
    if (accountId === undefined || this.#failures.some(failure => failure.accountId !== accountId)) return true;
    return !this.#isUsedByOther(accountId);
  }

  #noteUser(accountId: number | undefined): void {
    const usedAtMs = this.#clock.now();
    if (this.#lastUser !== undefined && this.#lastUser.accountId === accountId) {
      this.#lastUser.usedAtMs = usedAtMs;
      return;
    }
    this.#userBefore = this.#lastUser;
    this.#lastUser = { accountId, usedAtMs };
  }

  #isUsedByOther(accountId: number): boolean {
    const other = this.#lastUser?.accountId === accountId ? this.#userBefore : this.#lastUser;
    return other !== undefined && this.#clock.now() - other.usedAtMs < this.#policy.usedMs;
  }

  #become(state: BreakerState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#changed(state);
  }
}
