import { GatewayError } from '../../errors/gateway-error.ts';
import type { UpstreamFailure, UpstreamFailureKind } from '../../generation/upstream.ts';
import { defined } from '../../lib/defined.ts';

/** Decides what follows a failed attempt. Source: docs/architecture.md "Routing". */
export interface Verdict {
  /**
   * `same_route`: it may be tried again. `next_route`: another one may be tried. `never`: no more attempts. `rejected`: the caller's
   * request is at fault, no more attempts.
   */
  readonly retry: 'same_route' | 'next_route' | 'never' | 'rejected';
  /** True if the route's circuit breaker counts it. */
  readonly counts: boolean;
}

const rejections: ReadonlySet<number> = new Set([400, 413, 422]);
/** Statuses about the gateway's key. */
const refusals: ReadonlySet<number> = new Set([401, 402, 403, 404]);
const retriedBelow500: ReadonlySet<number> = new Set([408, 409, 429]);

function statusVerdict(status: number): Verdict {
  if (rejections.has(status)) return { retry: 'rejected', counts: false };
  if (status >= 500) return { retry: 'same_route', counts: true };
  if (retriedBelow500.has(status)) return { retry: 'same_route', counts: false };
  // All of the provider's keys have been tried: the upstream does that itself.
  return { retry: 'next_route', counts: false };
}

/** The consequences of a failure without a status, and the client's error. Breakers count all of them. */
const kinds: Readonly<
  Record<Exclude<UpstreamFailureKind, 'status'>, { readonly retry: Verdict['retry']; readonly message: string }>
> = {
  reported: { retry: 'same_route', message: 'The model’s provider reported an error.' },
  first_event_timeout: {
    retry: 'next_route',
    message: 'The model’s provider did not begin to answer in time.',
  },
  idle_timeout: { retry: 'next_route', message: 'The model’s provider stopped in the middle of its answer.' },
  total_timeout: { retry: 'never', message: 'The model’s provider did not finish its answer in time.' },
  connect: { retry: 'same_route', message: 'The model’s provider could not be reached.' },
  truncated: { retry: 'same_route', message: 'The model’s provider broke off its answer.' },
  // Another route would be overloaded as well.
  oversized: { retry: 'never', message: 'The model’s provider sent an answer that is too large.' },
  malformed: {
    retry: 'same_route',
    message: 'The model’s provider sent an answer that can’t be parsed.',
  },
};

function kindVerdict({ kind, facts }: UpstreamFailure): Verdict {
  const { status } = facts;
  // Whatever its status: no remaining key of the provider would succeed, and the request is not at fault.
  if (facts.billing === true && status !== 429) return { retry: 'next_route', counts: false };
  if (kind === 'status' || kind === 'reported') {
    if (isRequestsFault(facts)) return { retry: 'rejected', counts: false };
    // The upstream has already waited for it: see `HttpAttempt`.
    if (status === 503 && facts.isLoading === true) return { retry: 'next_route', counts: false };
    if (kind === 'status' || status !== undefined) return statusVerdict(status ?? 500);
  }
  return { retry: kinds[kind].retry, counts: true };
}

/** Statuses that are not about the request, whatever their message: credentials and load. */
const notTheRequests: ReadonlySet<number> = new Set([401, 403, 408, 429, 503, 529]);

/**
 * Returns true if the upstream rejects the request's content, also with a status above 499: otherwise every route would be tried, and their
 * breakers would open for others.
 */
function isRequestsFault({ status, contextLengthExceeded, blamesContent }: UpstreamFailure['facts']): boolean {
  if (status !== undefined && notTheRequests.has(status)) return false;
  return contextLengthExceeded === true || blamesContent === true;
}

/** Returns the consequences of a failure. `delivered`: events of the attempt have reached the caller and can't be taken back. */
export function toVerdict(failure: UpstreamFailure, delivered: boolean): Verdict {
  const verdict = kindVerdict(failure);
  return {
    retry: delivered ? 'never' : verdict.retry,
    counts: verdict.counts && failure.facts.requested !== true,
  };
}

/** Returns the error of a model none of whose routes can be used now. `retryAfterMs`: when one may be; absent if unknown. */
export function modelUnavailable(model: string, retryAfterMs?: number): GatewayError {
  const facts = { param: 'model', ...defined({ retryAfterMs }) };
  return new GatewayError('model_unavailable', `The model ${model} is temporarily not available.`, facts);
}

/** Returns the error of a gateway that already has too many requests at the model's providers. */
export function providersBusy(model: string): GatewayError {
  const message = `Too many requests to the model ${model} are waiting already.`;
  return new GatewayError('overloaded', message, { retryAfterMs: 1_000 });
}

/** `own`: the provider's message. Refusals are not shown to the client: they concern the operator's keys. */
function statusMessage(status: number, own: string | undefined): string {
  if (refusals.has(status)) return 'The model’s provider refused the gateway’s request.';
  const what =
    status === 429 || status === 503 || status === 529
      ? 'The model’s provider is overloaded'
      : `The model’s provider failed with status ${status}`;
  return own === undefined ? `${what}.` : `${what}: ${own}`;
}

function rejection(failure: UpstreamFailure): GatewayError {
  const { message = 'The model’s provider refused the request.', param, detailCode } = failure.facts;
  const isTooLong = failure.facts.contextLengthExceeded === true;
  const facts = { cause: failure, ...defined({ param, detailCode }) };
  return new GatewayError(isTooLong ? 'context_length_exceeded' : 'upstream_rejected', message, facts);
}

function upstreamMessage({ kind, facts }: UpstreamFailure): string {
  const { status } = facts;
  const message = facts.billing === true ? undefined : facts.message;
  if (status === 503 && facts.isLoading === true) return 'The model’s provider is still loading the model.';
  if (kind === 'status') return statusMessage(status ?? 500, message);
  if (kind !== 'reported') return kinds[kind].message;
  if (status !== undefined && status >= 400) return statusMessage(status, message);
  return message === undefined ? kinds.reported.message : `The model’s provider reported an error: ${message}`;
}

/**
 * Returns the client's error for a final failure. It names no address and no credential; the failure itself is the
 * `cause`, for the log.
 */
export function clientError(failure: UpstreamFailure, delivered: boolean): GatewayError {
  if (toVerdict(failure, delivered).retry === 'rejected') return rejection(failure);
  const { retryAfterMs, detailCode } = failure.facts;
  const code = failure.kind.endsWith('_timeout') ? 'upstream_timeout' : 'upstream_error';
  const facts = { cause: failure, ...defined({ retryAfterMs, detailCode }) };
  return new GatewayError(code, upstreamMessage(failure), facts);
}
