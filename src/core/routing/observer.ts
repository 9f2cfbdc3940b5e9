import type { UpstreamFailure, UpstreamFailureKind } from '../../generation/upstream.ts';
import type { BreakerState } from './breaker.ts';
import type { FindingsObserver } from './route-findings.ts';

/** The names of a route, in metrics and logs. */
export interface RouteName {
  /** The listed id of the model. */
  readonly modelId: string;
  /** The provider's name. */
  readonly provider: string;
  /** The provider's name for the model. */
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

/** How an attempt ended. Times are in ms since it began; `firstEventMs` is absent if no event came. */
export interface AttemptOutcome {
  /**
   * `completed`: the upstream answered to the end. `cut`: the gateway stopped the attempt after its first event, because no more of the answer was needed. `aborted`: the attempt was cancelled, or stopped before its first event. `refused`: the request can't be expressed in the provider's protocol. `defect`: the gateway is at fault. Any other value: how the upstream failed.
   */
  readonly result: 'completed' | 'cut' | 'aborted' | 'refused' | 'defect' | UpstreamFailureKind;
  /** The upstream's status, if it answered with an error. */
  readonly status?: number;
  /** The failure of the upstream, for the log; absent if it did not fail. */
  readonly failure?: UpstreamFailure;
  readonly firstEventMs?: number;
  readonly durationMs: number;
}

/** Observes the router, for metrics and logs. The methods must not throw. */
export interface RoutingObserver extends FindingsObserver {
  attemptStarted?(attempt: Attempt): void;
  /** Called exactly once for each started attempt. */
  attemptEnded?(attempt: Attempt, outcome: AttemptOutcome): void;
  breakerChanged?(route: RouteName, state: BreakerState): void;
}
