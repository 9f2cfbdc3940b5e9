import type { HoldExtension, RequestAttempt } from './timeline.ts';

/** Sessions of people who use the dashboard, in the ledger's commands and replies. */

/** The permissions of a person. */
export type SessionRole = 'operator' | 'owner' | 'member' | 'viewer';

export interface NewSession {
  /** SHA-256 of the session's token. */
  readonly hash: Uint8Array;
  readonly role: SessionRole;
  /** null: a session of the operator, who names an account in each call. */
  readonly accountId: number | null;
  /** SHA-256 of the key that signed in: the session has that key's permissions, and ends with it. Null: no key signed in. */
  readonly keyHash: Uint8Array | null;
  /** The person's name, for display. */
  readonly subject: string;
  readonly endsAtMs: number;
}

/** A stored session. */
export interface SessionRow extends Omit<NewSession, 'hash' | 'keyHash'> {
  readonly sessionId: number;
  readonly createdAtMs: number;
}

/** The person that a session belongs to. */
export interface SessionFacts {
  readonly sessionId: number;
  readonly role: SessionRole;
  readonly subject: string;
}

/** The timeline of a request between its admission and its charge. */
export interface RequestTimeline {
  /** The amount held at admission. */
  readonly admittedNanoUsd: bigint;
  /** From the admission to the first event; null: no event came. */
  readonly firstEventMs: number | null;
  /** The provider that answered; '': none did. */
  readonly provider: string;
  /** The number of attempts. */
  readonly attemptCount: number;
  /** The attempts, in order. */
  readonly attempts: readonly RequestAttempt[];
  /** The extensions of its hold, in order of time. */
  readonly extensions: readonly HoldExtension[];
}

/** Sessions in the ledger, and reads for the dashboard. */
export interface SessionLedger {
  /** Returns the number of entries and charges of an account; undefined if there is no such account. */
  lastEntry(accountId: number): Promise<number | undefined>;
  /** Creates a session, which `findCredential` then finds by its hash. `not_found`: there is no such account. */
  createSession(command: NewSession): Promise<SessionRow | 'not_found'>;
  /** Returns the sessions that have not ended, oldest first; `accountId` undefined: of all accounts and the operator. */
  listSessions(accountId: number | undefined): Promise<SessionRow[]>;
  /** Ends a session at once. */
  endSession(command: { sessionId: number }): Promise<SessionRow | 'not_found'>;
}
