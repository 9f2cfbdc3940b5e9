import { GatewayError } from './gateway-error.ts';

const retryAfterMs = 1000;

/** Returns whether an error says that there is no room now, and that nothing was done. */
export function isOverloaded(thrown: unknown): boolean {
  return thrown instanceof GatewayError && thrown.code === 'overloaded';
}

/** Returns the error of a store that can't execute a command now: nothing was done, and waiting a second may help. */
export function overloaded(message: string, cause?: unknown): GatewayError {
  return new GatewayError('overloaded', message, { retryAfterMs, ...(cause === undefined ? {} : { cause }) });
}
