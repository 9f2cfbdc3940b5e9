/**
 * Converts anything thrown to an error: an error passes through, anything else (the reason of an aborted signal may be anything) becomes
 * the cause.
 */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error('not an error was thrown', { cause: thrown });
}
