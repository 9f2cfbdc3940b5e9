import { GatewayError } from '../errors/gateway-error.ts';

/**
 * Query parameters. A wrong value throws `invalid_request` with a violation that names the parameter; undocumented parameters are ignored,
 * because clients add their own (`?beta=true`). Source: docs/interfaces/README.md "Unknown fields and values".
 */

/** Query parameters as the router reads them: a repeated one is an array. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns the error of a parameter; `message` describes a valid value ("must be sent once"). */
export function refuse(query: Query, parameter: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `Query parameter ${parameter}: ${message}.`, {
    param: parameter,
    violations: [{ path: [parameter], message, type: 'value_error', inputJson: JSON.stringify(query[parameter]) }],
  });
}

/** Returns a parameter's one value; undefined if it is absent. */
export function readText(query: Query, parameter: string): string | undefined {
  const value = query[parameter];
  if (value === undefined || typeof value === 'string') return value;
  throw refuse(query, parameter, 'must be sent once');
}

/** Returns a parameter that is one of some names; undefined if it is absent. */
export function readName<Name extends string>(
  query: Query,
  parameter: string,
  names: readonly Name[],
): Name | undefined {
  const text = readText(query, parameter);
  const found = names.find(name => name === text);
  if (text !== undefined && found === undefined) throw refuse(query, parameter, `must be one of ${names.join(', ')}`);
  return found;
}

/** Returns a parameter that is an integer; undefined if it is absent. */
export function readInteger(
  query: Query,
  parameter: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  const text = readText(query, parameter);
  if (text === undefined) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw refuse(query, parameter, `must be an integer from ${min} to ${max}`);
}
