import { GatewayError } from '../../errors/gateway-error.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { Hold } from '../../generation/hold.ts';
import type { Drawing } from '../../generation/images/image-upstream.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type Random, type Sleep, systemRandom, systemSleep } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { type BreakerPolicy, type BreakerState, defaultBreakerPolicy } from './breaker.ts';
import { clientError } from './failure-policy.ts';
import { type LiveRoute, LiveRoutes } from './live-routes.ts';
import type { AttemptOutcome, RouteName, RoutingObserver } from './observer.ts';
import { defaultRetryPolicy, type PlannedTry, RequestPlan, type RetryPolicy } from './request-plan.ts';
import { StickyRoutes } from './sticky-routes.ts';
import { carriesTier, orderRoutes, type RoutingConfig } from './route-table.ts';

/** What a router is made with; what is left out has the decided default. */
export interface RouterOptions {
  readonly config: RoutingConfig;
  readonly clock: Clock;
  readonly retry?: RetryPolicy;
  readonly breaker?: BreakerPolicy;
  readonly observer?: RoutingObserver;
  readonly random?: Random;
  readonly sleep?: Sleep;
}

/** A generation that is to be answered. */
export interface RoutedCall {
  readonly hold: Hold;
  /** The checked request; `model` is the listed id, `serviceTier` the resolved tier. */
  readonly request: GenerateRequest;
  /** The output limit to send; undefined: none. */
  readonly maxOutputTokens: number | undefined;
  /** The model's own maximum, for protocols that insist on a limit. Absent: it is not known. */
  readonly modelOutputTokens?: number;
  /** Aborted when nobody wants the answer any more. */
  readonly signal: AbortSignal;
  /** Whether the caller can forget what it got: then an answer that breaks in the middle may be begun again. */
  readonly restartable: boolean;
  /** Told when a try goes to an upstream, before its first event. */
  readonly onAttempt?: () => void;
  /** Told when a try has failed and another is to follow: until it goes out, nothing runs for the caller. */
  readonly onAttemptFailed?: () => void;
  /** Told what the client is told when the time for the whole answer is over while nobody reads on; the caller then aborts the call. */
  readonly onOvertime?: (error: GatewayError) => void;
}

/** What the caller of `run` gets. */
export type RoutedStep =
  /** An answer begins; whatever came before it is void. More than one only where the call is restartable. */
  | {
      readonly kind: 'begun';
      readonly route: RouteName;
      readonly attempt: number;
      /** How many calls it is made of, each with the whole input. */
      readonly calls: number;
    }
  /** Its next events. */
  | { readonly kind: 'events'; readonly events: GenerationEvent[] };

/** Pictures that are to be drawn. */
export interface RoutedDrawing {
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. */
  readonly request: ImageRequest;
  /** Aborted when nobody wants the pictures any more. */
  readonly signal: AbortSignal;
  /** Told when a try goes to an upstream. */
  readonly onAttempt?: () => void;
}

/** Pictures and where they come from. */
export interface RoutedPictures extends Drawing {
  readonly route: RouteName;
  readonly attempt: number;
}

/** What is known of a try while it runs. */
interface Running {
  readonly planned: PlannedTry;
  readonly startedAtMs: number;
  firstEventAtMs: number | undefined;
  /** `completed` has come. */
  whole: boolean;
  ended: boolean;
}

/** How a try ended, apart from its times. */
type Outcome = Pick<AttemptOutcome, 'result' | 'status' | 'failure'>;

const unobserved: RoutingObserver = {};

/** Answers generations by the routes of their model: tries, retries, next routes, circuit breakers. Source: decisions §3 and §4. */
export class Router {
  readonly #routes: LiveRoutes;
  readonly #observer: RoutingObserver;
  readonly #sticky = new StickyRoutes();
  readonly #random: Random;
  readonly #sleep: Sleep;
  #retry: RetryPolicy;

  constructor(options: RouterOptions) {
    this.#observer = options.observer ?? unobserved;
    this.#random = options.random ?? systemRandom;
    this.#sleep = options.sleep ?? systemSleep;
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
    return Math.max(1, ...this.#routes.of(request.model).map(route => callsFor(route, request)));
  }

  /** The state of every route's breaker. */
  breakers(): { route: RouteName; state: BreakerState }[] {
    return this.#routes.all().map(({ name, breaker }) => ({ route: name, state: breaker.state }));
  }

  /**
   * The answer: `begun` before the first events of a try, then its events to `completed`. Throws `GatewayError` with what the client
   * is told, and the signal's reason once it is aborted. A caller that stops reading stops the upstream; one that finds the
   * events wrong throws an `UpstreamFailure` into the generator, which makes it the failure of the try.
   */
  async *run(call: RoutedCall): AsyncGenerator<RoutedStep, void, undefined> {
    const plan = new RequestPlan(
      this.#routesOf(call.request),
      { model: call.request.model, signal: call.signal },
      { policy: this.#retry, random: this.#random, sleep: this.#sleep },
    );
    for (;;) {
      const running = this.#start(call, await plan.next());
      try {
        for await (const events of this.#answer(call, running.planned)) {
          if (running.firstEventAtMs === undefined) {
            running.firstEventAtMs = performance.now();
            plan.answering();
            const { route, number: attempt } = running.planned;
            this.#sticky.took(call.request, route.name, this.#routes.of(call.request.model).length);
            yield { kind: 'begun', route: route.name, attempt, calls: callsFor(route, call.request) };
          }
          running.whole = events.at(-1)?.event.case === 'completed';
          yield { kind: 'events', events };
          if (running.whole) return;
        }
        throw new UpstreamFailure('truncated');
      } catch (thrown) {
        const gone = call.signal.aborted;
        this.#end(call, running, gone ? { result: 'aborted' } : outcomeOf(thrown));
        if (gone) plan.left(false);
        call.signal.throwIfAborted();
        plan.failed(thrown, running.firstEventAtMs !== undefined && !call.restartable);
        call.onAttemptFailed?.();
      } finally {
        if (!running.ended) this.#left(call, running, plan);
      }
    }
  }

  /** The pictures of a request, by as many tries as it takes. Throws as `run`. */
  async draw(call: RoutedDrawing): Promise<RoutedPictures> {
    const { request, signal } = call;
    const plan = new RequestPlan(
      orderRoutes(this.#routes.of(request.model), this.#random),
      { model: request.model, signal },
      { policy: this.#retry, random: this.#random, sleep: this.#sleep },
    );
    for (;;) {
      const running = this.#start(call, await plan.next());
      const { route, number } = running.planned;
      try {
        if (route.images === undefined) throw new Error(`${route.name.provider} draws no pictures`);
        const drawing = await route.images.draw({
          hold: call.hold,
          request,
          model: route.model,
          attempt: number,
          signal,
        });
        plan.completed();
        this.#end(call, running, { result: 'completed' });
        return { ...drawing, route: route.name, attempt: number };
      } catch (thrown) {
        this.#end(call, running, signal.aborted ? { result: 'aborted' } : outcomeOf(thrown));
        if (signal.aborted) plan.left(false);
        signal.throwIfAborted();
        plan.failed(thrown, false);
      }
    }
  }

  /** The caller has read to the end, or has had enough. */
  #left(call: RoutedCall, running: Running, plan: RequestPlan): void {
    if (running.whole) {
      plan.completed();
      this.#end(call, running, { result: 'completed' });
      return;
    }
    const enough = running.firstEventAtMs !== undefined && !call.signal.aborted;
    plan.left(enough);
    this.#end(call, running, { result: enough ? 'cut' : 'aborted' });
  }

  #routesOf(request: GenerateRequest): readonly LiveRoute[] {
    const all = this.#routes.of(request.model);
    const able = all.filter(route => carriesTier(route, request.serviceTier));
    if (able.length === 0 && all.length > 0) {
      throw new GatewayError('unsupported_feature', `No provider of ${request.model} has the asked service tier.`, {
        param: 'service_tier',
      });
    }
    return this.#sticky.ordered(orderRoutes(able, this.#random), request);
  }

  #answer(call: RoutedCall, { route, number }: PlannedTry): AsyncIterable<GenerationEvent[]> {
    const { hold, request, maxOutputTokens, modelOutputTokens, signal } = call;
    if (route.upstream === undefined) throw new Error(`${route.name.provider} answers no text`);
    return route.upstream.generate({
      hold,
      request,
      maxOutputTokens,
      ...(modelOutputTokens === undefined ? {} : { modelOutputTokens }),
      signal,
      model: route.model,
      attempt: number,
      onOvertime: failure => call.onOvertime?.(clientError(failure, true)),
    });
  }

  #start(call: Pick<RoutedCall, 'hold' | 'onAttempt'>, planned: PlannedTry): Running {
    const { route, number } = planned;
    call.onAttempt?.();
    this.#observer.attemptStarted?.({ route: route.name, holdId: call.hold.id, number });
    return { planned, startedAtMs: performance.now(), firstEventAtMs: undefined, whole: false, ended: false };
  }

  #end(call: Pick<RoutedCall, 'hold'>, running: Running, outcome: Outcome): void {
    running.ended = true;
    const { planned, startedAtMs, firstEventAtMs } = running;
    this.#observer.attemptEnded?.(
      { route: planned.route.name, holdId: call.hold.id, number: planned.number },
      {
        ...outcome,
        durationMs: performance.now() - startedAtMs,
        ...(firstEventAtMs === undefined ? {} : { firstEventMs: firstEventAtMs - startedAtMs }),
      },
    );
  }
}

function callsFor({ upstream, model }: LiveRoute, request: GenerateRequest): number {
  return upstream?.callsFor?.(request, model) ?? 1;
}

function outcomeOf(thrown: unknown): Outcome {
  if (!(thrown instanceof UpstreamFailure)) return { result: thrown instanceof GatewayError ? 'refused' : 'defect' };
  const { kind, facts } = thrown;
  return { result: kind, failure: thrown, ...(facts.status === undefined ? {} : { status: facts.status }) };
}
