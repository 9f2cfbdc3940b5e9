/**
 * Thrown if a sync or a checkpoint failed, or the file is damaged: bytes that the operating system accepted may not be on the disk, and it
 * drops those that it could not write. Only a new process may continue, because it reads everything back from the log. Source: PostgreSQL's
 * answer to the same problem.
 */
export class StorageLost extends Error {
  override readonly name = 'StorageLost';

  constructor(cause: Error) {
    super(`The disk lost writes: ${cause.message}`, { cause });
  }
}

/** Returns whether a thread ended by `StorageLost`: errors of other threads lose their class. */
export function isStorageLost(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'StorageLost';
}
