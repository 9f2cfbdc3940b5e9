import type { FastifyRequest } from 'fastify';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import { dollarsNumber } from '../lib/dollars.ts';
import { redactTokens } from '../telemetry/redaction.ts';
import { describeError } from '../telemetry/logger.ts';
import type { RequestSample, TokenCounts } from '../telemetry/metrics.ts';
import type { Call } from './call.ts';
import type { Edge } from './edge.ts';

/** How a request ended. */
export interface RequestOutcome {
  /** The HTTP status that was sent; 499 where the client went away before it. */
  readonly status: number;
  /** The error's code, where it failed. */
  readonly code?: string | undefined;
  readonly error?: GatewayError | undefined;
  /** The listed id, once the core has told it. */
  readonly model?: string | undefined;
  /** Why the answer ended ("stop"). */
  readonly finish?: string | undefined;
  readonly firstEventMs?: number | undefined;
  /** What the core said at the end; absent where it never came. */
  readonly completed?: Completed | undefined;
  /** The request that was answered first, where this answer is its repeat. */
  readonly repeats?: string | undefined;
  /** What was charged for pictures, in nano-dollars. */
  readonly costNanoUsd?: bigint | undefined;
}

/** What is known of a request itself; `url` is the route's pattern, '' or undefined of a path that is none. */
export interface RecordedRequest extends Pick<FastifyRequest, 'call' | 'method'> {
  readonly routeOptions: { readonly url?: string | undefined };
  /** As it was sent, query included. */
  readonly url?: string;
}

/** Writes the one log line and the metrics of an answered request. */
export function recordRequest(edge: Edge, request: RecordedRequest, outcome: RequestOutcome): void {
  const { status, code, firstEventMs, completed, repeats } = outcome;
  const { call, routeOptions } = request;
  const { settled, route } = call;
  const costNanoUsd = completed?.costNanoUsd ?? outcome.costNanoUsd ?? settled?.costNanoUsd;
  // What a repeat shows was counted when it was answered first.
  const isCounted = repeats === undefined;
  const sample: RequestSample = {
    endpoint: routeOptions.url === undefined || routeOptions.url === '' ? unknownName : routeOptions.url,
    model: outcome.model ?? call.model ?? (call.tellsLimits ? unknownName : undefined),
    route: route === undefined ? undefined : `${route.provider}/${route.model}`,
    status,
    code,
    durationMs: call.elapsedMs(),
    firstEventMs,
    tokens: isCounted ? readTokens(completed, call) : undefined,
    costUsd: isCounted && costNanoUsd !== undefined ? dollarsNumber(costNanoUsd) : undefined,
  };
  edge.options.metrics.answered(sample);
  const { credential } = call;
  if (code !== undefined && credential !== undefined) {
    edge.options.failed?.(credential.accountId, credential.keyId, code);
  }
  edge.options.logger.line(outcome.error?.facets.log ?? 'info', lineMembers(request, outcome, sample));
  const { method } = request;
  call.trace?.ended(call, {
    endpoint: sample.endpoint,
    method,
    requestId: call.id,
    status,
    code,
    finish: outcome.finish,
  });
}

/** What stands for a path or a model that nobody knows: others' words are no labels. */
const unknownName = 'other';

function readTokens(completed: Completed | undefined, { settled }: Call): TokenCounts | undefined {
  return completed?.usage === undefined ? settled?.tokens : toTokenCounts(completed.usage);
}

/** The line's members as JSON text: to write them one by one costs a fraction of what an object and a general writer do. */
function lineMembers(request: RecordedRequest, outcome: RequestOutcome, sample: RequestSample): string {
  const { status, code, error, finish, repeats } = outcome;
  const { call } = request;
  const { endpoint, durationMs, model, route, firstEventMs, tokens, costUsd } = sample;
  return (
    member('request_id', call.id) +
    member('client_request_id', call.clientRequestId) +
    number('account_id', call.accountId ?? call.credential?.accountId) +
    number('key_id', call.keyId ?? call.credential?.keyId) +
    member('model', model === unknownName ? undefined : model) +
    member('endpoint', endpoint) +
    // Of a path that is none its pattern says nothing.
    (endpoint === unknownName ? member('method', request.method) + member('path', shownPath(request.url)) : '') +
    member('provider', call.route?.provider) +
    member('route', route) +
    member('route_reason', call.routeReason) +
    (call.tellsLimits || call.attempts > 0 ? `,"attempts":${call.attempts}` : '') +
    `,"status":${status}` +
    member('code', code) +
    // An upstream's own words for a field are not the gateway's to log.
    member('param', error?.cause === undefined ? error?.facts.param : undefined) +
    member('finish', finish) +
    member('tokens', tokens) +
    number('cost', costUsd) +
    number('held', call.heldNanoUsd === undefined ? undefined : dollarsNumber(call.heldNanoUsd)) +
    `,"latency_ms":${rounded(durationMs)}` +
    (firstEventMs === undefined ? '' : `,"ttft_ms":${rounded(firstEventMs)}`) +
    member('upstream_request_id', call.upstreamRequestId) +
    member('upstream_message', call.upstreamMessage) +
    member('trace_id', call.traceId) +
    member('repeats', repeats) +
    // A refusal explains itself by its code; only what the gateway or an upstream did wrong needs its cause.
    member('error', status >= 500 && error?.cause !== undefined ? describeError(error.cause) : undefined) +
    ',"msg":"request"'
  );
}

function member(name: string, value: unknown): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

function number(name: string, value: number | bigint | undefined): string {
  return value === undefined ? '' : `,"${name}":${value}`;
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/** A path as the log shows it: without its query, which has what the caller looks for, and without keys that were pasted into it. */
function shownPath(url: string | undefined): string | undefined {
  return url === undefined ? undefined : redactTokens(url.split('?', 1)[0] ?? '');
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
