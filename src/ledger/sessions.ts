import type { HoldExtension, RequestTry } from './course.ts';

/** Sessions of people at the dashboard in the ledger's commands and replies. */

/** What a person may do. */
export type SessionRole = 'operator' | 'owner' | 'member' | 'viewer';

export interface NewSession {
  /** SHA-256 of its text. */
  readonly hash: Uint8Array;
  readonly role: SessionRole;
  /** null: the operator's, which names an account in each call. */
  readonly accountId: number | null;
  /** SHA-256 of the key that signed in: the session may do what the key may, and ends with it. null: no key did. */
  readonly keyHash: Uint8Array | null;
  /** For people. */
  readonly subject: string;
  readonly endsAtMs: number;
}

/** A session as it stands. */
export interface SessionRow extends Omit<NewSession, 'hash' | 'keyHash'> {
  readonly sessionId: number;
  readonly createdAtMs: number;
}

/** What a session credential says of the person. */
export interface SessionFacts {
  readonly sessionId: number;
  readonly role: SessionRole;
  readonly subject: string;
}

/** How a request went, between its admission and its charge. */
export interface RequestCourse {
  /** What was held when it was admitted. */
  readonly admittedNanoUsd: bigint;
  /** From its admission to its first event; null: no event came. */
  readonly firstEventMs: number | null;
  /** The provider that answered; '': none did. */
  readonly provider: string;
  /** How many calls went to routes. */
  readonly attempts: number;
  /** The calls in their order. */
  readonly tries: readonly RequestTry[];
  /** How the hold grew, in the order of time. */
  readonly extensions: readonly HoldExtension[];
}

/** The ledger's sessions, and what pages say of it. */
export interface SessionLedger {
  /** How many entries and charges an account's ledger has: it grows by one with each. Undefined: there is no such account. */
  lastEntry(accountId: number): Promise<number | undefined>;
  /** Makes a session, which `findCredential` then finds by its hash. `not_found`: there is no such account. */
  createSession(command: NewSession): Promise<SessionRow | 'not_found'>;
  /** Those that have not ended, oldest first; `accountId` undefined: of everybody. */
  listSessions(accountId: number | undefined): Promise<SessionRow[]>;
  /** Ends a session at once. */
  endSession(command: { sessionId: number }): Promise<SessionRow | 'not_found'>;
}
