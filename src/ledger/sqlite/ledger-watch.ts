import type { SuspendedAccount } from './engine.ts';

/** Observes a ledger, besides the replies to its commands. */
export interface LedgerWatch {
  /** It can't be written from now on, because of `cause`; undefined: it can again. */
  failing(cause: Error | undefined): void;
  /**
   * Called if the disk has lost writes. Nothing more is written, and the process must end at once without closing the ledger: the next one
   * reads everything back from the log.
   */
  lost(cause: Error): void;
  /** An account takes no requests any more. */
  suspended(account: SuspendedAccount): void;
  /** No funds covered that much of a request. */
  wroteOff(id: number, nanoUsd: bigint): void;
}

/** For a ledger that is not observed. */
export const unwatched: LedgerWatch = {
  failing: () => undefined,
  lost: () => undefined,
  suspended: () => undefined,
  wroteOff: () => undefined,
};
