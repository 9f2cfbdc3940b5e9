import { GatewayError } from '../../errors/gateway-error.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type BackoffPolicy, backoffMs, type Random, type Sleep } from '../../lib/backoff.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Release } from '../../lib/semaphore.ts';
import type { RouteReason } from '../../telemetry/request-telemetry.ts';
import type { BreakerCaller, Permit } from './breaker.ts';
import { clientError, modelUnavailable, providersBusy, toVerdict } from './failure-policy.ts';
import { keyRestMs, type LiveRoute } from './live-routes.ts';

/** How often and how fast a request is retried. */
export interface RetryPolicy {
  /** How many further attempts are made on a route before the next route. */
  readonly retries: number;
  readonly backoff: BackoffPolicy;
  /** The longest `retry-after` that the gateway waits for; if it is longer, the next route is tried. */
  readonly retryAfterMaxMs: number;
  /** How long a request waits, over all its attempts, for keys that are at their rate limits. */
  readonly keyWaitMs: number;
}

/** Source: docs/architecture.md "Routing"; the waits are those of the official clients. */
export const defaultRetryPolicy: RetryPolicy = {
  retries: 2,
  backoff: { baseMs: 500, maxMs: 8_000 },
  retryAfterMaxMs: 15_000,
  keyWaitMs: 30_000,
};

/** The dependencies of `RequestPlan`. */
export interface PlanDependencies {
  readonly policy: RetryPolicy;
  readonly random: Random;
  readonly sleep: Sleep;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
}

/** The routes that a request may use, in order. */
export interface OrderedRoutes {
  readonly routes: readonly LiveRoute[];
  /** Why the first route was chosen; undefined: the model has only one. */
  readonly reason: RouteReason | undefined;
}

/** An attempt to make now. */
export interface PlannedAttempt {
  readonly route: LiveRoute;
  /** Why this route was chosen; undefined: the model has only one. */
  readonly reason: RouteReason | undefined;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly number: number;
}

/** An attempt to make now, or the client's error because none is left. */
export type NextAttempt = PlannedAttempt | Error;

/**
 * Decides which attempt of a request comes next: the routes in order, further attempts on a route after growing waits, and never more at once than the provider's `concurrency`. Call `next()`, then exactly one of `completed()`, `failed()` or `left()`, and `next()` again if `failed()` returned undefined.
 */
export class RequestPlan {
  readonly #dependencies: PlanDependencies;
  readonly #routes: readonly LiveRoute[];
  readonly #model: string;
  readonly #caller: BreakerCaller;
  readonly #reason: RouteReason | undefined;
  #position = 0;
  #route: LiveRoute | undefined;
  #permit: Permit | undefined;
  #slot: Release | undefined;
  #number = 0;
  #failuresHere = 0;
  /** The last failure of this route, as the breaker gets to know it. */
  #report: 'failed' | 'refused' | 'released' = 'released';
  /** How long to wait before the next attempt at the same route; undefined: there is none. */
  #waitMs: number | undefined;
  #failed: GatewayError | undefined;
  #refused: GatewayError | undefined;
  #busy = false;
  /** The routes whose keys rest: they are waited for if no other route is left. */
  readonly #resting: LiveRoute[] = [];
  /** How many attempts have failed at routes that are waited for. */
  readonly #failures = new Map<LiveRoute, number>();
  /** Until when keys are waited for; undefined: none was waited for yet. */
  #keysUntilMs: number | undefined;
  /** The input is too long for contexts up to this length. */
  #contextMin = -1;
  /** The shortest time until a key of a skipped route is usable again. */
  #restMs = Infinity;
  /** Aborts the current wait; undefined: there is none. */
  #waiting: AbortController | undefined;

  /** `model`: the listed id. `caller`: the account and the request, for the breaker. */
  constructor({ routes, reason }: OrderedRoutes, model: string, caller: BreakerCaller, dependencies: PlanDependencies) {
    this.#model = model;
    this.#caller = caller;
    this.#dependencies = dependencies;
    this.#routes = routes;
    this.#reason = reason;
  }

  /** Returns the next attempt; a promise if the attempt has to wait, after a failure or for a free slot. The promise rejects only after `abandon`. */
  next(): NextAttempt | Promise<NextAttempt> {
    return this.#waitMs === undefined ? this.#nextRoute() : this.#sameRoute(this.#waitMs);
  }

  /** Aborts the current wait, because no further attempt is wanted. */
  abandon(): void {
    this.#waiting?.abort(new Error('the request has ended'));
  }

  /** Called when the attempt's answer begins. */
  answering(): void {
    this.#permit?.answering();
  }

  /** Called when the attempt was answered to the end. */
  completed(): void {
    this.#permit?.succeeded();
    this.#giveBack();
  }

  /** Called when the attempt was stopped: because no more of the answer was needed (`enough`), or because the answer is no longer wanted. */
  left(enough: boolean): void {
    if (enough) this.#permit?.succeeded();
    else this.#permit?.released();
    this.#giveBack();
  }

  /** Called when the attempt failed. Returns the client's error if no other attempt may follow. `delivered`: a part of the answer was sent to the client and can't be taken back. */
  failed(failure: Error, delivered: boolean): Error | undefined {
    this.#giveBack();
    if (failure instanceof UpstreamFailure) return this.#recordFailure(failure, delivered);
    this.#report = 'released';
    this.#leaveRoute();
    // A request that this route's protocol can't express may be possible on another route.
    if (!(failure instanceof GatewayError) || delivered) return failure;
    this.#refused ??= failure;
    return undefined;
  }

  #recordFailure(failure: UpstreamFailure, delivered: boolean): GatewayError | undefined {
    const { policy, random } = this.#dependencies;
    const verdict = toVerdict(failure, delivered);
    const requestedMs = failure.facts.retryAfterMs ?? 0;
    this.#failuresHere += 1;
    const { status = 500 } = failure.facts;
    const isRefusal = failure.kind === 'status' && status < 500;
    this.#report = verdict.counts ? 'failed' : isRefusal ? 'refused' : 'released';
    this.#failed = clientError(failure, delivered);
    const isLeft = verdict.retry === 'same_route' && this.#failuresHere <= policy.retries;
    if (isLeft && this.#route !== undefined && keyRestMs(this.#route) > 0) {
      this.#postpone(this.#route);
      return undefined;
    }
    if (isLeft && requestedMs <= policy.retryAfterMaxMs) {
      this.#waitMs = backoffMs(this.#failuresHere, policy.backoff, random, requestedMs);
      return undefined;
    }
    if (verdict.retry === 'longer_route') this.#contextMin = this.#route?.contextLength ?? Infinity;
    this.#leaveRoute();
    return verdict.retry === 'never' || verdict.retry === 'rejected' ? this.#failed : undefined;
  }

  async #sameRoute(waitMs: number): Promise<NextAttempt> {
    await this.#wait(signal => this.#dependencies.sleep(waitMs, signal));
    return this.#route === undefined ? this.#nextRoute() : this.#enter(this.#route);
  }

  /** Returns an attempt at the next route whose breaker lets the request pass. */
  #nextRoute(): NextAttempt | Promise<NextAttempt> {
    while (this.#position < this.#routes.length) {
      const route = this.#routes[this.#position];
      this.#position += 1;
      if (route !== undefined && this.#isTooShort(route)) continue;
      // All keys of its provider are resting, so the route is skipped without asking its breaker.
      if (route !== undefined && keyRestMs(route) > 0) {
        this.#resting.push(route);
        continue;
      }
      const attempt = route === undefined ? undefined : this.#take(route);
      if (attempt !== undefined) return attempt;
    }
    return this.#resting.length > 0 ? this.#afterRest() : this.#nothing();
  }

  /** Begins with a route; undefined if its breaker does not let the request pass. */
  #take(route: LiveRoute): NextAttempt | Promise<NextAttempt> | undefined {
    const permit = route.breaker.acquire(this.#caller);
    if (permit === undefined) return undefined;
    this.#route = route;
    this.#permit = permit;
    this.#failuresHere = this.#failures.get(route) ?? 0;
    this.#report = 'released';
    return this.#enter(route);
  }

  /** Waits for the keys of the route that rest the shortest. */
  async #afterRest(): Promise<NextAttempt> {
    const { policy, runtime } = this.#dependencies;
    for (;;) {
      const route = this.#resting
        .filter(each => !this.#isTooShort(each))
        .toSorted((one, other) => keyRestMs(one) - keyRestMs(other))[0];
      if (route === undefined) return this.#nothing();
      this.#resting.splice(this.#resting.indexOf(route), 1);
      this.#keysUntilMs ??= runtime.monotonicMs() + policy.keyWaitMs;
      const waitMs = this.#keysUntilMs - runtime.monotonicMs();
      const waiter = { keyUser: this.#caller.hold, owner: this.#caller.hold.accountId, waitMs };
      this.#restMs = Math.min(this.#restMs, keyRestMs(route));
      const isReady = await this.#wait(signal => route.keys?.whenReady(route.model, { ...waiter, signal }));
      const attempt = isReady === true ? this.#take(route) : undefined;
      if (attempt !== undefined) return attempt;
    }
  }

  /** Returns whether the input is too long for a route. */
  #isTooShort({ contextLength = Infinity }: LiveRoute): boolean {
    return this.#contextMin >= 0 && contextLength <= this.#contextMin;
  }

  #nothing(): Error {
    return this.#failed ?? this.#refused ?? this.#nowhere();
  }

  #nowhere(): GatewayError {
    if (this.#busy) return providersBusy(this.#model);
    return modelUnavailable(this.#model, this.#restMs === Infinity ? undefined : this.#restMs);
  }

  /** Returns whether all keys of a route rest. If one does not, it is reserved for this request. */
  #isWithoutKey({ keys, model }: LiveRoute): boolean {
    return keys?.reserve(model, this.#caller.hold) === false;
  }

  /** Leaves a route whose keys rest: other routes are tried first. */
  #postpone(route: LiveRoute): void {
    this.#failures.set(route, this.#failuresHere);
    this.#resting.push(route);
    this.#leaveRoute();
  }

  /** Takes a slot of the route's provider for the attempt. */
  #enter(route: LiveRoute): NextAttempt | Promise<NextAttempt> {
    const { semaphore } = route;
    if (semaphore !== undefined) {
      this.#slot = semaphore.take();
      if (this.#slot === undefined) return this.#whenFree(route, semaphore);
    }
    return this.#planAttempt(route);
  }

  async #whenFree(route: LiveRoute, semaphore: NonNullable<LiveRoute['semaphore']>): Promise<NextAttempt> {
    this.#slot = await this.#wait(signal => semaphore.acquire(signal, this.#caller.hold.accountId));
    if (this.#slot !== undefined) return this.#planAttempt(route);
    this.#busy = true;
    this.#leaveRoute();
    return this.#nextRoute();
  }

  #planAttempt(route: LiveRoute): NextAttempt | Promise<NextAttempt> {
    // Other requests may have met the key's limit meanwhile.
    if (this.#isWithoutKey(route)) {
      this.#giveBack();
      this.#postpone(route);
      return this.#nextRoute();
    }
    this.#number += 1;
    return { route, reason: this.#position > 1 ? 'fallback' : this.#reason, number: this.#number };
  }

  /** Waits with a permit of the route, which is released if the wait is abandoned. */
  async #wait<Value>(begin: (signal: AbortSignal) => Promise<Value> | undefined): Promise<Value | undefined> {
    this.#waiting = new AbortController();
    try {
      return await begin(this.#waiting.signal);
    } catch (thrown) {
      this.#permit?.released();
      throw thrown;
    } finally {
      this.#waiting = undefined;
    }
  }

  /** Reports the last failure to the breaker, after the request's last attempt at this route. */
  #leaveRoute(): void {
    this.#waitMs = undefined;
    this.#permit?.[this.#report]();
  }

  #giveBack(): void {
    this.#route?.keys?.release(this.#route.model, this.#caller.hold);
    this.#slot?.();
    this.#slot = undefined;
  }
}
