/** Sessions of people at the dashboard, as the ledger's commands and answers say them. */

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

/** What a credential that is a session says of the person. */
export interface SessionFacts {
  readonly sessionId: number;
  readonly role: SessionRole;
  readonly subject: string;
}

/** The ledger's sessions. */
export interface SessionLedger {
  /** Makes a session, which `findCredential` then finds by its hash. `not_found`: there is no such account. */
  createSession(command: NewSession): Promise<SessionRow | 'not_found'>;
  /** Those that have not ended, oldest first; `accountId` undefined: of everybody. */
  listSessions(accountId: number | undefined): Promise<SessionRow[]>;
  /** Ends a session at once. */
  endSession(command: { sessionId: number }): Promise<SessionRow | 'not_found'>;
}
