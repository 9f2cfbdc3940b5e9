import { GatewayError } from '../../errors/gateway-error.ts';
import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { type Random, type Sleep, sleepOn } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { type BreakerCaller, type BreakerPolicy, type BreakerState, defaultBreakerPolicy } from './breaker.ts';
import { type LiveRoute, LiveRoutes } from './live-routes.ts';
import { Findings, type RouteFindings } from './route-findings.ts';
import type { RouteName, RoutingObserver } from './observer.ts';
import { defaultRetryPolicy, type OrderedRoutes, RequestPlan, type RetryPolicy } from './request-plan.ts';
import { RoutedCall, type RoutedReceiver, type RoutedRequest, toOutcome } from './routed-call.ts';
import { RouteStrategies } from './route-strategy.ts';
import { carriesTier, type RouteStrategy, type RoutingConfig } from './route-table.ts';
import { StickyRoutes } from './sticky-routes.ts';
import type { Operation, RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { TimelineRecord } from '../timeline-record.ts';

/** The options of a router; anything left out has its default. */
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

/** A request whose answer is not streamed (images, vectors), as the routes of its model see it. */
export interface RoutedWork<Answer> {
  /** The listed id of the model. */
  readonly model: string;
  /** The account and key of the request. */
  readonly caller: BreakerCaller;
  /** The public request id, for logs. */
  readonly requestId: string;
  readonly operation: Operation;
  /** Absent: not traced. */
  readonly telemetry?: RequestTelemetry | undefined;
  readonly timeline?: TimelineRecord | undefined;
  /** Aborted when the answer is no longer wanted. */
  readonly signal: AbortSignal;
  /** Called when an attempt goes to an upstream. */
  readonly onAttempt: () => void;
  /**
   * Calls the upstream of a route. `number`: the attempt's number within the request, from 1. Throws
   * `UpstreamFailure`, and the signal's reason once it is aborted.
   */
  readonly attempt: (route: LiveRoute, number: number) => Promise<Answer>;
}

/** An answer and its route. */
export interface Routed<Answer> {
  readonly answer: Answer;
  readonly route: RouteName;
  /** Its provider's charge; undefined: unknown. */
  readonly cost: Pricing | undefined;
}

const unobserved: RoutingObserver = {};

/** How long a provider may take to count. */
const ownCountMs = 2_000;

/** Answers requests by the routes of their model: attempts, retries, next routes, circuit breakers. Source: docs/architecture.md "Routing". */
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

  /** Applies another configuration; running requests keep their routes, breakers of routes that stay keep their state. */
  replace(config: RoutingConfig, retry: RetryPolicy): void {
    this.#routes.replace(config);
    this.#config = config;
    this.#retry = retry;
  }

  /** Returns whether some route of the model could be tried now; false for a model without routes. */
  isAvailable(modelId: string): boolean {
    return this.#routes.of(modelId).some(route => route.breaker.passable && route.keys?.isUsable !== false);
  }

  /**
   * Returns true if another request of the model would find a free slot at each of its providers, with none waiting. `running`: how many
   * run, including those still without a slot.
   */
  hasRoom(modelId: string, running: number): boolean {
    return this.#routes.of(modelId).every(({ semaphore }) => semaphore?.hasRoom(running) !== false);
  }

  /** Returns how many ms remain until a key of an unavailable model is usable again; undefined: its keys are not the reason. */
  restMs(modelId: string): number | undefined {
    const rests = this.#routes.of(modelId).map(({ keys }) => keys?.restMs ?? 0);
    const shortest = Math.min(...rests.filter(ms => ms > 0));
    return shortest === Infinity ? undefined : shortest;
  }

  /** Returns the most upstream calls that a route of the model makes for a request, each with the whole input. */
  callsFor(request: GenerateRequest): number {
    let most = 1;
    for (const { upstream, model } of this.#routes.of(request.model)) {
      most = Math.max(most, upstream?.callsFor?.(request, model) ?? 1);
    }
    return most;
  }

  /**
   * Counts a request's input at the provider of a route (absent: of its first route); undefined if that provider has no count, or not in
   * time.
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
      // An older server, or one that is loading: the gateway has its own counts.
      return undefined;
    } finally {
      timer.cancel();
    }
  }

  /** Returns every route in its present state, those of a model in the order of the configuration. */
  routes(): readonly LiveRoute[] {
    return this.#routes.all();
  }

  /** The state of every route's breaker. */
  breakers(): { route: RouteName; state: BreakerState }[] {
    return this.#routes.all().map(({ name, breaker }) => ({ route: name, state: breaker.state }));
  }

  /** Returns what answers have shown about a route. */
  findings(route: RouteName): RouteFindings {
    return this.#findings.of(route);
  }

  /** Records that the route's provider has read far less of a prompt than was sent. */
  inputCut(route: RouteName): void {
    this.#findings.inputCut(route);
  }

  /** Returns how a model's routes are ordered. */
  strategy(modelId: string): RouteStrategy {
    return this.#config.strategies?.get(modelId) ?? 'priority';
  }

  /**
   * Returns a call that pushes the answer to `receiver` once it is started. Throws `unsupported_feature` if no route has the request's
   * tier.
   */
  route(routed: RoutedRequest, receiver: RoutedReceiver): RoutedCall {
    const { request } = routed;
    const choices = this.#routes.of(request.model).length;
    return new RoutedCall(
      {
        plan: this.#plan(this.#routesFor(request, routed.whole), request.model, routed),
        observer: this.#observer,
        runtime: this.#runtime,
        took: (route, model) => {
          this.#findings.answered(route.name, model);
          this.#sticky.recordRoute(request, route.name, choices);
        },
      },
      routed,
      receiver,
    );
  }

  /**
   * Returns the answer to a request, with as many attempts as it takes. Throws the error for the client, and the
   * signal's reason once it is aborted.
   */
  async perform<Answer>(work: RoutedWork<Answer>): Promise<Routed<Answer>> {
    const { model, caller, signal } = work;
    signal.throwIfAborted();
    const ordered = this.#strategies.order(this.#routes.of(model), this.strategy(model), true);
    const plan = this.#plan(ordered, model, caller);
    const abandon = (): void => plan.abandon();
    signal.addEventListener('abort', abandon, { once: true });
    try {
      for (;;) {
        const answer = await this.#performOnce(work, plan);
        if (answer !== undefined) return answer;
      }
    } catch (thrown) {
      signal.throwIfAborted();
      throw thrown;
    } finally {
      signal.removeEventListener('abort', abandon);
    }
  }

  /** Returns the answer of one attempt; undefined: it failed, and another may follow. */
  async #performOnce<Answer>(work: RoutedWork<Answer>, plan: RequestPlan): Promise<Routed<Answer> | undefined> {
    const next = await plan.next();
    if (next instanceof Error) throw next;
    const { route, number, reason } = next;
    const { signal, telemetry, timeline } = work;
    const attempt = { route: route.name, requestId: work.requestId, number };
    const startedAtMs = this.#runtime.monotonicMs();
    const ended = (result: ReturnType<typeof toOutcome>): void => {
      const outcome = { ...result, durationMs: this.#runtime.monotonicMs() - startedAtMs };
      route.record.add(outcome, true);
      telemetry?.attemptEnded(result, result.failure?.facts.logMessage);
      timeline?.attemptEnded(outcome);
      this.#observer.attemptEnded?.(attempt, outcome);
    };
    work.onAttempt();
    telemetry?.attemptBegan(route.name, number, reason, work.operation);
    timeline?.attemptBegan(route.name, reason);
    this.#observer.attemptStarted?.(attempt);
    try {
      const answer = await work.attempt(route, number);
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
    const dependencies = { policy: this.#retry, random: this.#random, sleep: this.#sleep };
    return new RequestPlan(routes, model, caller, dependencies);
  }

  #routesFor(request: GenerateRequest, whole: boolean): OrderedRoutes {
    const all = this.#routes.of(request.model);
    const able = all.every(route => carriesTier(route, request.serviceTier))
      ? all
      : all.filter(route => carriesTier(route, request.serviceTier));
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
