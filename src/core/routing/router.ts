import { GatewayError } from '../../errors/gateway-error.ts';
import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { Hold } from '../../generation/hold.ts';
import type { Drawing } from '../../generation/images/image-upstream.ts';
import { type Random, type Sleep, sleepOn } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { type BreakerPolicy, type BreakerState, defaultBreakerPolicy } from './breaker.ts';
import { type LiveRoute, LiveRoutes } from './live-routes.ts';
import type { RouteName, RoutingObserver } from './observer.ts';
import { defaultRetryPolicy, RequestPlan, type RetryPolicy } from './request-plan.ts';
import { RoutedCall, type RoutedReceiver, type RoutedRequest, toOutcome } from './routed-call.ts';
import { carriesTier, orderRoutes, type RoutingConfig } from './route-table.ts';
import { StickyRoutes } from './sticky-routes.ts';

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

/** Pictures that are to be drawn. */
export interface RoutedDrawing {
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. */
  readonly request: ImageRequest;
  /** Aborted when nobody wants the pictures any more. */
  readonly signal: AbortSignal;
  /** Told when an attempt goes to an upstream. */
  readonly onAttempt?: () => void;
}

/** Pictures and where they come from. */
export interface RoutedPictures extends Drawing {
  readonly route: RouteName;
  readonly attempt: number;
}

const unobserved: RoutingObserver = {};

/** Answers requests by the routes of their model: attempts, retries, next routes, circuit breakers. Source: decisions §3 and §4. */
export class Router {
  readonly #routes: LiveRoutes;
  readonly #observer: RoutingObserver;
  readonly #sticky = new StickyRoutes();
  readonly #runtime: Runtime;
  readonly #random: Random;
  readonly #sleep: Sleep;
  #retry: RetryPolicy;

  constructor(options: RouterOptions) {
    this.#observer = options.observer ?? unobserved;
    this.#runtime = options.runtime ?? systemRuntime;
    this.#random = options.random ?? (() => this.#runtime.random());
    this.#sleep = options.sleep ?? sleepOn(this.#runtime);
    this.#retry = options.retry ?? defaultRetryPolicy;
    this.#routes = new LiveRoutes(options.config, {
      clock: options.clock,
      breaker: options.breaker ?? defaultBreakerPolicy,
      observer: this.#observer,
    });
  }

  /** Takes another configuration; requests that run keep their routes, breakers of routes that stay keep their state. */
  replace(config: RoutingConfig, retry: RetryPolicy): void {
    this.#routes.replace(config);
    this.#retry = retry;
  }

  /** Whether some route of the model could be tried now; false of a model without routes. */
  isAvailable(modelId: string): boolean {
    return this.#routes.of(modelId).some(route => route.breaker.passable);
  }

  /** The most calls that a route of the model makes of a request, each with the whole input. */
  callsFor(request: GenerateRequest): number {
    let most = 1;
    for (const { upstream, model } of this.#routes.of(request.model)) {
      most = Math.max(most, upstream?.callsFor?.(request, model) ?? 1);
    }
    return most;
  }

  /** The state of every route's breaker. */
  breakers(): { route: RouteName; state: BreakerState }[] {
    return this.#routes.all().map(({ name, breaker }) => ({ route: name, state: breaker.state }));
  }

  /** A call that pushes the answer to `receiver` once it is started. Throws `unsupported_feature` if no route carries the request's tier. */
  route(routed: RoutedRequest, receiver: RoutedReceiver): RoutedCall {
    const { request } = routed;
    const choices = this.#routes.of(request.model).length;
    return new RoutedCall(
      {
        plan: this.#plan(this.#routesFor(request), routed),
        observer: this.#observer,
        runtime: this.#runtime,
        took: route => this.#sticky.took(request, route.name, choices),
      },
      routed,
      receiver,
    );
  }

  /** The pictures of a request, by as many attempts as it takes. Throws what the client is told, and the signal's reason once it is aborted. */
  async draw(call: RoutedDrawing): Promise<RoutedPictures> {
    const { request, signal } = call;
    signal.throwIfAborted();
    const plan = this.#plan(orderRoutes(this.#routes.of(request.model), this.#random), call);
    const abandon = (): void => plan.abandon();
    signal.addEventListener('abort', abandon, { once: true });
    try {
      for (;;) {
        const pictures = await this.#drawOnce(call, plan);
        if (pictures !== undefined) return pictures;
      }
    } catch (thrown) {
      signal.throwIfAborted();
      throw thrown;
    } finally {
      signal.removeEventListener('abort', abandon);
    }
  }

  /** The pictures of one attempt; undefined: it failed, and another may follow. */
  async #drawOnce(call: RoutedDrawing, plan: RequestPlan): Promise<RoutedPictures | undefined> {
    const next = await plan.next();
    if (next instanceof Error) throw next;
    const { route, number } = next;
    const attempt = { route: route.name, holdId: call.hold.id, number };
    const startedAtMs = this.#runtime.monotonicMs();
    const ended = (outcome: ReturnType<typeof toOutcome>): void =>
      this.#observer.attemptEnded?.(attempt, { ...outcome, durationMs: this.#runtime.monotonicMs() - startedAtMs });
    call.onAttempt?.();
    this.#observer.attemptStarted?.(attempt);
    try {
      const drawing = await draw(route, call, number);
      plan.completed();
      ended({ result: 'completed' });
      return { ...drawing, route: route.name, attempt: number };
    } catch (thrown) {
      ended(call.signal.aborted ? { result: 'aborted' } : toOutcome(thrown));
      if (call.signal.aborted) plan.left(false);
      call.signal.throwIfAborted();
      const error = plan.failed(thrown instanceof Error ? thrown : new Error('failed', { cause: thrown }), false);
      if (error !== undefined) throw error;
      return undefined;
    }
  }

  #plan(routes: readonly LiveRoute[], caller: RoutedRequest | RoutedDrawing): RequestPlan {
    return new RequestPlan(routes, caller, { policy: this.#retry, random: this.#random, sleep: this.#sleep });
  }

  #routesFor(request: GenerateRequest): readonly LiveRoute[] {
    const all = this.#routes.of(request.model);
    const able = all.every(route => carriesTier(route, request.serviceTier))
      ? all
      : all.filter(route => carriesTier(route, request.serviceTier));
    if (able.length === 0 && all.length > 0) {
      throw new GatewayError('unsupported_feature', `No provider of ${request.model} has the asked service tier.`, {
        param: 'service_tier',
      });
    }
    return this.#sticky.ordered(orderRoutes(able, this.#random), request);
  }
}

function draw(route: LiveRoute, { hold, request, signal }: RoutedDrawing, attempt: number): Promise<Drawing> {
  if (route.images === undefined) throw new Error(`${route.name.provider} draws no pictures`);
  return route.images.draw({ hold, request, model: route.model, attempt, signal });
}
