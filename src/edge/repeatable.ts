import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { fingerprintHeader, idempotencyKeyHeader } from '../lib/call-headers.ts';

/** Whether a request carries an Idempotency-Key. An empty one is none. */
export function isRepeatable({ raw }: FastifyRequest): boolean {
  return (raw.headers[idempotencyKeyHeader] ?? '') !== '';
}

/**
 * Metadata of a call to the core that generates: with an `Idempotency-Key` also the key, and what path and body are compared by. `body` is the bytes that
 * came, or what says the same of a form. Source: decisions §6.
 */
export function repeatableHeaders(request: FastifyRequest, body: Uint8Array): Headers {
  const { call, raw, routeOptions } = request;
  const headers = call.rpcHeaders();
  if (!isRepeatable(request)) return headers;
  const fingerprint = createHash('sha256')
    .update(`${routeOptions.url ?? ''}\0`)
    .update(body)
    .digest('base64url');
  const all = new Headers(headers);
  all.set(idempotencyKeyHeader, String(raw.headers[idempotencyKeyHeader]));
  all.set(fingerprintHeader, fingerprint);
  return all;
}
