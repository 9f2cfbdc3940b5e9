/**
 * Thrown if the ledger or another store can't be opened. The message is for the operator. Codes: `locked` (another process has it open), `newer` (a newer program
 * wrote it), `changed` (its migrations are not this program's), `missing` (the file is missing, but other files of the gateway exist), `damaged` (SQLite finds
 * damage), `unreadable` (it is not a ledger, or the disk failed).
 */
export class LedgerStartError extends Error {
  override readonly name = 'LedgerStartError';
  readonly code: 'locked' | 'newer' | 'changed' | 'missing' | 'damaged' | 'unreadable';

  constructor(code: LedgerStartError['code'], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** Returns the code of an error from a thread's start, which is not an instance of the class any more; `unreadable` if it was not a `LedgerStartError`. */
export function startErrorCode(thrown: unknown): LedgerStartError['code'] {
  const isOwn = thrown instanceof Error && thrown.name === 'LedgerStartError';
  return isOwn ? (thrown as LedgerStartError).code : 'unreadable';
}
