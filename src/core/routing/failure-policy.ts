import { GatewayError } from '../../errors/gateway-error.ts';
import { type FailureMeaning, readMeaning } from '../../generation/failure-meaning.ts';
import type { UpstreamFailure, UpstreamFailureKind } from '../../generation/upstream.ts';
import { defined } from '../../lib/defined.ts';

/** The consequence of a failed attempt. Source: docs/architecture.md "Routing". */
export interface Verdict {
  /**
   * `same_route`: the route may be tried again. `next_route`: only other routes may be tried. `longer_route`: only routes with a longer context, because the client's input is too long. `never`: no more attempts. `rejected`: no more attempts, because the client's request is at fault.
   */
  readonly retry: 'same_route' | 'next_route' | 'longer_route' | 'never' | 'rejected';
  /** True if the route's circuit breaker counts the failure. */
  readonly counts: boolean;
}

/** The consequence of a failure of each meaning. The upstream has already tried all of the provider's keys, and has waited for a model that is being loaded. */
const verdicts: Readonly<Record<FailureMeaning, Verdict>> = {
  request: { retry: 'rejected', counts: false },
  too_long: { retry: 'longer_route', counts: false },
  key: { retry: 'next_route', counts: false },
  billing: { retry: 'next_route', counts: false },
  permission: { retry: 'next_route', counts: false },
  model: { retry: 'next_route', counts: false },
  limit: { retry: 'same_route', counts: false },
  quota: { retry: 'same_route', counts: false },
  temporary: { retry: 'same_route', counts: false },
  loading: { retry: 'next_route', counts: false },
  server: { retry: 'same_route', counts: true },
};

/** Meanings that concern only the operator, so that clients do not see the provider's message. */
const operators: ReadonlySet<FailureMeaning | undefined> = new Set(['key', 'billing', 'permission', 'model'] as const);

/** Returns what a failure means; undefined if it is none that the upstream has reported, or if the report has neither a status nor a known text. */
function findMeaning({ kind, facts: { status, meaning } }: UpstreamFailure): FailureMeaning | undefined {
  if (kind === 'status') return readMeaning(status ?? 500, meaning);
  if (kind !== 'reported') return undefined;
  return status === undefined ? meaning : readMeaning(status, meaning);
}

/** The consequence of a failure without a status, and the client's error message. Breakers count all of these failures. */
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

/** Decides what follows a failure. `delivered`: events of the attempt were sent to the client and can't be taken back. */
export function toVerdict(failure: UpstreamFailure, delivered: boolean): Verdict {
  const meaning = findMeaning(failure);
  const verdict =
    meaning !== undefined
      ? verdicts[meaning]
      : { retry: failure.kind === 'status' ? 'next_route' : kinds[failure.kind].retry, counts: true };
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

/** Returns the client's message for an error that the upstream has reported. The provider's own message is left out if it concerns only the operator. */
function reportedMessage(failure: UpstreamFailure): string {
  const { status, message } = failure.facts;
  const meaning = findMeaning(failure);
  if (meaning === 'loading') return 'The model’s provider is still loading the model.';
  if (operators.has(meaning)) return 'The model’s provider refused the gateway’s request.';
  const what =
    meaning === 'limit' || meaning === 'quota' || status === 503 || status === 529
      ? 'The model’s provider is overloaded'
      : status === undefined
        ? 'The model’s provider reported an error'
        : `The model’s provider failed with status ${status}`;
  return message === undefined || meaning === 'quota' ? `${what}.` : `${what}: ${message}`;
}

function rejection(failure: UpstreamFailure): GatewayError {
  const { message = 'The model’s provider refused the request.', param, detailCode } = failure.facts;
  const facts = { cause: failure, ...defined({ param, detailCode }) };
  const code = findMeaning(failure) === 'too_long' ? 'context_length_exceeded' : 'upstream_rejected';
  return new GatewayError(code, message, facts);
}

/**
 * Returns the client's error for a final failure. It contains no URL and no credential; the failure is its `cause`, for the log.
 */
export function clientError(failure: UpstreamFailure, delivered: boolean): GatewayError {
  const { retry } = toVerdict(failure, delivered);
  if (retry === 'rejected' || retry === 'longer_route') return rejection(failure);
  const { retryAfterMs, detailCode } = failure.facts;
  const { kind } = failure;
  const message = kind === 'status' || kind === 'reported' ? reportedMessage(failure) : kinds[kind].message;
  const code = kind.endsWith('_timeout') ? 'upstream_timeout' : 'upstream_error';
  const facts = { cause: failure, ...defined({ retryAfterMs, detailCode }) };
  return new GatewayError(code, message, facts);
}
