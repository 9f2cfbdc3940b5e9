import type { SuspendedAccount } from './engine.ts';

/** Observes a ledger: its methods are called on events that no reply to a command reports. */
export interface LedgerWatch {
  /** Called with the cause when the ledger can't be written, and with undefined when it can be written again. */
  failing(cause: Error | undefined): void;
  /**
   * Called if storage has failed and writes may be lost. Nothing more is written, and the process must end at once without closing the
   * ledger: the next process reads everything back from the log.
   */
  lost(cause: Error): void;
  /** Called if an account was suspended. */
  suspended(account: SuspendedAccount): void;
  /** Called with the part of a request's cost that no funds covered. */
  wroteOff(id: number, nanoUsd: bigint): void;
}

/** Does nothing: for a ledger that is not observed. */
export const unwatched: LedgerWatch = {
  failing: () => undefined,
  lost: () => undefined,
  suspended: () => undefined,
  wroteOff: () => undefined,
};
