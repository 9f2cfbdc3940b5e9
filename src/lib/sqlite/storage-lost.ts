/**
 * Thrown if a sync or a checkpoint failed, or if the file is damaged. After a failed sync the operating system drops the bytes that it could not
 * write, although it had accepted them. Only a new process may continue: it reads everything back from the log. PostgreSQL does the same.
 */
export class StorageLost extends Error {
  override readonly name = 'StorageLost';

  constructor(cause: Error) {
    super(`Storage failed, and writes may be lost: ${cause.message}`, { cause });
  }
}

/** Returns whether an error is a `StorageLost`. Compares the name, because an error from another thread is not an instance of the class any more. */
export function isStorageLost(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'StorageLost';
}
