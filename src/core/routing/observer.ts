import type { UpstreamFailure, UpstreamFailureKind } from '../../generation/upstream.ts';
import type { BreakerState } from './breaker.ts';
import type { FindingsObserver } from './route-findings.ts';

/** A route as metrics and logs name it. */
export interface RouteName {
  /** The listed id of the model. */
  readonly modelId: string;
  /** The provider's name. */
  readonly provider: string;
  /** The provider's own name of the model. */
  readonly model: string;
}

/** One attempt at one route. */
export interface Attempt {
  readonly route: RouteName;
  /** The request's public id. */
  readonly requestId: string;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly number: number;
}

/** The end of an attempt. Times in ms since it began; `firstEventMs` is absent if no event came. */
export interface AttemptOutcome {
  /**
   * `completed`: answered to the end. `cut`: the receiver stopped it after its first event, because it needed no more.
   * `aborted`: cancelled, or stopped before its first event. `refused`: the request can't be expressed in the
   * provider's protocol. `defect`: a fault of the gateway itself. Any other value: how the upstream failed.
   */
  readonly result: 'completed' | 'cut' | 'aborted' | 'refused' | 'defect' | UpstreamFailureKind;
  /** The upstream's status, if it answered with an error. */
  readonly status?: number;
  /** The failure, for the log; absent if it was not the upstream's. */
  readonly failure?: UpstreamFailure;
  readonly firstEventMs?: number;
  readonly durationMs: number;
}

/** Observes the router, for metrics and logs. Throwing is a defect of the observer. */
export interface RoutingObserver extends FindingsObserver {
  attemptStarted?(attempt: Attempt): void;
  /** Exactly once for each started attempt. */
  attemptEnded?(attempt: Attempt, outcome: AttemptOutcome): void;
  breakerChanged?(route: RouteName, state: BreakerState): void;
}
