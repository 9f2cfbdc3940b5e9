/**
 * Returns a thrown value if it is an error; otherwise an error with the value as its cause. For example, the reason of an aborted signal may be any value.
 */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error('a value that is not an error was thrown', { cause: thrown });
}
