/**
 * Why the ledger could not be opened, in words for the operator: `locked` (another process has it), `newer` (written by a newer
 * program), `changed` (its migrations are not this program's), `unreadable` (not a ledger, or the disk failed).
 */
export class LedgerStartError extends Error {
  override readonly name = 'LedgerStartError';
  readonly code: 'locked' | 'newer' | 'changed' | 'unreadable';

  constructor(code: LedgerStartError['code'], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
