import { dollarsNumber } from '../lib/dollars.ts';
import { defined } from '../lib/defined.ts';
import type { RpcCall } from '../rpc/call-boundary.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { RequestStory } from '../telemetry/request-story.ts';

/**
 * Writes the one line of a call over the network: like that of a request, with the procedure in place of the
 * endpoint.
 */
export function logCall(logger: Logger, { procedure, requestId, code, durationMs, error, story }: RpcCall): void {
  const facts = {
    request_id: requestId,
    procedure,
    ...(story === undefined ? {} : storyFacts(story)),
    code,
    latency_ms: Math.round(durationMs * 10) / 10,
  };
  if (error === undefined) logger.info(facts, 'call');
  else logger[error.facets.log](error.facets.http >= 500 ? { ...facts, error } : facts, 'call');
}

function storyFacts({ accountId, keyId, model, route, heldNanoUsd, settled, ...story }: RequestStory) {
  return defined({
    account_id: accountId,
    key_id: keyId,
    model,
    provider: route?.provider,
    route: route === undefined ? undefined : `${route.provider}/${route.model}`,
    route_reason: story.routeReason,
    attempts: accountId === undefined ? undefined : story.attempts,
    tokens: settled?.tokens,
    cost: settled === undefined ? undefined : dollarsNumber(settled.costNanoUsd),
    held: heldNanoUsd === undefined ? undefined : dollarsNumber(heldNanoUsd),
    upstream_request_id: story.upstreamRequestId,
    upstream_message: story.upstreamMessage,
  });
}
