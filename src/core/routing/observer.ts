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

/** One try at one route. */
export interface Attempt {
  readonly route: RouteName;
  /** The request's public id. */
  readonly requestId: string;
  /** Which try of the request it is, over all routes, from 1. */
  readonly number: number;
}

/** How a try ended. Times in ms since it began; `firstEventMs` is absent where no event came. */
export interface AttemptOutcome {
  /**
   * `completed`: answered to the end. `cut`: whoever reads the answer had enough. `aborted`: nobody wants the answer any more.
   * `refused`: the request can't be said in the provider's protocol. `defect`: the gateway's own. Else what failed.
   */
  readonly result: 'completed' | 'cut' | 'aborted' | 'refused' | 'defect' | UpstreamFailureKind;
  /** The upstream's status, where it answered with an error. */
  readonly status?: number;
  /** What failed, for the log; absent where it was not the upstream. */
  readonly failure?: UpstreamFailure;
  readonly firstEventMs?: number;
  readonly durationMs: number;
}

/** Told what the router does, for metrics and logs. What it throws is a defect of its own. */
export interface RoutingObserver extends FindingsObserver {
  attemptStarted?(attempt: Attempt): void;
  /** Exactly once for each started attempt. */
  attemptEnded?(attempt: Attempt, outcome: AttemptOutcome): void;
  breakerChanged?(route: RouteName, state: BreakerState): void;
}
