import type { Clock } from '../../lib/clock.ts';
import { markRequest } from './request-mark.ts';

/** `closed`: requests pass. `open`: none passes. `half_open`: one passes, and its result closes or opens the breaker. */
export type BreakerState = 'closed' | 'open' | 'half_open';

/** The thresholds and times of a breaker. */
export interface BreakerPolicy {
  /** How many failed requests in a row open the breaker. */
  readonly failuresToOpen: number;
  /** How long the breaker stays open before it lets one request through. */
  readonly openMs: number;
  /** How long after its last request an account counts as a user of the route. */
  readonly usedMs: number;
}

/** Source: docs/architecture.md "Routing". */
export const defaultBreakerPolicy: BreakerPolicy = { failuresToOpen: 5, openMs: 10_000, usedMs: 60_000 };

/** The caller and its request. The breaker needs both, because failed requests of one account alone do not open it for other accounts. */
export interface BreakerCaller {
  readonly hold: { readonly accountId: number | undefined };
  readonly request: object;
}

/** A counted failure. `accountId` undefined: unknown, which counts as a different account each time. `mark` identifies the request; '' if the account is unknown. */
interface CountedFailure {
  readonly accountId: number | undefined;
  readonly mark: string;
}

/** The most failures that are kept while only one account has failed. */
const failuresKept = 32;

/** The last use of a route by an account. */
interface RouteUser {
  readonly accountId: number | undefined;
  usedAtMs: number;
}

/** The right of one request to use a route. The request reports its result through it, once; later reports do nothing. */
export interface Permit {
  /** The route began to answer. */
  answering(): void;
  /** The route answered to the end. */
  succeeded(): void;
  /** The route failed in a way that says something about its health. Reported after the request's last attempt there. */
  failed(): void;
  /** The upstream answered with a refusal, so it works: failures are no longer in a row. Whether the route answers requests is not known, so an open breaker stays open. */
  refused(): void;
  /** The result says nothing about the route's health: the caller disconnected, or the gateway did not send the request. */
  released(): void;
}

/**
 * The circuit breaker of one route. It opens after failures in a row that come from at least two accounts, or from one account that is the only user of the route; repeated failures of one request count once. Reports through permits from before it last opened are ignored.
 */
export class Breaker {
  readonly #clock: Clock;
  readonly #policy: BreakerPolicy;
  readonly #changed: (state: BreakerState) => void;
  #state: BreakerState = 'closed';
  /** The failures in a row, each of a different request. */
  #failures: CountedFailure[] = [];
  /** True if the breaker was open and the route has begun to answer since: the next failure opens the breaker again. */
  #isSuspect = false;
  /** The account that used the route last, and the account that used it before that one. */
  #lastUser: RouteUser | undefined;
  #userBefore: RouteUser | undefined;
  #openedAtMs = 0;
  #probing = false;
  /** Grows whenever the breaker opens: reports of permits with an earlier number are ignored. */
  #era = 0;

  /** Receives the reports of permits; one object for all permits, because every attempt has a permit. */
  readonly #reports: BreakerReports = {
    era: () => this.#era,
    close: isSuspect => this.#close(isSuspect),
    countFailure: (probe, caller) => this.#countFailure(probe, caller),
    endProbe: () => {
      this.#probing = false;
    },
    clearFailures: () => {
      if (this.#failures.length > 0) this.#failures = [];
    },
  };

  constructor(clock: Clock, policy: BreakerPolicy, changed: (state: BreakerState) => void) {
    this.#clock = clock;
    this.#policy = policy;
    this.#changed = changed;
  }

  /** The current state; a breaker that has been open for `openMs` is half open. */
  get state(): BreakerState {
    return this.#state === 'open' && this.#openIsOver() ? 'half_open' : this.#state;
  }

  /** True if a request would get a permit now. */
  get passable(): boolean {
    const { state } = this;
    return state === 'closed' || (state === 'half_open' && !this.#probing);
  }

  /** Returns a permit; undefined if the route must not be used now. `caller` undefined: unknown. */
  acquire(caller?: BreakerCaller): Permit | undefined {
    if (!this.passable) return undefined;
    this.#noteUser(caller?.hold.accountId);
    const probe = this.state === 'half_open';
    if (probe) {
      this.#probing = true;
      this.#become('half_open');
    }
    return new BreakerPermit(this.#reports, this.#era, probe, caller);
  }

  /** Returns whether `openMs` has passed. If the wall clock has stepped back, it counts as passed: a breaker must not stay open because of that. */
  #openIsOver(): boolean {
    const elapsed = this.#clock.now() - this.#openedAtMs;
    return elapsed < 0 || elapsed >= this.#policy.openMs;
  }

  /** Closes the breaker. `isSuspect`: the next failure opens it again. */
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

  /** Counts a failure, and returns whether it opens the breaker. */
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

/** Handles the reports of a breaker's permits. */
interface BreakerReports {
  /** Returns the number that the breaker gives to new permits. */
  readonly era: () => number;
  readonly close: (isSuspect: boolean) => void;
  readonly countFailure: (probe: boolean, caller: BreakerCaller | undefined) => void;
  readonly endProbe: () => void;
  readonly clearFailures: () => void;
}

class BreakerPermit implements Permit {
  readonly #breaker: BreakerReports;
  readonly #era: number;
  readonly #probe: boolean;
  readonly #caller: BreakerCaller | undefined;
  #hasReported = false;
  #hasAnswered = false;

  constructor(breaker: BreakerReports, era: number, probe: boolean, caller: BreakerCaller | undefined) {
    this.#breaker = breaker;
    this.#era = era;
    this.#probe = probe;
    this.#caller = caller;
  }

  answering(): void {
    if (this.#hasAnswered || this.#hasReported || !this.#counts) return;
    this.#hasAnswered = true;
    // Lets other requests pass as soon as the probe's answer begins, because that answer may take an hour. The next failure opens the breaker again at once.
    if (this.#probe) this.#breaker.close(true);
  }

  succeeded(): void {
    if (this.#isFirstReport()) this.#breaker.close(false);
  }

  failed(): void {
    if (this.#isFirstReport()) this.#breaker.countFailure(this.#probe, this.#caller);
  }

  refused(): void {
    if (this.#counts && !this.#hasReported) this.#breaker.clearFailures();
    this.released();
  }

  released(): void {
    if (this.#isFirstReport() && this.#probe && !this.#hasAnswered) this.#breaker.endProbe();
  }

  /** False if the breaker has opened since the permit was made. */
  get #counts(): boolean {
    return this.#era === this.#breaker.era();
  }

  /** Returns whether a report counts: the first one does, unless the breaker has opened. */
  #isFirstReport(): boolean {
    if (this.#hasReported) return false;
    this.#hasReported = true;
    return this.#counts;
  }
}
