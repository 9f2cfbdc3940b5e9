import { GatewayError } from '../../errors/gateway-error.ts';
import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type RunningAttempt,
  type UpstreamCall,
  UpstreamFailure,
  type UpstreamReceiver,
} from '../../generation/upstream.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { BodyRecord } from '../bodies/body-record.ts';
import type { TimelineRecord } from '../timeline-record.ts';
import type { LiveRoute } from './live-routes.ts';
import type { AttemptOutcome, RouteName, RoutingObserver } from './observer.ts';
import { Opening } from './opening.ts';
import type { NextAttempt, PlannedAttempt, RequestPlan } from './request-plan.ts';
import { KeyWatch } from './key-watch.ts';

/** A request for text to be answered by the routes of its model. */
export interface RoutedRequest extends Omit<UpstreamCall, 'model' | 'attempt' | 'tap'> {
  /** The public request id, for logs. */
  readonly requestId: string;
  readonly watch?: RequestTelemetry | undefined;
  readonly timeline?: TimelineRecord | undefined;
  /** Collects its bodies; absent: they are not kept. */
  readonly bodies?: BodyRecord | undefined;
  /** True if the receiver can discard what it got, so that an answer that breaks off can be started again. */
  readonly restartable: boolean;
}

/** The facts of an answer when it begins. */
export interface BegunAnswer {
  readonly route: RouteName;
  /** The provider's prices; undefined: unknown. */
  readonly cost: Pricing | undefined;
  /** The number of the attempt within the request, from 1. */
  readonly attempt: number;
  /** How many upstream calls the answer consists of, each with the whole input. */
  readonly calls: number;
  /** True if the answer may end with a pause, after which the upstream must be called again to continue. */
  readonly mayPause: boolean;
  /** True if the output limit of the route's model does not count reasoning. */
  readonly limitIsVisible: boolean;
}

/** Receives the answer of a routed request. Not called after the call was cancelled or `enough` was called. */
export interface RoutedReceiver {
  /** Called when an attempt starts at an upstream; `isRemote`: see `Upstream`. */
  attemptStarted(route: RouteName, isRemote: boolean): void;
  /** Called when an attempt has failed and another one will follow. Until that one starts, nothing runs upstream. */
  attemptFailed(): void;
  /** Called when an answer begins: when its first content has come. Events that came before must be discarded. Called more than once only if the request is `restartable`. */
  begun(answer: BegunAnswer): void;
  /**
   * Receives the next events. Returns an error if the answer can't continue: an `UpstreamFailure` is treated as a failure of the attempt, any other error ends the request. If it returns a promise, no more events are passed until that resolves.
   */
  events(events: GenerationEvent[]): Error | undefined | Promise<Error | undefined>;
  /** Called last, once, when the request has ended. `error`: the client's error; absent: the answer is complete. */
  end(error?: Error): void;
}

interface RoutedCallDependencies {
  readonly plan: RequestPlan;
  readonly observer: RoutingObserver;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
  /** Called when an answer begins, with its route and the model that the provider reports; '' if it reports none. */
  readonly answerBegan: (route: LiveRoute, model: string) => void;
}

/** How an attempt ended, without its times. */
type Outcome = Pick<AttemptOutcome, 'result' | 'status' | 'failure'>;

/**
 * Makes the attempts of one request, one after the other. It passes the upstream's events to the receiver, and failures to the plan, which decides what follows.
 */
export class RoutedCall implements UpstreamReceiver, RunningAttempt {
  readonly #dependencies: RoutedCallDependencies;
  readonly #routed: RoutedRequest;
  readonly #receiver: RoutedReceiver;
  #attempt: PlannedAttempt | undefined;
  /** How often the request was sent again because a provider had refused a key. Each counts as an attempt. */
  #resent = 0;
  #running: RunningAttempt | undefined;
  #startedAtMs = 0;
  /** When the first event of the current attempt came; undefined: none has come. */
  #firstEventAtMs: number | undefined;
  /** The events that the current attempt has sent before its first content. */
  #opening = new Opening();
  /** True if `completed` of the current attempt has come. */
  #isWhole = false;
  #isOver = false;
  #isPaused = false;
  /** The calls that arrived while the receiver's promise was pending, in order; undefined: none is pending. */
  #held: (() => void)[] | undefined;

  constructor(dependencies: RoutedCallDependencies, routed: RoutedRequest, receiver: RoutedReceiver) {
    this.#dependencies = dependencies;
    this.#routed = routed;
    this.#receiver = receiver;
  }

  /** Makes the first attempt. Call it once. */
  start(): void {
    const next = this.#dependencies.plan.next();
    if (!(next instanceof Promise)) return this.#begin(next);
    // It rejects only if the wait was abandoned, and then the call has ended.
    next.then(
      planned => this.#begin(planned),
      () => undefined,
    );
  }

  /** Ends the call because the answer is no longer wanted. */
  cancel(): void {
    this.#leave('aborted');
  }

  /** Stops the upstream because the receiver needs no more of the answer. That is not a failure of the route. */
  enough(): void {
    if (this.#isWhole) this.#leave('completed');
    else this.#leave(this.#firstEventAtMs === undefined ? 'aborted' : 'cut');
  }

  /** The answer that has begun without content, and its events, which the receiver has not got; undefined: none. */
  get opened(): { readonly answer: BegunAnswer; readonly events: readonly GenerationEvent[] } | undefined {
    const { held } = this.#opening;
    return held.length === 0 || this.#attempt === undefined
      ? undefined
      : { answer: this.#toBegun(this.#attempt), events: held };
  }

  pause(): void {
    this.#isPaused = true;
    this.#running?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isHolding) this.#running?.resume();
  }

  events(events: GenerationEvent[]): void {
    if (this.#held !== undefined) this.#held.push(() => this.#take(events));
    else this.#take(events);
  }

  end(failure?: Error): void {
    if (this.#held !== undefined) this.#held.push(() => this.#handleEnd(failure));
    else this.#handleEnd(failure);
  }

  #begin(next: NextAttempt): void {
    if (this.#isOver) {
      if (!(next instanceof Error)) this.#dependencies.plan.left(false);
      return;
    }
    if (next instanceof Error) return this.#finish(next);
    const { route, reason } = next;
    const number = next.number + this.#resent;
    this.#attempt = { ...next, number };
    this.#firstEventAtMs = undefined;
    this.#opening = new Opening();
    this.#isWhole = false;
    this.#startedAtMs = this.#dependencies.runtime.monotonicMs();
    this.#receiver.attemptStarted(route.name, route.upstream?.isRemote === true);
    this.#routed.watch?.attemptBegan(route.name, number, reason);
    this.#routed.timeline?.attemptBegan(route.name, reason);
    this.#dependencies.observer.attemptStarted?.({ route: route.name, requestId: this.#routed.requestId, number });
    if (route.upstream === undefined) return this.#handleEnd(new Error(`${route.name.provider} answers no text`));
    const tap = this.#routed.bodies?.exchange(route.name);
    const watch = new KeyWatch(this.#routed.watch, failure => this.#handleRefusedKey(failure));
    this.#running = route.upstream.generate({ ...this.#routed, model: route.model, attempt: number, tap, watch }, this);
    if (this.#isPaused) this.#running.pause();
  }

  /** Counts an attempt that ended because the provider refused the key. The route is not at fault. */
  #handleRefusedKey(failure: UpstreamFailure): void {
    const attempt = this.#attempt;
    if (attempt === undefined || this.#isOver) return;
    const { watch, timeline } = this.#routed;
    const { runtime } = this.#dependencies;
    const outcome = { ...toOutcome(failure), durationMs: runtime.monotonicMs() - this.#startedAtMs };
    watch?.attemptEnded(outcome, failure.facts.logMessage);
    timeline?.attemptEnded(outcome);
    this.#resent += 1;
    const { route, reason } = attempt;
    const number = attempt.number + 1;
    this.#attempt = { ...attempt, number };
    this.#startedAtMs = runtime.monotonicMs();
    watch?.attemptBegan(route.name, number, reason);
    timeline?.attemptBegan(route.name, reason);
  }

  #take(events: GenerationEvent[]): void {
    if (this.#isOver || this.#attempt === undefined) return;
    this.#firstEventAtMs ??= this.#dependencies.runtime.monotonicMs();
    const isFirst = !this.#opening.isOver;
    const shown = this.#opening.push(events);
    if (shown.length === 0) return;
    if (isFirst) this.#answering(this.#attempt, shown[0]);
    this.#isWhole = shown.at(-1)?.event.case === 'completed';
    const verdict = this.#receiver.events(shown);
    if (verdict === undefined) return;
    if (verdict instanceof Error) return this.#handleRefusal(verdict);
    this.#held = [];
    this.#running?.pause();
    verdict.then(
      refusal => this.#afterDecision(refusal),
      (thrown: unknown) =>
        this.#afterDecision(thrown instanceof Error ? thrown : new Error('failed', { cause: thrown })),
    );
  }

  /** Continues when the receiver's promise has resolved. `refusal`: why the answer can't continue; undefined: it can. */
  #afterDecision(refusal: Error | undefined): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    if (this.#isOver) return;
    if (refusal !== undefined) return this.#handleRefusal(refusal);
    for (let next = held.shift(); next !== undefined; next = held.shift()) {
      next();
      if (!this.#isHolding) continue;
      this.#held = held;
      return;
    }
    if (!this.#isPaused) this.#running?.resume();
  }

  get #isHolding(): boolean {
    return this.#held !== undefined;
  }

  #answering(attempt: PlannedAttempt, first: GenerationEvent | undefined): void {
    const model = first?.event.case === 'started' ? first.event.value.model : '';
    this.#dependencies.plan.answering();
    this.#dependencies.answerBegan(attempt.route, model);
    this.#receiver.begun(this.#toBegun(attempt));
  }

  #toBegun({ route, number }: PlannedAttempt): BegunAnswer {
    const calls = route.upstream?.callsFor?.(this.#routed.request, route.model) ?? 1;
    const { name, cost, model, upstream } = route;
    const mayPause = upstream?.mayPause === true;
    const limitIsVisible = upstream?.limitIsVisible?.(model) === true;
    return { route: name, cost, attempt: number, calls, mayPause, limitIsVisible };
  }

  /** Handles an answer that the receiver can't continue: the attempt fails, or the request ends. */
  #handleRefusal(refusal: Error): void {
    if (refusal instanceof UpstreamFailure) {
      this.#running?.cancel();
      this.#handleEnd(refusal);
      return;
    }
    this.enough();
    this.#receiver.end(refusal);
  }

  #handleEnd(failure: Error | undefined): void {
    if (this.#isOver) return;
    this.#running = undefined;
    if (failure === undefined) {
      this.#dependencies.plan.completed();
      this.#report({ result: 'completed' });
      return this.#finish();
    }
    const delivered = this.#opening.isOver && !this.#routed.restartable;
    this.#report(toOutcome(failure));
    const error = this.#dependencies.plan.failed(failure, delivered);
    if (error !== undefined) return this.#finish(error);
    this.#receiver.attemptFailed();
    this.start();
  }

  #leave(result: 'aborted' | 'cut' | 'completed'): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const running = this.#running;
    this.#running = undefined;
    running?.cancel();
    this.#dependencies.plan.abandon();
    if (running === undefined) return;
    this.#dependencies.plan.left(result !== 'aborted');
    this.#report({ result });
  }

  #finish(error?: Error): void {
    this.#isOver = true;
    this.#receiver.end(error);
  }

  #report(outcome: Outcome): void {
    const { observer, runtime } = this.#dependencies;
    if (this.#attempt === undefined) return;
    const { route, number } = this.#attempt;
    const { requestId, watch, timeline, whole } = this.#routed;
    const first = this.#firstEventAtMs;
    const ended = {
      ...outcome,
      durationMs: runtime.monotonicMs() - this.#startedAtMs,
      ...(first === undefined ? {} : { firstEventMs: first - this.#startedAtMs }),
    };
    route.record.add(ended, whole);
    watch?.attemptEnded(ended, outcome.failure?.facts.logMessage);
    timeline?.attemptEnded(ended);
    observer.attemptEnded?.({ route: route.name, requestId, number }, ended);
  }
}

/** Converts the failure of an attempt to its outcome. */
export function toOutcome(failure: unknown): Outcome {
  if (!(failure instanceof UpstreamFailure)) return { result: failure instanceof GatewayError ? 'refused' : 'defect' };
  const { kind, facts } = failure;
  return { result: kind, failure, ...(facts.status === undefined ? {} : { status: facts.status }) };
}
