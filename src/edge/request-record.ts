import type { FastifyRequest } from 'fastify';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { Completed, Usage } from '../gen/tollgate/v1/event_pb.ts';
import { dollarsNumber, knownDollars } from '../lib/dollars.ts';
import { redactTokens } from '../telemetry/redaction.ts';
import { describeError } from '../telemetry/logger.ts';
import type { TelemetryRoute } from '../telemetry/request-telemetry.ts';
import type { RequestSample, TokenCounts } from '../telemetry/metrics.ts';
import type { Call } from './call.ts';
import type { Edge } from './edge.ts';
import { shownPattern } from './gemini/target.ts';

/** How a request ended, for its log line and its metrics. */
export interface RequestOutcome {
  /** The HTTP status that was sent; 499 if the client disconnected before. */
  readonly status: number;
  /** The error's code, if it failed. */
  readonly code?: string | undefined;
  readonly error?: GatewayError | undefined;
  /** The listed id, once the core has reported it. */
  readonly model?: string | undefined;
  /** Why the answer ended ("stop"). */
  readonly finish?: string | undefined;
  readonly firstEventMs?: number | undefined;
  /** The core's final event; absent if it never came. */
  readonly completed?: Completed | undefined;
  /** The id of the earlier request, if this answer repeats its stored answer. */
  readonly repeats?: string | undefined;
  /** The charge for images, in nano-dollars. */
  readonly costNanoUsd?: bigint | undefined;
}

/** The parts of a request that are recorded. `routeOptions.url` is the pattern of its path; '' or undefined for an unknown path. */
export interface RecordedRequest extends Pick<FastifyRequest, 'call' | 'method'> {
  readonly routeOptions: { readonly url?: string | undefined };
  /** The requested URL, with its query. */
  readonly url?: string;
}

/** Writes the one log line and the metrics of an answered request. */
export function recordRequest(edge: Edge, request: RecordedRequest, outcome: RequestOutcome): void {
  const { status, code, firstEventMs, completed, repeats } = outcome;
  const { call, routeOptions } = request;
  const { settled } = call;
  const costNanoUsd = completed?.costNanoUsd ?? outcome.costNanoUsd ?? settled?.costNanoUsd;
  // The usage in a repeated answer was already counted for the earlier request.
  const isCounted = repeats === undefined;
  const endpoint =
    routeOptions.url === undefined || routeOptions.url === '' ? unknownName : shownPattern(routeOptions.url);
  const model = outcome.model ?? call.model ?? findRequested(edge, call);
  const usual = findUsual(request, endpoint, model);
  const sample: RequestSample = {
    endpoint,
    model,
    route: usual.routeName,
    status,
    code,
    durationMs: call.elapsedMs(),
    firstEventMs,
    tokens: isCounted ? readTokens(completed, call) : undefined,
    costUsd: isCounted ? knownDollars(costNanoUsd) : undefined,
    providerCostUsd: isCounted ? knownDollars(settled?.providerCostNanoUsd) : undefined,
  };
  edge.options.metrics.answered(sample);
  const { credential } = call;
  if (code !== undefined && credential !== undefined) {
    edge.options.failed?.(credential.accountId, credential.keyId, code);
  }
  edge.options.logger.line(outcome.error?.facets.log ?? 'info', lineMembers(request, outcome, sample, usual));
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

/** Returns the listed id of the model that a refused request names; `other` if it names none that is listed. Undefined: its path uses no model. */
function findRequested({ options }: Edge, { requestedModel, sendsLimitHeaders }: Call): string | undefined {
  const listed = requestedModel === undefined ? undefined : options.findListed?.(requestedModel);
  return listed ?? (sendsLimitHeaders ? unknownName : undefined);
}

/** The label of an unknown path or model, because a client's text must not become a label of a metric. */
const unknownName = 'other';

function readTokens(completed: Completed | undefined, { settled }: Call): TokenCounts | undefined {
  return completed?.usage === undefined ? settled?.tokens : toTokenCounts(completed.usage);
}

/** Returns the members of the log line as JSON text. Concatenating is much faster than building and serialising an object. */
function lineMembers(
  { call }: RecordedRequest,
  outcome: RequestOutcome,
  sample: RequestSample,
  usual: UsualFacts,
): string {
  const { status, code, error, finish, repeats } = outcome;
  const { durationMs, firstEventMs, tokens, costUsd } = sample;
  return (
    word('request_id', call.id) +
    member('client_request_id', call.clientRequestId) +
    usual.members +
    word('route_reason', call.routeReason) +
    (call.sendsLimitHeaders || call.attempts > 0 ? `,"attempts":${call.attempts}` : '') +
    `,"status":${status}` +
    word('code', code) +
    // The `param` of an upstream's error is not logged, because the upstream chose its text.
    member('param', error?.cause === undefined ? error?.facts.param : undefined) +
    word('finish', finish) +
    member('tokens', tokens) +
    number('cost', costUsd) +
    number('held', call.heldNanoUsd === undefined ? undefined : dollarsNumber(call.heldNanoUsd)) +
    `,"latency_ms":${rounded(durationMs)}` +
    (firstEventMs === undefined ? '' : `,"ttft_ms":${rounded(firstEventMs)}`) +
    member('upstream_request_id', call.upstreamRequestId) +
    member('upstream_message', call.upstreamMessage) +
    member('trace_id', call.traceId) +
    member('repeats', repeats) +
    // The code of a refusal says enough; only failures of the gateway or an upstream are logged with their cause.
    member('error', status >= 500 && error?.cause !== undefined ? describeError(error.cause) : undefined) +
    ',"msg":"request"'
  );
}

/** The common facts of a key's requests to one route. */
interface UsualFacts {
  readonly accountId: number | bigint | undefined;
  readonly keyId: number | bigint | undefined;
  readonly model: string | undefined;
  readonly endpoint: string;
  readonly route: TelemetryRoute | undefined;
  /** The route's name in log and metrics. */
  readonly routeName: string | undefined;
  /** The members of the log line for all of this. */
  readonly members: string;
}

/** The latest facts, by the last bits of their key's id: a request is mostly like the one before of its key, and then nothing is written again. */
const latest: (UsualFacts | undefined)[] = Array.from({ length: 256 });

function findUsual(request: RecordedRequest, endpoint: string, model: string | undefined): UsualFacts {
  const { call } = request;
  const { route } = call;
  const accountId = call.accountId ?? call.credential?.accountId;
  const keyId = call.keyId ?? call.credential?.keyId;
  const place = Number(keyId ?? 0) % latest.length;
  const known = latest[place];
  const isSameCaller = known?.keyId === keyId && known?.accountId === accountId;
  if (known?.endpoint === endpoint && isSameCaller && known.model === model && known.route === route) return known;
  const routeName = route === undefined ? undefined : `${route.provider}/${route.model}`;
  const members =
    number('account_id', accountId) +
    number('key_id', keyId) +
    member('model', model === unknownName ? undefined : model) +
    word('endpoint', endpoint) +
    // An unknown path has no pattern, so the path itself is logged.
    (endpoint === unknownName ? member('method', request.method) + member('path', shownPath(request.url)) : '') +
    member('provider', route?.provider) +
    member('route', routeName);
  const facts = { accountId, keyId, model, endpoint, route, routeName, members };
  if (endpoint !== unknownName) latest[place] = facts;
  return facts;
}

function member(name: string, value: unknown): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

/** Returns a member whose value is a constant of the gateway, which needs no escaping. */
function word(name: string, value: string | undefined): string {
  return value === undefined ? '' : `,"${name}":"${value}"`;
}

function number(name: string, value: number | bigint | undefined): string {
  return value === undefined ? '' : `,"${name}":${value}`;
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/** Returns a path for the log, without its query, which may be private, and with credentials redacted. */
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
