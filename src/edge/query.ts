import { GatewayError } from '../errors/gateway-error.ts';

/** Query parameters as the router reads them: a repeated one is an array. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The error of a parameter that is not as `allowed` says. */
export function refuse(parameter: string, allowed: string): GatewayError {
  return new GatewayError('invalid_request', `Query parameter ${parameter}: ${allowed}.`, { param: parameter });
}

/** A parameter's one value. Throws where it is sent twice. */
export function single(query: Query, parameter: string): string | undefined {
  const value = query[parameter];
  if (value === undefined || typeof value === 'string') return value;
  throw refuse(parameter, 'send it once');
}
