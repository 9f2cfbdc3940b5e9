import type { Attempt, AttemptOutcome, RoutingObserver } from '../core/routing/observer.ts';
import type { KeyChange, KeyHealth } from '../generation/upstream.ts';
import { isoTime } from '../lib/clock.ts';
import { defined } from '../lib/defined.ts';
import { describeError, type ErrorDescription, type Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { NotifyOperator } from './webhooks.ts';

const nobody: NotifyOperator = () => undefined;

/**
 * Reports every attempt to the metrics, changes of breakers and doubtful usage to the operator's webhooks, and failed attempts, findings and changes of breakers to the log.
 */
export function routingObserver(metrics: Metrics, logger: Logger, tell: NotifyOperator = nobody): RoutingObserver {
  return {
    attemptEnded(attempt, outcome) {
      const { provider, modelId: model } = attempt.route;
      const { result, durationMs, firstEventMs } = outcome;
      metrics.attempted({ provider, model, result, durationMs, firstEventMs });
      logFailure(logger, attempt, outcome);
    },
    answeredAs({ provider, modelId, model }, answeringModel) {
      logger.warn(
        { provider, model: modelId, upstream_model: model, answers_as: answeringModel },
        'a provider answered with another model than the requested one',
      );
    },
    inputCut({ provider, modelId, model }) {
      logger.warn(
        { provider, model: modelId, upstream_model: model },
        'a provider cuts prompts: configure a longer context on its server',
      );
    },
    unpriced({ provider, modelId, model }, member, isNew) {
      metrics.unpriced(provider, member);
      if (!isNew) return;
      logger.warn(
        { provider, model: modelId, upstream_model: model, member },
        'a provider may bill something that has no price here',
      );
    },
    usageDoubtful({ provider, modelId, model }, doubt) {
      const data = { provider, model: modelId, upstream_model: model, ...doubt };
      tell({ type: 'provider.usage_doubtful', scope: `provider ${provider}`, data });
      logger.warn(data, 'a provider’s report is not believed');
    },
    breakerChanged({ provider, modelId, model }, state) {
      logger.warn({ provider, model: modelId, upstream_model: model, state }, 'circuit breaker');
      if (state === 'half_open') return;
      const data = { provider, model: modelId, upstream_model: model };
      tell({
        type: state === 'open' ? 'route.opened' : 'route.closed',
        scope: `route ${provider} ${modelId} ${model}`,
        data,
      });
    },
  };
}

/**
 * Reports every refusal of a provider's key, and every key that works again, to the metrics, the operator's webhooks and the log. Keys are named by their number in the configuration. `rests_until`: when a refused key is tried again.
 */
export function observeKey(
  {
    metrics,
    logger,
    tell = nobody,
  }: { readonly metrics: Metrics; readonly logger: Logger; readonly tell?: NotifyOperator },
  provider: string,
  health: KeyHealth,
  change: KeyChange,
): void {
  const { number: key, state, restsUntilMs, last: lastRefusal } = health;
  if (change === 'works' || lastRefusal === undefined) {
    logger.info({ provider, key, state }, 'a provider’s key works again');
    return;
  }
  metrics.keyRefused(provider, lastRefusal.status);
  const { status, message } = lastRefusal;
  const rests_until = restsUntilMs === undefined ? null : isoTime(restsUntilMs);
  tell({
    type: 'provider.key_refused',
    scope: `provider ${provider}`,
    data: { provider, key, status: status ?? null, rests_until },
  });
  const rests = restsUntilMs === undefined ? undefined : isoTime(restsUntilMs);
  const facts = defined({ rests_until: rests, upstream_message: message });
  logger.warn({ provider, key, state, status, ...facts }, 'a provider’s key was refused');
}

/**
 * Logs a failed attempt, because the log line of the request does not name the provider that failed, and does not even show a failure if a later attempt succeeded. Failures of the built-in models that a `!sim` line in the prompt requested are not logged.
 */
function logFailure(
  logger: Logger,
  { route, requestId, number }: Attempt,
  { result, status, failure }: AttemptOutcome,
): void {
  if (failure === undefined || failure.facts.requested === true) return;
  const { provider, modelId, model } = route;
  const reason = findReason(describeError(failure));
  logger.warn(
    {
      request_id: requestId,
      provider,
      model: modelId,
      upstream_model: model,
      attempt: number,
      result,
      ...defined({ status, reason, upstream_message: failure.facts.logMessage }),
    },
    'a provider failed',
  );
}

/** Returns the gateway's description of a failure, without the upstream's message, which is logged in another field. */
function findReason({ message, cause }: ErrorDescription): string | undefined {
  return message ?? (cause === undefined ? undefined : findReason(cause));
}
