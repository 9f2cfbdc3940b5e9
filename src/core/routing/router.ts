import { GatewayError } from '../../errors/gateway-error.ts';
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
import type { Operation, RequestStory } from '../../telemetry/request-story.ts';

/** What a router is made with; what is left out has the decided default. */
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

/** A request whose answer comes all at once (pictures, vectors), as the routes of its model see it. */
export interface RoutedWork<Answer> {
  /** The listed id of the model. */
  readonly model: string;
  /** Whose request it is. */
  readonly caller: BreakerCaller;
  /** The public request id, for logs. */
  readonly requestId: string;
  readonly operation: Operation;
  /** Absent: nobody follows it. */
  readonly story?: RequestStory | undefined;
  /** Aborted when nobody wants the answer any more. */
  readonly signal: AbortSignal;
  /** Told when an attempt goes to an upstream. */
  readonly onAttempt: () => void;
  /** Asks the upstream of a route. `number`: which attempt of this request it is, from 1. Throws `UpstreamFailure`, and the signal's reason once it is aborted. */
  readonly attempt: (route: LiveRoute, number: number) => Promise<Answer>;
}

/** An answer and where it comes from. */
export interface Routed<Answer> {
  readonly answer: Answer;
  readonly route: RouteName;
}

const unobserved: RoutingObserver = {};

/** Answers requests by the routes of their model: attempts, retries, next routes, circuit breakers. Source: decisions §3 and §4. */
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

  /** Takes another configuration; requests that run keep their routes, breakers of routes that stay keep their state. */
  replace(config: RoutingConfig, retry: RetryPolicy): void {
    this.#routes.replace(config);
    this.#config = config;
    this.#retry = retry;
  }

  /** Whether some route of the model could be tried now; false of a model without routes. */
  isAvailable(modelId: string): boolean {
    return this.#routes.of(modelId).some(route => route.breaker.passable && route.keys?.isUsable !== false);
  }

  /** Whether another request of the model would find a free place at each of its providers, with nobody waiting. `running`: how many of those who ask run, some without a place yet. */
  hasRoom(modelId: string, running: number): boolean {
    return this.#routes.of(modelId).every(({ semaphore }) => semaphore?.hasRoom(running) !== false);
  }

  /** How long the keys of a model that is not available still rest, in ms; undefined: it is not for its keys. */
  restMs(modelId: string): number | undefined {
    const rests = this.#routes.of(modelId).map(({ keys }) => keys?.restMs ?? 0);
    const shortest = Math.min(...rests.filter(ms => ms > 0));
    return shortest === Infinity ? undefined : shortest;
  }

  /** The most calls that a route of the model makes of a request, each with the whole input. */
  callsFor(request: GenerateRequest): number {
    let most = 1;
    for (const { upstream, model } of this.#routes.of(request.model)) {
      most = Math.max(most, upstream?.callsFor?.(request, model) ?? 1);
    }
    return most;
  }

  /** Every route as it is now, those of a model in the order of the configuration. */
  routes(): readonly LiveRoute[] {
    return this.#routes.all();
  }

  /** The state of every route's breaker. */
  breakers(): { route: RouteName; state: BreakerState }[] {
    return this.#routes.all().map(({ name, breaker }) => ({ route: name, state: breaker.state }));
  }

  /** What answers have shown of a route. */
  findings(route: RouteName): RouteFindings {
    return this.#findings.of(route);
  }

  /** The route's provider has read far less of a prompt than was sent. */
  inputCut(route: RouteName): void {
    this.#findings.inputCut(route);
  }

  /** How a model's routes are ordered. */
  strategy(modelId: string): RouteStrategy {
    return this.#config.strategies?.get(modelId) ?? 'priority';
  }

  /** A call that pushes the answer to `receiver` once it is started. Throws `unsupported_feature` if no route carries the request's tier. */
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
          this.#sticky.took(request, route.name, choices);
        },
      },
      routed,
      receiver,
    );
  }

  /** The answer of a request, by as many attempts as it takes. Throws what the client is told, and the signal's reason once it is aborted. */
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

  /** The answer of one attempt; undefined: it failed, and another may follow. */
  async #performOnce<Answer>(work: RoutedWork<Answer>, plan: RequestPlan): Promise<Routed<Answer> | undefined> {
    const next = await plan.next();
    if (next instanceof Error) throw next;
    const { route, number, reason } = next;
    const { signal, story } = work;
    const attempt = { route: route.name, requestId: work.requestId, number };
    const startedAtMs = this.#runtime.monotonicMs();
    const ended = (result: ReturnType<typeof toOutcome>): void => {
      const outcome = { ...result, durationMs: this.#runtime.monotonicMs() - startedAtMs };
      route.record.add(outcome, true);
      story?.attemptEnded(result, result.failure?.facts.logMessage);
      this.#observer.attemptEnded?.(attempt, outcome);
    };
    work.onAttempt();
    story?.attemptBegan(route.name, number, reason, work.operation);
    this.#observer.attemptStarted?.(attempt);
    try {
      const answer = await work.attempt(route, number);
      plan.completed();
      ended({ result: 'completed' });
      return { answer, route: route.name };
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
    const tools = { policy: this.#retry, random: this.#random, sleep: this.#sleep };
    return new RequestPlan(routes, model, caller, tools);
  }

  #routesFor(request: GenerateRequest, whole: boolean): OrderedRoutes {
    const all = this.#routes.of(request.model);
    const able = all.every(route => carriesTier(route, request.serviceTier))
      ? all
      : all.filter(route => carriesTier(route, request.serviceTier));
    if (able.length === 0 && all.length > 0) {
      throw new GatewayError('unsupported_feature', `No provider of ${request.model} has the asked service tier.`, {
        param: 'service_tier',
      });
    }
    const strategy = this.strategy(request.model);
    const ordered = this.#strategies.order(able, strategy, whole);
    const routes = this.#sticky.ordered(ordered.routes, request, strategy !== 'priority');
    return routes[0] === ordered.routes[0] ? ordered : { routes, reason: 'conversation' };
  }
}
