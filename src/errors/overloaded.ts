import { GatewayError } from './gateway-error.ts';

const retryAfterMs = 1000;

/** Returns the error of a store that can't execute a command now: nothing was done, and waiting a second may help. */
export function overloaded(message: string, cause?: unknown): GatewayError {
  return new GatewayError('overloaded', message, { retryAfterMs, ...(cause === undefined ? {} : { cause }) });
}
