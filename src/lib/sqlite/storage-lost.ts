/**
 * Says that a sync or a checkpoint failed, or that the file is damaged: what the operating system took may not be on the disk, and it forgets what it could not write. Only a
 * new process may go on, because it reads everything back from the log. Source: PostgreSQL's answer to the same problem.
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
