import type { IncomingMessage } from 'node:http';
import type { AnswerHeaders } from './call.ts';

/** Cross-origin calls from web pages: only for the origins that the configuration names. Source: Fetch standard, "CORS protocol". */

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
 * Returns the headers that let the page of `origin` read the answer; none if it may not, or if the request does not
 * come from a page.
 */
export function corsHeaders(allowed: readonly string[], origin: string | undefined): AnswerHeaders {
  if (origin === undefined || allowed.length === 0) return {};
  if (allowed.includes('*')) return { 'access-control-allow-origin': '*', 'access-control-expose-headers': exposed };
  // Set for every origin, allowed or not: a cache must not serve one origin's answer to another.
  if (!allowed.includes(origin)) return { vary: 'origin' };
  return { 'access-control-allow-origin': origin, 'access-control-expose-headers': exposed, vary: 'origin' };
}

/**
 * Returns the headers that answer a browser's preflight request; undefined if it is not one, or the origin is not
 * allowed.
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
