import { dollarsNumber } from '../lib/dollars.ts';
import { defined } from '../lib/defined.ts';
import type { RpcCall } from '../rpc/call-boundary.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';

/**
 * Writes the log line of a call over the network, which is like that of a request, with the procedure in place of the endpoint.
 */
export function logCall(logger: Logger, { procedure, requestId, code, durationMs, error, telemetry }: RpcCall): void {
  const facts = {
    request_id: requestId,
    procedure,
    ...(telemetry === undefined ? {} : telemetryFacts(telemetry)),
    code,
    latency_ms: Math.round(durationMs * 10) / 10,
  };
  if (error === undefined) logger.info(facts, 'call');
  else logger[error.facets.log](error.facets.http >= 500 ? { ...facts, error } : facts, 'call');
}

function telemetryFacts({ accountId, keyId, model, route, heldNanoUsd, settled, ...telemetry }: RequestTelemetry) {
  return defined({
    account_id: accountId,
    key_id: keyId,
    model,
    provider: route?.provider,
    route: route === undefined ? undefined : `${route.provider}/${route.model}`,
    route_reason: telemetry.routeReason,
    attempts: accountId === undefined ? undefined : telemetry.attempts,
    tokens: settled?.tokens,
    cost: settled === undefined ? undefined : dollarsNumber(settled.costNanoUsd),
    held: heldNanoUsd === undefined ? undefined : dollarsNumber(heldNanoUsd),
    upstream_request_id: telemetry.upstreamRequestId,
    upstream_message: telemetry.upstreamMessage,
  });
}
