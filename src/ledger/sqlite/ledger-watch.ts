import type { SuspendedAccount } from './engine.ts';

/** Observes a ledger, besides the replies to its commands. */
export interface LedgerWatch {
  /** Called when it can't be written because of `cause`; undefined: it can be written again. */
  failing(cause: Error | undefined): void;
  /**
   * Called if the disk has lost writes. Nothing more is written, and the process must end at once without closing the ledger: the next one
   * reads everything back from the log.
   */
  lost(cause: Error): void;
  /** An account takes no requests any more. */
  suspended(account: SuspendedAccount): void;
  /** Called with the part of a request that no funds covered. */
  wroteOff(id: number, nanoUsd: bigint): void;
}

/** For a ledger that is not observed. */
export const unwatched: LedgerWatch = {
  failing: () => undefined,
  lost: () => undefined,
  suspended: () => undefined,
  wroteOff: () => undefined,
};
