import type { GatewayError } from './gateway-error.ts';

/** The wait suggested to clients of an overloaded gateway, unless the error has a better one. */
const overloadedRetryMs = 1000;

/** Returns the seconds after which a client should repeat a refused request, at least 1; undefined if the error does not say. */
export function retryAfterSeconds({ code, facts }: GatewayError): number | undefined {
  const retryAfterMs = facts.retryAfterMs ?? (code === 'overloaded' ? overloadedRetryMs : undefined);
  return retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(retryAfterMs / 1000));
}
