import assert from 'node:assert/strict';
import type { NewSession } from '../ledger.ts';
import type { Rows } from '../rows.ts';

import { nextNumber } from './context.ts';

/** Creates a session. `not_found`: there is no such account. */
export function createSession(rows: Rows, command: NewSession, nowMs: number): number | 'not_found' {
  const { accountId, hash } = command;
  if (accountId !== null && rows.accounts.get(accountId) === undefined) return 'not_found';
  assert(!rows.hasHash(hash), 'a session and a key have one hash');
  const id = nextNumber(rows, 'session');
  rows.sessions.put({ ...command, id, createdAtMs: nowMs });
  return id;
}

/** Ends a session now. `not_found`: it does not exist, or has ended. */
export function endSession(rows: Rows, sessionId: number, nowMs: number): number | 'not_found' {
  const session = rows.sessions.get(sessionId);
  if (session === undefined || session.endsAtMs <= nowMs) return 'not_found';
  rows.sessions.put({ ...session, endsAtMs: nowMs });
  return sessionId;
}
