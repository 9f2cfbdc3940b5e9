import type { FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Call } from './call.ts';
import type { Edge } from './edge.ts';
import type { JsonBody } from './json-body.ts';
import type { Query } from './query.ts';

/** What the account endpoints have in common. */

/** What paths name. */
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

/** What an account endpoint is answered with. */
export interface AccountCall {
  readonly accounts: Edge['accounts'];
  /** The caller's credential. */
  readonly as: { readonly headers: Call };
  readonly request: AccountRequest;
  readonly readBody: () => Promise<JsonBody>;
}

/** How endpoints are asked. */
export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';
/** Returns what an endpoint answers. */
export type Answer = (call: AccountCall) => Promise<object>;
/** Offers an endpoint. `scope`: what the management key must have; the core asks for it again. */
export type Offer = (method: Method, path: string, scope: string, answer: Answer) => void;

/** Returns a part that the core always answers. */
export function present<T>(part: T | undefined): T {
  if (part === undefined) throw new GatewayError('internal', 'The gateway failed.');
  return part;
}
