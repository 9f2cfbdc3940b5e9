import type { GatewayError } from '../../errors/gateway-error.ts';
import { retryAfterSeconds } from '../../errors/retry-after.ts';
import type { JsonObject } from '../codec.ts';

/** Renders errors in the form of Google's services. Source: docs/interfaces/gemini.md "Errors"; google.rpc.Status, ErrorInfo and RetryInfo (googleapis/googleapis). */

const statuses: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
};

/** Returns the HTTP status of an error on this interface: Google's services have no 422, and the model is a part of the path. */
export function googleStatus({ code, facets }: GatewayError): number {
  if (code === 'model_not_found' || code === 'model_retired') return 404;
  return facets.http === 422 ? 400 : facets.http;
}

/** Returns the error envelope. `about`: what else is known, null if it is not; every value of `metadata` is a string. */
export function googleError(error: GatewayError, about: Readonly<Record<string, string | null>>): JsonObject {
  const status = googleStatus(error);
  const { param } = error.facts;
  const known = Object.entries({ ...about, param: param ?? null }).filter(([, value]) => value !== null);
  const info = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: error.code,
    domain: 'tollgate',
    metadata: Object.fromEntries(known),
  };
  const seconds = retryAfterSeconds(error);
  return {
    error: {
      code: status,
      message: error.message,
      status: statuses[status] ?? (status >= 500 ? 'UNAVAILABLE' : 'INVALID_ARGUMENT'),
      details: seconds === undefined ? [info] : [info, retryInfo(seconds)],
    },
  };
}

function retryInfo(seconds: number): JsonObject {
  return { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${seconds}s` };
}
