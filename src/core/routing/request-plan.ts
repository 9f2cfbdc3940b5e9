import { GatewayError } from '../../errors/gateway-error.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type BackoffPolicy, backoffMs, type Random, type Sleep } from '../../lib/backoff.ts';
import type { Release } from '../../lib/semaphore.ts';
import type { Permit } from './breaker.ts';
import { clientError, modelUnavailable, providersBusy, verdictOf } from './failure-policy.ts';
import type { LiveRoute } from './live-routes.ts';

/** How often and how fast a request tries again. */
export interface RetryPolicy {
  /** Further tries on a route before the next route. */
  readonly retries: number;
  readonly backoff: BackoffPolicy;
  /** The longest `retry-after` that is waited for; an upstream that asks for more is left for the next route. */
  readonly retryAfterMaxMs: number;
}

/** Source: decisions §1 (`retries`) and §4; the waits are those of the official clients. */
export const defaultRetryPolicy: RetryPolicy = {
  retries: 2,
  backoff: { baseMs: 500, maxMs: 8_000 },
  retryAfterMaxMs: 15_000,
};

/** What the plan needs of the world. */
export interface PlanTools {
  readonly policy: RetryPolicy;
  readonly random: Random;
  readonly sleep: Sleep;
}

/** The request as the plan sees it. */
export interface PlannedRequest {
  /** The listed id. */
  readonly model: string;
  readonly signal: AbortSignal;
}

/** The next try: where, and which one of the request it is. */
export interface PlannedTry {
  readonly route: LiveRoute;
  /** From 1, over all routes. */
  readonly number: number;
}

/**
 * Which try of a request comes next: routes in order, further tries with growing waits, never more at once than a provider
 * takes. Use: `next()`, then exactly one of `completed()`, `failed()` or `left()`, and again `next()` where `failed()` did not throw.
 */
export class RequestPlan {
  readonly #request: PlannedRequest;
  readonly #tools: PlanTools;
  readonly #routes: Iterator<LiveRoute>;
  #route: LiveRoute | undefined;
  #permit: Permit | undefined;
  #slot: Release | undefined;
  #number = 0;
  #failuresHere = 0;
  /** Whether the breaker counts the last failure at this route. */
  #countsHere = false;
  /** The wait before a further try at the same route; undefined: it has had its last. */
  #waitMs: number | undefined;
  #failed: GatewayError | undefined;
  #refused: GatewayError | undefined;
  #busy = false;

  constructor(routes: readonly LiveRoute[], request: PlannedRequest, tools: PlanTools) {
    this.#request = request;
    this.#tools = tools;
    this.#routes = routes.values();
  }

  /**
   * The next try, once its time has come. Throws what the client is told when there is none left, and the signal's reason when
   * it is aborted.
   */
  async next(): Promise<PlannedTry> {
    const { model, signal } = this.#request;
    signal.throwIfAborted();
    for (;;) {
      const route = await this.#nextRoute();
      if (route === undefined) throw this.#failed ?? this.#refused ?? this.#nowhere(model);
      if (route.semaphore !== undefined) {
        this.#slot = await this.#whileHere(route.semaphore.acquire(signal));
        if (this.#slot === undefined) {
          this.#busy = true;
          this.#leaveRoute();
          continue;
        }
      }
      this.#number += 1;
      return { route, number: this.#number };
    }
  }

  /** The try's route has begun to answer. */
  answering(): void {
    this.#permit?.answering();
  }

  /** The try answered to the end. */
  completed(): void {
    this.#permit?.succeeded();
    this.#giveBack();
  }

  /** The reader left before the end: because it had enough of an answer (`enough`), or because nobody wants it any more. */
  left(enough: boolean): void {
    if (enough) this.#permit?.succeeded();
    else this.#permit?.released();
    this.#giveBack();
  }

  /** The try failed. Throws what the client is told where no other may follow. `delivered`: part of it can't be taken back. */
  failed(thrown: unknown, delivered: boolean): void {
    this.#giveBack();
    if (thrown instanceof UpstreamFailure) {
      this.#upstreamFailed(thrown, delivered);
      return;
    }
    this.#countsHere = false;
    this.#leaveRoute();
    // What this route's protocol can't say, another's may.
    if (!(thrown instanceof GatewayError) || delivered) throw thrown;
    this.#refused ??= thrown;
  }

  #upstreamFailed(failure: UpstreamFailure, delivered: boolean): void {
    const { policy, random } = this.#tools;
    const verdict = verdictOf(failure, delivered);
    const askedMs = failure.facts.retryAfterMs ?? 0;
    this.#failuresHere += 1;
    this.#countsHere = verdict.counts;
    this.#failed = clientError(failure, delivered);
    if (verdict.retry === 'same_route' && this.#failuresHere <= policy.retries && askedMs <= policy.retryAfterMaxMs) {
      this.#waitMs = backoffMs(this.#failuresHere, policy.backoff, random, askedMs);
      return;
    }
    this.#leaveRoute();
    if (verdict.retry === 'never' || verdict.retry === 'rejected') throw this.#failed;
  }

  /** The same route after its wait, or the next one whose breaker lets the request pass. */
  async #nextRoute(): Promise<LiveRoute | undefined> {
    if (this.#waitMs !== undefined) {
      await this.#whileHere(this.#tools.sleep(this.#waitMs, this.#request.signal));
      return this.#route;
    }
    for (let step = this.#routes.next(); step.done !== true; step = this.#routes.next()) {
      const permit = step.value.breaker.acquire();
      if (permit === undefined) continue;
      this.#route = step.value;
      this.#permit = permit;
      this.#failuresHere = 0;
      this.#countsHere = false;
      return step.value;
    }
    return undefined;
  }

  /** Waits with the route's permit in hand, which must not be lost when the wait is aborted. */
  async #whileHere<Value>(wait: Promise<Value>): Promise<Value> {
    try {
      return await wait;
    } catch (thrown) {
      this.#permit?.released();
      throw thrown;
    }
  }

  /** The request had its last try at this route: its breaker learns what came of it, once. */
  #leaveRoute(): void {
    this.#waitMs = undefined;
    if (this.#countsHere) this.#permit?.failed();
    else this.#permit?.released();
  }

  #nowhere(model: string): GatewayError {
    return this.#busy ? providersBusy(model) : modelUnavailable(model);
  }

  #giveBack(): void {
    this.#slot?.();
    this.#slot = undefined;
  }
}
