import { GatewayError } from '../../errors/gateway-error.ts';
import type { UpstreamFailure } from '../../generation/upstream.ts';

/** What a failed try leads to. Source: decisions §3 and §4. */
export interface Verdict {
  /**
   * `same_route`: it may be tried again. `next_route`: another may be. `never`: nothing may be tried. `rejected`: the caller's request
   * is at fault, nothing may be tried.
   */
  readonly retry: 'same_route' | 'next_route' | 'never' | 'rejected';
  /** Whether the route's circuit breaker counts it. */
  readonly counts: boolean;
}

const rejections: ReadonlySet<number> = new Set([400, 413, 422]);
const retriedBelow500: ReadonlySet<number> = new Set([408, 409, 429]);

function statusVerdict(status: number): Verdict {
  if (rejections.has(status)) return { retry: 'rejected', counts: false };
  if (status >= 500) return { retry: 'same_route', counts: true };
  if (retriedBelow500.has(status)) return { retry: 'same_route', counts: false };
  // The provider's own keys are used up by now: the upstream goes through them itself.
  return { retry: 'next_route', counts: false };
}

function kindVerdict({ kind, facts }: UpstreamFailure): Verdict {
  switch (kind) {
    case 'status':
      return statusVerdict(facts.status ?? 500);
    case 'reported':
      return facts.status === undefined ? { retry: 'same_route', counts: true } : statusVerdict(facts.status);
    case 'first_event_timeout':
    case 'idle_timeout':
      return { retry: 'next_route', counts: true };
    case 'total_timeout':
      return { retry: 'never', counts: true };
    case 'connect':
    case 'truncated':
    case 'malformed':
      return { retry: 'same_route', counts: true };
  }
}

/** What `failure` leads to. `delivered`: events of its try have reached the caller, so that nothing can be taken back. */
export function verdictOf(failure: UpstreamFailure, delivered: boolean): Verdict {
  const verdict = kindVerdict(failure);
  return {
    retry: delivered ? 'never' : verdict.retry,
    counts: verdict.counts && failure.facts.ordered !== true,
  };
}

/** The error of a model none of whose routes can be used now. */
export function modelUnavailable(model: string): GatewayError {
  return new GatewayError('model_unavailable', `The model ${model} is temporarily not available.`, { param: 'model' });
}

/** The error of a gateway that has too many requests at the model's providers already. */
export function providersBusy(model: string): GatewayError {
  const message = `Too many requests to the model ${model} are waiting already.`;
  return new GatewayError('overloaded', message, { retryAfterMs: 1_000 });
}

const timeouts = {
  first_event_timeout: 'The model’s provider did not begin to answer in time.',
  idle_timeout: 'The model’s provider stopped in the middle of its answer.',
  total_timeout: 'The model’s provider did not finish its answer in time.',
} as const;

const breaks = {
  connect: 'The model’s provider could not be reached.',
  truncated: 'The model’s provider broke its answer off.',
  malformed: 'The model’s provider answered with something that can’t be understood.',
} as const;

function statusMessage(status: number, own: string | undefined): string {
  if (status === 401 || status === 403 || status === 404) return 'The model’s provider refused the gateway’s request.';
  const what =
    status === 429 || status === 503 || status === 529
      ? 'The model’s provider is overloaded'
      : `The model’s provider failed with status ${status}`;
  return own === undefined ? `${what}.` : `${what}: ${own}`;
}

function rejection(failure: UpstreamFailure): GatewayError {
  const {
    message = 'The model’s provider refused the request.',
    param,
    detailCode,
    contextLengthExceeded,
  } = failure.facts;
  const code = contextLengthExceeded === true ? 'context_length_exceeded' : 'upstream_rejected';
  return new GatewayError(code, message, {
    cause: failure,
    ...(param === undefined ? {} : { param }),
    ...(detailCode === undefined ? {} : { detailCode }),
  });
}

function upstreamMessage({ kind, facts }: UpstreamFailure): string {
  switch (kind) {
    case 'status':
      return statusMessage(facts.status ?? 500, facts.message);
    case 'reported':
      if (facts.status !== undefined && facts.status >= 400) return statusMessage(facts.status, facts.message);
      return facts.message === undefined
        ? 'The model’s provider reported an error.'
        : `The model’s provider reported an error: ${facts.message}`;
    case 'first_event_timeout':
    case 'idle_timeout':
    case 'total_timeout':
      return timeouts[kind];
    case 'connect':
    case 'truncated':
    case 'malformed':
      return breaks[kind];
  }
}

/** What a failure for good means to the client. It names no address and no credential; the failure itself is the `cause`, for the log. */
export function clientError(failure: UpstreamFailure, delivered: boolean): GatewayError {
  if (verdictOf(failure, delivered).retry === 'rejected') return rejection(failure);
  const { retryAfterMs, detailCode } = failure.facts;
  const code = failure.kind in timeouts ? 'upstream_timeout' : 'upstream_error';
  return new GatewayError(code, upstreamMessage(failure), {
    cause: failure,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(detailCode === undefined ? {} : { detailCode }),
  });
}
