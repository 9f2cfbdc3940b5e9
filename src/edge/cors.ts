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

/** The headers that let the page of `origin` read the answer; none where it may not, or where the request came from no page. */
export function corsHeaders(allowed: readonly string[], origin: string | undefined): AnswerHeaders {
  if (origin === undefined || allowed.length === 0) return {};
  if (allowed.includes('*')) return { 'access-control-allow-origin': '*', 'access-control-expose-headers': exposed };
  // Whether the origin is allowed or not: a cache must not give the one's answer to the other.
  if (!allowed.includes(origin)) return { vary: 'origin' };
  return { 'access-control-allow-origin': origin, 'access-control-expose-headers': exposed, vary: 'origin' };
}

/** The headers that answer a browser's question before the real request; undefined where it is no such question, or the origin is not allowed. */
export function preflightHeaders(request: IncomingMessage, headers: AnswerHeaders): AnswerHeaders | undefined {
  const asked = request.headers['access-control-request-method'];
  if (request.method !== 'OPTIONS' || asked === undefined) return undefined;
  if (headers['access-control-allow-origin'] === undefined) return undefined;
  return {
    ...headers,
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE',
    'access-control-allow-headers':
      request.headers['access-control-request-headers'] ?? 'authorization, content-type, x-api-key',
    'access-control-max-age': preflightSeconds,
  };
}
