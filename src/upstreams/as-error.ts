/** Whatever was thrown as an error: one passes through, anything else (the reason of an aborted signal may be anything) is its cause. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error('not an error was thrown', { cause: thrown });
}
