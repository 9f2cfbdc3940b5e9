import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { Stored } from './to-row.ts';
import { toRow } from './to-row.ts';
import type { SessionRow } from '../sessions.ts';

const select =
  'SELECT id AS sessionId, role, account_id AS accountId, subject, created_at_ms AS createdAtMs, ends_at_ms AS endsAtMs FROM session';

/** Reads sessions. */
export class Sessions {
  readonly #list: Query<[number, number, number], Stored<SessionRow>>;
  readonly #one: Query<[number], Stored<SessionRow>>;

  constructor(db: Connection) {
    this.#list = db.prepare(`${select} WHERE ends_at_ms > ? AND (? = 0 OR account_id = ?) ORDER BY id`);
    this.#one = db.prepare(`${select} WHERE id = ?`);
  }

  /** Returns the sessions that have not ended at `nowMs`, oldest first. `accountId` 0: of all accounts. */
  list(accountId: number, nowMs: number): SessionRow[] {
    return this.#list.all(nowMs, accountId, accountId).map(record => toRow<SessionRow>(record, []));
  }

  /** Returns a session, even if it has ended. */
  find(sessionId: number): SessionRow | undefined {
    const record = this.#one.get(sessionId);
    return record && toRow<SessionRow>(record, []);
  }
}
