/**
 * Why the ledger could not be opened, in words for the operator: `locked` (another process has it), `newer` (written by a newer
 * program), `changed` (its migrations are not this program's), `missing` (others of its files are there), `damaged` (SQLite finds damage in it), `unreadable` (not a
 * ledger, or the disk failed).
 */
export class LedgerStartError extends Error {
  override readonly name = 'LedgerStartError';
  readonly code: 'locked' | 'newer' | 'changed' | 'missing' | 'damaged' | 'unreadable';

  constructor(code: LedgerStartError['code'], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** Returns the code of an error that a thread's start threw: errors of other threads lose their class. `unreadable` if it was not a `LedgerStartError`. */
export function startErrorCode(thrown: unknown): LedgerStartError['code'] {
  const isOwn = thrown instanceof Error && thrown.name === 'LedgerStartError';
  return isOwn ? (thrown as LedgerStartError).code : 'unreadable';
}
