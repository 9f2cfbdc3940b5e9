import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { onRequestHookHandler } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import { type AuthenticateResponse, CredentialKind } from '../gen/tollgate/v1/credential_pb.ts';
import { idempotencyKeyHeader } from '../lib/call-headers.ts';
import type { Call } from './call.ts';
import type { Edge } from './edge.ts';

/** The credential that a route needs: a kind of key, or a management key with a scope. */
export type Allowed = 'api_key' | 'any_key' | { readonly scope: string };

const bearer = /^bearer +[\x21-\x7e]+ *$/i;
const bearerLength = 'bearer '.length;
const keyText = /^[\x21-\x7e]+$/;

/**
 * Returns the key of a request: `Authorization: Bearer KEY` or `x-api-key: KEY`; an empty header counts as absent.
 * Throws `invalid_api_key` if neither is present, one is malformed, or they differ. Source: docs/security.md
 * "Credentials".
 */
export function readKey(headers: IncomingHttpHeaders): string {
  const { authorization = '', 'x-api-key': apiKey = '' } = headers;
  const fromBearer = bearer.test(authorization) ? authorization.slice(bearerLength).trim() : undefined;
  if (authorization !== '' && fromBearer === undefined) {
    throw new GatewayError('invalid_api_key', 'The Authorization header is not of the form “Bearer KEY”.');
  }
  if (typeof apiKey !== 'string' || (apiKey !== '' && !keyText.test(apiKey))) {
    throw new GatewayError('invalid_api_key', 'The x-api-key header holds no key.');
  }
  if (fromBearer !== undefined && apiKey !== '' && fromBearer !== apiKey) {
    throw new GatewayError('invalid_api_key', 'Authorization and x-api-key name different keys: send one of them.');
  }
  const key = fromBearer ?? apiKey;
  if (key === '') throw new GatewayError('invalid_api_key', 'No API key was sent.');
  return key;
}

/**
 * Returns the key of a request of Gemini's interface, which may also be in `x-goog-api-key` or in the query's `key`. Throws `invalid_api_key` as `readKey` does, and if two
 * places name different keys. Source: docs/interfaces/gemini.md "Keys".
 */
function readGoogleKey({ headers, url = '' }: IncomingMessage): string {
  const inQuery = url.includes('key=') ? (new URL(url, 'http://gateway').searchParams.get('key') ?? '') : '';
  const header = headers['x-goog-api-key'] ?? '';
  const named = [header, inQuery].flat().filter(key => key !== '');
  const { authorization = '', 'x-api-key': apiKey = '' } = headers;
  const keys = new Set([
    ...named,
    ...(authorization === '' && apiKey === '' && named.length > 0 ? [] : [readKey(headers)]),
  ]);
  const [key = ''] = keys;
  if (keys.size > 1) throw new GatewayError('invalid_api_key', 'The request names different keys: send one of them.');
  if (!keyText.test(key)) throw new GatewayError('invalid_api_key', 'The x-goog-api-key header holds no key.');
  return key;
}

/** Throws `permission_denied` if a credential is not allowed. */
function checkAllowed({ kind, scopes }: AuthenticateResponse, allowed: Allowed): void {
  const isApiKey = kind === CredentialKind.API_KEY;
  const isManagementKey = kind === CredentialKind.MANAGEMENT_KEY;
  if (typeof allowed === 'string') {
    if (isApiKey || (isManagementKey && allowed === 'any_key')) return;
    throw new GatewayError('permission_denied', 'This path needs an API key (sk-tg-…).');
  }
  if (!isManagementKey) throw new GatewayError('permission_denied', 'This path needs a management key (mk-tg-…).');
  if (scopes.includes(allowed.scope)) return;
  throw new GatewayError('permission_denied', `The management key lacks the scope ${allowed.scope}.`);
}

/**
 * Returns a hook that identifies the caller before the body is read. `generates`: every answer has the rate limit headers of the key, and
 * the request is refused if a request limit is used up, unless it may repeat an earlier request (`Idempotency-Key`).
 */
export function authenticate(edge: Edge, allowed: Allowed, generates = false): onRequestHookHandler {
  return ({ call, raw }, _reply, proceed) => {
    call.sendsLimitHeaders = generates;
    // A loaded gateway looks up only keys that are in memory.
    const isCalm = edge.load.level === 'calm';
    const admission = isCalm && generates && (raw.headers[idempotencyKeyHeader] ?? '') === '';
    const key = call.errorShape === 'google' ? readGoogleKey(raw) : readKey(raw.headers);
    const identified = identify(edge, call, { key, allowed, admission });
    const accept = (): void => {
      const refusal = generates ? edge.load.refuses(call.credential?.accountId ?? 0n) : undefined;
      proceed(refusal);
    };
    if (identified === undefined) accept();
    else identified.then(accept, proceed);
  };
}

/** A key, and the kind and scope that it needs. */
interface IdentifiedKey {
  readonly key: string;
  readonly allowed: Allowed;
  /** True to refuse the key if one of its request limits is used up. */
  readonly admission?: boolean;
}

/**
 * Identifies the caller by a key; synchronously if the core has the key in memory. Throws or rejects with the error for the client.
 */
export function identify(
  edge: Edge,
  call: Call,
  { key, allowed, admission = false }: IdentifiedKey,
): Promise<void> | undefined {
  call.useKey(key);
  const accept = (credential: AuthenticateResponse): void => {
    checkAllowed(credential, allowed);
    call.credential = credential;
  };
  const found = edge.authenticate(call, { admission });
  if (found instanceof Promise) {
    const refusal = edge.load.refusesStranger();
    if (refusal === undefined) return found.then(accept);
    // Nothing awaits this promise, so its rejection must be handled.
    found.catch(() => undefined);
    throw refusal;
  }
  accept(found);
  return undefined;
}
