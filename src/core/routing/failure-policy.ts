import { GatewayError } from '../../errors/gateway-error.ts';
import type { UpstreamFailure, UpstreamFailureKind } from '../../generation/upstream.ts';
import { defined } from '../../lib/defined.ts';

/** What follows a failed attempt. Source: docs/architecture.md "Routing". */
export interface Verdict {
  /**
   * `same_route`: the route may be tried again. `next_route`: only other routes may be tried. `never`: no more attempts. `rejected`: no more attempts, because the client's request is at fault.
   */
  readonly retry: 'same_route' | 'next_route' | 'never' | 'rejected';
  /** True if the route's circuit breaker counts the failure. */
  readonly counts: boolean;
}

const rejections: ReadonlySet<number> = new Set([400, 413, 422]);
/** Statuses that mean that the provider refused the gateway's key or model. */
const refusals: ReadonlySet<number> = new Set([401, 402, 403, 404]);
const retriedBelow500: ReadonlySet<number> = new Set([408, 409, 429]);

function statusVerdict(status: number): Verdict {
  if (rejections.has(status)) return { retry: 'rejected', counts: false };
  if (status >= 500) return { retry: 'same_route', counts: true };
  if (retriedBelow500.has(status)) return { retry: 'same_route', counts: false };
  // The upstream has already tried all of the provider's keys.
  return { retry: 'next_route', counts: false };
}

/** What follows a failure without a status, and the client's error message. Breakers count all of these failures. */
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
  // Not retried, because an answer of another route would be as large.
  oversized: { retry: 'never', message: 'The model’s provider sent an answer that is too large.' },
  malformed: {
    retry: 'same_route',
    message: 'The model’s provider sent an answer that can’t be parsed.',
  },
};

function kindVerdict({ kind, facts }: UpstreamFailure): Verdict {
  const { status } = facts;
  // The provider's account can't pay. That does not depend on the key or the request, so the next route is tried.
  if (facts.billing === true && status !== 429) return { retry: 'next_route', counts: false };
  if (kind === 'status' || kind === 'reported') {
    if (isRequestsFault(facts)) return { retry: 'rejected', counts: false };
    // The upstream has already waited for the model to load: see `HttpAttempt`.
    if (status === 503 && facts.isLoading === true) return { retry: 'next_route', counts: false };
    if (kind === 'status' || status !== undefined) return statusVerdict(status ?? 500);
  }
  return { retry: kinds[kind].retry, counts: true };
}

/** Statuses that never mean that the request is at fault: they are about credentials and load. */
const notTheRequests: ReadonlySet<number> = new Set([401, 403, 408, 429, 503, 529]);

/**
 * Returns true if the upstream rejects the content of the request, even with a status above 499. Otherwise such a request would be tried on every route, and open the breakers for other requests.
 */
function isRequestsFault({ status, contextLengthExceeded, blamesContent }: UpstreamFailure['facts']): boolean {
  if (status !== undefined && notTheRequests.has(status)) return false;
  return contextLengthExceeded === true || blamesContent === true;
}

/** Decides what follows a failure. `delivered`: events of the attempt were sent to the client and can't be taken back. */
export function toVerdict(failure: UpstreamFailure, delivered: boolean): Verdict {
  const verdict = kindVerdict(failure);
  return {
    retry: delivered ? 'never' : verdict.retry,
    counts: verdict.counts && failure.facts.requested !== true,
  };
}

/** Returns the error for a model of which no route can be used now. `retryAfterMs`: how long until one may be usable; absent: unknown. */
export function modelUnavailable(model: string, retryAfterMs?: number): GatewayError {
  const facts = { param: 'model', ...defined({ retryAfterMs }) };
  return new GatewayError('model_unavailable', `The model ${model} is temporarily not available.`, facts);
}

/** Returns the error for a request whose providers already have too many requests of this gateway. */
export function providersBusy(model: string): GatewayError {
  const message = `Too many requests to the model ${model} are waiting.`;
  return new GatewayError('overloaded', message, { retryAfterMs: 1_000 });
}

/** Returns the client's message for a status. `own`: the provider's message; it is left out if the provider refused the gateway's key, which concerns only the operator. */
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
 * Returns the client's error for a final failure. It contains no URL and no credential; the failure is its `cause`, for the log.
 */
export function clientError(failure: UpstreamFailure, delivered: boolean): GatewayError {
  if (toVerdict(failure, delivered).retry === 'rejected') return rejection(failure);
  const { retryAfterMs, detailCode } = failure.facts;
  const code = failure.kind.endsWith('_timeout') ? 'upstream_timeout' : 'upstream_error';
  const facts = { cause: failure, ...defined({ retryAfterMs, detailCode }) };
  return new GatewayError(code, upstreamMessage(failure), facts);
}
