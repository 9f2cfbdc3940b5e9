import { GatewayError } from '../../errors/gateway-error.ts';
import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { type Random, type Sleep, sleepOn } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { type BreakerCaller, type BreakerPolicy, type BreakerState, defaultBreakerPolicy } from './breaker.ts';
import { keyRestMs, type LiveRoute, LiveRoutes } from './live-routes.ts';
import { Findings, type RouteFindings, type UsageDoubt } from './route-findings.ts';
import type { RouteName, RoutingObserver } from './observer.ts';
import { defaultRetryPolicy, type OrderedRoutes, RequestPlan, type RetryPolicy } from './request-plan.ts';
import { RoutedCall, type RoutedReceiver, type RoutedRequest, toOutcome } from './routed-call.ts';
import { RouteStrategies } from './route-strategy.ts';
import { carriesTier, type RouteStrategy, type RoutingConfig } from './route-table.ts';
import { StickyRoutes } from './sticky-routes.ts';
import type { Operation, RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { TimelineRecord } from '../timeline-record.ts';
import { readTier, standardTier } from '../../generation/service-tier.ts';
import type { AttemptWatch } from '../../generation/upstream.ts';
import { KeyWatch } from './key-watch.ts';

/** The options of a router. Absent options have their defaults. */
export interface RouterOptions {
  readonly config: RoutingConfig;
  readonly clock: Clock;
  readonly retry?: RetryPolicy;
  readonly breaker?: BreakerPolicy;
  readonly observer?: RoutingObserver;
  readonly runtime?: Runtime;
  readonly random?: Random;
  readonly sleep?: Sleep;
}

/** A request whose answer is not streamed (images, embeddings, rerank), to be answered by the routes of its model. */
export interface RoutedWork<Answer> {
  /** The listed id of the model. */
  readonly model: string;
  /** The account and the request, for the breaker, and the hold. */
  readonly caller: BreakerCaller;
  /** The public request id, for logs. */
  readonly requestId: string;
  readonly operation: Operation;
  /** Collects facts about the request; absent: they are not collected. */
  readonly telemetry?: RequestTelemetry | undefined;
  readonly timeline?: TimelineRecord | undefined;
  /** Aborted when the answer is no longer wanted. */
  readonly signal: AbortSignal;
  /** Called when an attempt is sent to an upstream. */
  readonly onAttempt: () => void;
  /**
   * Calls the upstream of a route. `number`: the attempt's number within the request, from 1. `watch` observes it. Throws
   * `UpstreamFailure`, and the signal's reason once it is aborted.
   */
  readonly attempt: (route: LiveRoute, number: number, watch: AttemptWatch) => Promise<Answer>;
}

/** An answer and its route. */
export interface Routed<Answer> {
  readonly answer: Answer;
  readonly route: RouteName;
  /** The provider's prices; undefined: unknown. */
  readonly cost: Pricing | undefined;
}

const unobserved: RoutingObserver = {};

/** The longest that a provider may take to count tokens. */
const ownCountMs = 2_000;

/** Answers requests through the routes of their model, with retries, next routes and circuit breakers. Source: docs/architecture.md "Routing". */
export class Router {
  readonly #routes: LiveRoutes;
  readonly #observer: RoutingObserver;
  readonly #sticky = new StickyRoutes();
  readonly #findings: Findings;
  readonly #strategies: RouteStrategies;
  #config: RoutingConfig;
  readonly #runtime: Runtime;
  readonly #random: Random;
  readonly #sleep: Sleep;
  #retry: RetryPolicy;

  constructor(options: RouterOptions) {
    this.#observer = options.observer ?? unobserved;
    this.#findings = new Findings(this.#observer);
    this.#runtime = options.runtime ?? systemRuntime;
    this.#random = options.random ?? (() => this.#runtime.random());
    this.#sleep = options.sleep ?? sleepOn(this.#runtime);
    this.#retry = options.retry ?? defaultRetryPolicy;
    this.#strategies = new RouteStrategies({ clock: options.clock, random: this.#random });
    this.#config = options.config;
    this.#routes = new LiveRoutes(options.config, {
      clock: options.clock,
      breaker: options.breaker ?? defaultBreakerPolicy,
      observer: this.#observer,
    });
  }

  /** Applies another configuration. Running requests keep their routes. The breakers of routes that still exist keep their state. */
  replace(config: RoutingConfig, retry: RetryPolicy): void {
    this.#routes.replace(config);
    this.#config = config;
    this.#retry = retry;
  }

  /** Returns whether any route of the model can be tried now, or soon enough to wait for it; false for a model without routes. */
  isAvailable(modelId: string): boolean {
    return this.#routes.of(modelId).some(route => route.breaker.passable && keyRestMs(route) <= this.#retry.keyWaitMs);
  }

  /**
   * Returns true if another request of the model would get a slot immediately at each of the model's providers. `running`: how many requests of the model run, including those that have no slot yet.
   */
  hasRoom(modelId: string, running: number): boolean {
    return this.#routes.of(modelId).every(({ semaphore }) => semaphore?.hasRoom(running) !== false);
  }

  /** Returns how long it takes until a key for an unavailable model is usable again, in ms; undefined: the model is not unavailable because of keys. */
  restMs(modelId: string): number | undefined {
    const rests = this.#routes.of(modelId).map(keyRestMs);
    const shortest = Math.min(...rests.filter(ms => ms > 0));
    return shortest === Infinity ? undefined : shortest;
  }

  /** Returns how many upstream calls a request needs, each with the whole input, on the route of the model that needs the most. */
  callsFor(request: GenerateRequest): number {
    let most = 1;
    for (const { upstream, model } of this.#routes.of(request.model)) {
      most = Math.max(most, upstream?.callsFor?.(request, model) ?? 1);
    }
    return most;
  }

  /**
   * Returns the input tokens of a request as counted by the provider of a route (`at` absent: of the first route); undefined if that provider can't count, fails, or takes too long.
   */
  async countTokens(request: GenerateRequest, at?: RouteName): Promise<number | undefined> {
    const routes = this.#routes.of(request.model);
    const route = routes.find(({ name, breaker }) => (at === undefined ? breaker.passable : name === at));
    if (route?.upstream?.countTokens === undefined) return undefined;
    const leaving = new AbortController();
    const timer = this.#runtime.after(ownCountMs, () => leaving.abort(new Error('the provider did not count in time')));
    try {
      return await route.upstream.countTokens(request, route.model, leaving.signal);
    } catch {
      // For example an older server, or one that is loading. The gateway then counts by itself.
      return undefined;
    } finally {
      timer.cancel();
    }
  }

  /** Returns the names of a model's routes, in the configured order. */
  routeNames(modelId: string): readonly RouteName[] {
    return this.#routes.of(modelId).map(({ name }) => name);
  }

  /** Returns all routes in their current state; those of a model are in the configured order. */
  routes(): readonly LiveRoute[] {
    return this.#routes.all();
  }

  /** Returns the state of every route's breaker. */
  breakers(): { route: RouteName; state: BreakerState }[] {
    return this.#routes.all().map(({ name, breaker }) => ({ route: name, state: breaker.state }));
  }

  /** Returns the findings about a route. */
  findings(route: RouteName): RouteFindings {
    return this.#findings.of(route);
  }

  /** Records that the route's provider has cut a prompt. */
  inputCut(route: RouteName): void {
    this.#findings.inputCut(route);
  }

  /** Records the members that the route's provider may have billed without a price here. */
  unpriced(route: RouteName, members: readonly string[]): void {
    this.#findings.unpriced(route, members);
  }

  /** Records that a report of the route's provider is not believed. */
  usageDoubtful(route: RouteName, doubt: UsageDoubt): void {
    this.#findings.usageDoubtful(route, doubt);
  }

  /** Returns how a model's routes are ordered. */
  strategy(modelId: string): RouteStrategy {
    return this.#config.strategies?.get(modelId) ?? 'priority';
  }

  /**
   * Returns a call that pushes the answer to `receiver` after its `start`. Throws `unsupported_feature` if no route supports the request's service tier.
   */
  route(routed: RoutedRequest, receiver: RoutedReceiver): RoutedCall {
    const { request } = routed;
    const choices = this.#routes.of(request.model).length;
    return new RoutedCall(
      {
        plan: this.#plan(this.#routesFor(request, routed.whole), request.model, routed),
        observer: this.#observer,
        runtime: this.#runtime,
        answerBegan: (route, model) => {
          this.#findings.answered(route.name, model);
          this.#sticky.recordRoute(request, route.name, choices);
        },
      },
      routed,
      receiver,
    );
  }

  /**
   * Returns the answer to a request, with as many attempts as it takes. Throws the client's error; if the signal is aborted, its reason.
   */
  async perform<Answer>(work: RoutedWork<Answer>): Promise<Routed<Answer>> {
    const { model, caller, signal } = work;
    signal.throwIfAborted();
    const ordered = this.#strategies.order(this.#routes.of(model), this.strategy(model), true);
    const plan = this.#plan(ordered, model, caller);
    // How often the request was sent again because a provider had refused a key.
    const sent = { again: 0 };
    const abandon = (): void => plan.abandon();
    signal.addEventListener('abort', abandon, { once: true });
    try {
      for (;;) {
        const answer = await this.#performOnce(work, plan, sent);
        if (answer !== undefined) return answer;
      }
    } catch (thrown) {
      signal.throwIfAborted();
      throw thrown;
    } finally {
      signal.removeEventListener('abort', abandon);
    }
  }

  /** Makes one attempt. Returns the answer; undefined: the attempt failed, and another one may follow. */
  async #performOnce<Answer>(
    work: RoutedWork<Answer>,
    plan: RequestPlan,
    sent: { again: number },
  ): Promise<Routed<Answer> | undefined> {
    const next = await plan.next();
    if (next instanceof Error) throw next;
    const { route, reason } = next;
    const number = next.number + sent.again;
    const { signal, telemetry, timeline } = work;
    const attempt = { route: route.name, requestId: work.requestId, number };
    let startedAtMs = this.#runtime.monotonicMs();
    const ended = (result: ReturnType<typeof toOutcome>): void => {
      const outcome = { ...result, durationMs: this.#runtime.monotonicMs() - startedAtMs };
      route.record.add(outcome, true);
      telemetry?.attemptEnded(result, result.failure?.facts.logMessage);
      timeline?.attemptEnded(outcome);
      this.#observer.attemptEnded?.(attempt, outcome);
    };
    const began = (now: number): void => {
      work.onAttempt();
      telemetry?.attemptBegan(route.name, now, reason, work.operation);
      timeline?.attemptBegan(route.name, reason);
    };
    const watch = new KeyWatch(telemetry, failure => {
      // An attempt of its own, for which the route is not at fault.
      const outcome = { ...toOutcome(failure), durationMs: this.#runtime.monotonicMs() - startedAtMs };
      telemetry?.attemptEnded(outcome, failure.facts.logMessage);
      timeline?.attemptEnded(outcome);
      sent.again += 1;
      startedAtMs = this.#runtime.monotonicMs();
      began(next.number + sent.again);
    });
    began(number);
    this.#observer.attemptStarted?.(attempt);
    try {
      const answer = await work.attempt(route, number, watch);
      plan.completed();
      ended({ result: 'completed' });
      return { answer, route: route.name, cost: route.cost };
    } catch (thrown) {
      ended(signal.aborted ? { result: 'aborted' } : toOutcome(thrown));
      if (signal.aborted) plan.left(false);
      signal.throwIfAborted();
      const error = plan.failed(thrown instanceof Error ? thrown : new Error('failed', { cause: thrown }), false);
      if (error !== undefined) throw error;
      return undefined;
    }
  }

  #plan(routes: OrderedRoutes, model: string, caller: BreakerCaller): RequestPlan {
    const dependencies = { policy: this.#retry, random: this.#random, sleep: this.#sleep, runtime: this.#runtime };
    return new RequestPlan(routes, model, caller, dependencies);
  }

  #routesFor(request: GenerateRequest, whole: boolean): OrderedRoutes {
    const all = this.#routes.of(request.model);
    const tier = readTier(request) ?? standardTier;
    const able = all.every(route => carriesTier(route, tier)) ? all : all.filter(route => carriesTier(route, tier));
    if (able.length === 0 && all.length > 0) {
      throw new GatewayError('unsupported_feature', `No provider of ${request.model} has the requested service tier.`, {
        param: 'service_tier',
      });
    }
    const strategy = this.strategy(request.model);
    const ordered = this.#strategies.order(able, strategy, whole);
    const routes = this.#sticky.ordered(ordered.routes, request, strategy !== 'priority');
    return routes[0] === ordered.routes[0] ? ordered : { routes, reason: 'conversation' };
  }
}
