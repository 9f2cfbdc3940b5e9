import type { Attempt, AttemptOutcome, RoutingObserver } from '../core/routing/observer.ts';
import { requestIdStart } from '../lib/ids.ts';
import { describeError, type ErrorDescription, type Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** Tells metrics of every try, and the operator's log of every try that failed and of every breaker that opens or closes. */
export function routingObserver(metrics: Metrics, logger: Logger): RoutingObserver {
  return {
    attemptEnded(attempt, outcome) {
      const { provider, modelId: model } = attempt.route;
      const { result, durationMs, firstEventMs } = outcome;
      metrics.attempted({ provider, model, result, durationMs, firstEventMs });
      logFailure(logger, attempt, outcome);
    },
    answeredAs({ provider, modelId, model }, answeredAs) {
      logger.warn(
        { provider, model: modelId, upstreamModel: model, answeredAs },
        'a provider answers as another model',
      );
    },
    inputCut({ provider, modelId, model }) {
      logger.warn({ provider, model: modelId, upstreamModel: model }, 'a provider cuts prompts: give it more context');
    },
    breakerChanged({ provider, modelId, model }, state) {
      logger.warn({ provider, model: modelId, upstreamModel: model, state }, 'circuit breaker');
    },
  };
}

/** A request's own line can't say which provider failed, nor that one did where the next has answered. Rehearsals are left out: they were ordered. */
function logFailure(
  logger: Logger,
  { route, holdId, number }: Attempt,
  { result, status, failure }: AttemptOutcome,
): void {
  if (failure === undefined || failure.facts.ordered === true) return;
  const { provider, modelId, model } = route;
  const reason = reasonOf(describeError(failure));
  logger.warn(
    {
      requestIdStart: requestIdStart(holdId),
      provider,
      model: modelId,
      upstreamModel: model,
      attempt: number,
      result,
      ...(status === undefined ? {} : { status }),
      ...(reason === undefined ? {} : { reason }),
    },
    'a provider failed',
  );
}

/** The first words of this program's own about it; what an upstream said is not among them. */
function reasonOf({ message, cause }: ErrorDescription): string | undefined {
  return message ?? (cause === undefined ? undefined : reasonOf(cause));
}
