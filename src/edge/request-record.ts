import type { FastifyRequest } from 'fastify';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import { dollarsNumber } from '../lib/dollars.ts';
import { describeError } from '../telemetry/logger.ts';
import type { RequestSample, TokenCounts } from '../telemetry/metrics.ts';
import type { Edge } from './edge.ts';

/** How a request ended. */
export interface RequestOutcome {
  /** The HTTP status that was sent; 499 where the client went away before it. */
  readonly status: number;
  /** The error's code, where it failed. */
  readonly code?: string | undefined;
  readonly error?: GatewayError | undefined;
  readonly stream?: boolean | undefined;
  /** The listed id, once the core has told it. */
  readonly model?: string | undefined;
  readonly firstEventMs?: number | undefined;
  /** What the core said at the end; absent where it never came. */
  readonly completed?: Completed | undefined;
  /** The request that was answered first, where this answer is its repeat. */
  readonly repeats?: string | undefined;
  /** What was charged for pictures, in nano-dollars. */
  readonly costNanoUsd?: bigint | undefined;
}

/** What is known of a request itself; `url` is the route's pattern, absent where no route was found: then `raw` says what was asked for. */
export interface RecordedRequest extends Pick<FastifyRequest, 'call' | 'method'> {
  readonly routeOptions: { readonly url?: string | undefined };
  readonly raw?: { readonly url?: string | undefined };
}

/** The longest unknown path that is logged whole. */
const pathLengthMax = 200;
/** A piece of a path that can be neither a key nor what somebody said. */
const plainSegment = /^(?!(?:sk|mk)-)[\w.:-]{0,24}$/i;

/** The path of a request for the log, without its query; what may be a secret in an unknown one is left out. */
function pathOf({ routeOptions, raw }: RecordedRequest): string {
  if (routeOptions.url !== undefined) return routeOptions.url;
  const [path = ''] = (raw?.url ?? '').split('?', 1);
  const shown = path.split('/').map(segment => (plainSegment.test(segment) ? segment : '…'));
  return shown.join('/').slice(0, pathLengthMax);
}

/** Writes the one log line and the metrics of an answered request. */
export function recordRequest(edge: Edge, request: RecordedRequest, outcome: RequestOutcome): void {
  const { status, model, firstEventMs, completed } = outcome;
  const costNanoUsd = completed?.costNanoUsd ?? outcome.costNanoUsd;
  const sample: RequestSample = {
    endpoint: request.routeOptions.url ?? '',
    model,
    status,
    durationMs: request.call.elapsedMs(),
    firstEventMs,
    tokens: completed?.usage === undefined ? undefined : toTokenCounts(completed.usage),
    costUsd: costNanoUsd === undefined ? undefined : dollarsNumber(costNanoUsd),
  };
  edge.options.metrics.answered(sample);
  edge.options.logger.line(outcome.error?.facets.log ?? 'info', lineMembers(request, outcome, sample));
}

/** The line's members as JSON text: to write them one by one costs a fraction of what an object and a general writer do. */
function lineMembers(request: RecordedRequest, outcome: RequestOutcome, sample: RequestSample): string {
  const { call, method } = request;
  const { status, code, error, stream, repeats } = outcome;
  const { durationMs, model, firstEventMs, tokens, costUsd } = sample;
  return (
    member('requestId', call.id) +
    (call.credential === undefined ? '' : `,"keyId":${Number(call.credential.keyId)}`) +
    member('method', method) +
    member('path', pathOf(request)) +
    `,"status":${status}` +
    member('code', code) +
    // An upstream's own words for a field are not the gateway's to log.
    member('param', error?.cause === undefined ? error?.facts.param : undefined) +
    member('model', model) +
    (stream === undefined ? '' : `,"stream":${stream}`) +
    `,"latencyMs":${rounded(durationMs)}` +
    (firstEventMs === undefined ? '' : `,"firstEventMs":${rounded(firstEventMs)}`) +
    member('tokens', tokens) +
    (costUsd === undefined ? '' : `,"costUsd":${costUsd}`) +
    member('repeats', repeats) +
    // A refusal explains itself by its code; only what the gateway or an upstream did wrong needs its cause.
    member('error', status >= 500 && error?.cause !== undefined ? describeError(error.cause) : undefined) +
    ',"msg":"request"'
  );
}

function member(name: string, value: unknown): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

function toTokenCounts(usage: Usage): TokenCounts {
  return {
    input: usage.inputTokens ?? 0,
    cache_read: usage.cacheReadTokens ?? 0,
    cache_write_5m: usage.cacheWrite5mTokens ?? 0,
    cache_write_1h: usage.cacheWrite1hTokens ?? 0,
    output: usage.outputTokens ?? 0,
  };
}
