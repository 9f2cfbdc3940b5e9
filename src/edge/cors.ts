import type { IncomingMessage } from 'node:http';
import type { AnswerHeaders } from './call.ts';

/** Headers for calls from web pages of other origins, which the configuration must allow. Source: Fetch standard, "CORS protocol". */

const exposed = [
  'x-request-id',
  'request-id',
  'retry-after',
  'x-should-retry',
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
  'x-tollgate-cost',
  'x-tollgate-warnings',
  'x-tollgate-route',
  'idempotent-replayed',
].join(', ');
const preflightSeconds = 600;

/**
 * Returns the headers that let a page of `origin` read the answer; none if the page may not, or if the request does not come from a page.
 */
export function corsHeaders(allowed: readonly string[], origin: string | undefined): AnswerHeaders {
  if (origin === undefined || allowed.length === 0) return {};
  if (allowed.includes('*')) return { 'access-control-allow-origin': '*', 'access-control-expose-headers': exposed };
  // `vary` is set for every origin, allowed or not, so that a cache does not serve one origin's answer to another.
  if (!allowed.includes(origin)) return { vary: 'origin' };
  return { 'access-control-allow-origin': origin, 'access-control-expose-headers': exposed, vary: 'origin' };
}

/**
 * Returns the headers that answer a browser's preflight request; undefined if the request is not one, or its origin is not allowed.
 */
export function preflightHeaders(request: IncomingMessage, headers: AnswerHeaders): AnswerHeaders | undefined {
  const requestedMethod = request.headers['access-control-request-method'];
  if (request.method !== 'OPTIONS' || requestedMethod === undefined) return undefined;
  if (headers['access-control-allow-origin'] === undefined) return undefined;
  return {
    ...headers,
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE',
    'access-control-allow-headers':
      request.headers['access-control-request-headers'] ?? 'authorization, content-type, x-api-key',
    'access-control-max-age': preflightSeconds,
  };
}
