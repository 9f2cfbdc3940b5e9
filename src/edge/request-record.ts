import type { FastifyRequest } from 'fastify';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import { dollarsNumber } from '../lib/dollars.ts';
import type { Edge } from './edge.ts';

/** How a request ended. */
export interface RequestOutcome {
  /** The HTTP status that was sent; 499 where the client went away before it. */
  readonly status: number;
  /** The error's code, where it failed. */
  readonly code?: string;
  readonly error?: GatewayError;
  readonly stream?: boolean;
  /** The listed id, once the core has told it. */
  readonly model?: string;
  readonly firstEventMs?: number;
  /** What the core said at the end; absent where it never came. */
  readonly completed?: Completed;
  /** The request that was answered first, where this answer is its repeat. */
  readonly repeats?: string;
  /** What was charged for pictures, in nano-dollars. */
  readonly costNanoUsd?: bigint;
}

/** What is known of a request itself; `url` is the route's pattern. */
export interface RecordedRequest extends Pick<FastifyRequest, 'call' | 'method'> {
  readonly routeOptions: { readonly url?: string | undefined };
}

/** The one log line and the metrics of an answered request. */
export function recordRequest(edge: Edge, request: RecordedRequest, outcome: RequestOutcome): void {
  const { call } = request;
  const { status, code, error, stream, model, firstEventMs, completed, repeats } = outcome;
  const durationMs = call.elapsedMs();
  const endpoint = request.routeOptions.url ?? '';
  const tokens = completed?.usage === undefined ? undefined : tokensOf(completed.usage);
  const costNanoUsd = completed?.costNanoUsd ?? outcome.costNanoUsd;
  const costUsd = costNanoUsd === undefined ? undefined : dollarsNumber(costNanoUsd);
  edge.options.metrics.answered({
    endpoint,
    status,
    durationMs,
    ...(model === undefined ? {} : { model }),
    ...(firstEventMs === undefined ? {} : { firstEventMs }),
    ...(tokens === undefined ? {} : { tokens }),
    ...(costUsd === undefined ? {} : { costUsd }),
  });
  edge.options.logger[error?.facets.log ?? 'info'](
    {
      requestId: call.id,
      keyId: call.credential === undefined ? undefined : Number(call.credential.keyId),
      method: request.method,
      path: endpoint,
      status,
      code,
      // An upstream's own words for a field are not the gateway's to log.
      param: error?.cause === undefined ? error?.facts.param : undefined,
      model,
      stream,
      latencyMs: rounded(durationMs),
      firstEventMs: firstEventMs === undefined ? undefined : rounded(firstEventMs),
      tokens,
      costUsd,
      repeats,
      // A refusal explains itself by its code; only what the gateway or an upstream did wrong needs its cause.
      error: status >= 500 ? error?.cause : undefined,
    },
    'request',
  );
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

function tokensOf(usage: Usage): Record<string, number> {
  return {
    input: usage.inputTokens ?? 0,
    cache_read: usage.cacheReadTokens ?? 0,
    cache_write_5m: usage.cacheWrite5mTokens ?? 0,
    cache_write_1h: usage.cacheWrite1hTokens ?? 0,
    output: usage.outputTokens ?? 0,
  };
}
