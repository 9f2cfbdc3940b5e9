import { GatewayError } from '../errors/gateway-error.ts';

/**
 * Reads query parameters. Functions throw `invalid_request`, with a violation that names the parameter, for a wrong value. Parameters that
 * are not documented are ignored, because clients add some (`?beta=true`). Source: docs/interfaces/README.md "Unknown fields and values".
 */

/** Query parameters as the router parses them; a repeated parameter is an array. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns the error for a parameter; `message` describes a valid value ("must be sent once"). */
export function refuse(query: Query, parameter: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `Query parameter ${parameter}: ${message}.`, {
    param: parameter,
    violations: [{ path: [parameter], message, type: 'value_error', inputJson: JSON.stringify(query[parameter]) }],
  });
}

/** Returns the value of a parameter; undefined if it is absent. Throws if it is sent more than once. */
export function readText(query: Query, parameter: string): string | undefined {
  const value = query[parameter];
  if (value === undefined || typeof value === 'string') return value;
  throw refuse(query, parameter, 'must be sent once');
}

/** Returns a parameter that must be one of the given names; undefined if it is absent. */
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

/** Returns a parameter that must be an integer within the bounds; undefined if it is absent. */
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
