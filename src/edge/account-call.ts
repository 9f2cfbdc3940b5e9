import type { FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Call } from './call.ts';
import type { Edge } from './edge.ts';
import type { JsonBody } from './json-body.ts';
import type { Query } from './query.ts';

/** Types and helpers that all account endpoints use. */

/** The parameters of paths. */
export interface Params {
  readonly key_id: string;
  readonly group_id: string;
  readonly limit_id: string;
  readonly request_id: string;
  readonly webhook_id: string;
  readonly event_id: string;
}

/** A request to an account endpoint. */
export type AccountRequest = FastifyRequest<{ Querystring: Query; Params: Params }>;

/** The arguments of an account endpoint. */
export interface AccountCall {
  readonly accounts: Edge['accounts'];
  /** The caller's credential. */
  readonly as: { readonly headers: Call };
  readonly request: AccountRequest;
  readonly readBody: () => Promise<JsonBody>;
}

/** The HTTP method of an endpoint. */
export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';
/** Returns an endpoint's answer. */
export type Answer = (call: AccountCall) => Promise<object>;
/** Registers an endpoint. `scope`: the scope that the management key must have; the core checks it too. */
export type Offer = (method: Method, path: string, scope: string, answer: Answer) => void;

/** Returns a field that the core always sends. Throws `internal` if it is missing. */
export function present<T>(part: T | undefined): T {
  if (part === undefined) throw new GatewayError('internal', 'The gateway failed.');
  return part;
}
