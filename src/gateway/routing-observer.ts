import type { RoutingObserver } from '../core/routing/observer.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** Tells metrics of every try, and the operator's log of every breaker that opens or closes. */
export function routingObserver(metrics: Metrics, logger: Logger): RoutingObserver {
  return {
    attemptEnded({ route }, { result, durationMs, firstEventMs }) {
      metrics.attempted({
        provider: route.provider,
        model: route.modelId,
        result,
        durationMs,
        ...(firstEventMs === undefined ? {} : { firstEventMs }),
      });
    },
    breakerChanged({ provider, modelId, model }, state) {
      logger.warn({ provider, model: modelId, upstreamModel: model, state }, 'circuit breaker');
    },
  };
}
