import type { Query } from '../../lib/sqlite/database.ts';
import type { RetentionLimits } from '../history.ts';
import { dayMs } from '../rules/calendar.ts';
import type { Sql } from './sql.ts';
import type { StoredRows } from './stored-rows.ts';

/** The most rows that one command removes, so that other commands do not wait long. */
const rowsMax = 2_000;
/** How long the row of an ended session is kept. */
export const endedSessionMs = dayMs;

/** How long uses of limits are kept after the end of their window; no one reads them later. */
export const usesMs = 7 * dayMs;

/** Removes rows whose retention time is over. Sums, entries and balances stay. */
export class Pruning {
  readonly #rows: StoredRows;
  readonly #accounts: Query<[], { id: bigint }>;
  readonly #removals: readonly Query<[number, number, number], unknown>[];
  readonly #changes: Query<[], { count: bigint }>;
  readonly #chains: Query<[], { id: bigint }>;
  readonly #firstKept: Query<[number, number], { number: bigint }>;
  readonly #lastHash: Query<[number, number], { hash: string }>;
  readonly #removeAudit: Query<[number, number], unknown>;
  readonly #removeDeliveries: Query<[number, number], unknown>;
  readonly #removeEvents: Query<[number, number], unknown>;
  readonly #removeEndedSessions: Query<[number, number], unknown>;

  constructor(sql: Sql, rows: StoredRows) {
    this.#rows = rows;
    // A limit with the window `total` is counted again after a crash, so its records stay.
    this.#accounts = sql.prepare(
      "SELECT id FROM account WHERE id NOT IN (SELECT account_id FROM usage_limit WHERE removed = 0 AND per = 'total') ORDER BY id",
    );
    this.#removals = [
      ['usage', 'id', 'created_at_ms'],
      ['voided', 'id, number', 'admitted_at_ms'],
    ].map(([table = '', id = '', at = '']) =>
      sql.prepare(
        `DELETE FROM ${table} WHERE (${id}) IN (SELECT ${id} FROM ${table} WHERE account_id = ? AND ${at} < ? ORDER BY ${at} LIMIT ?)`,
      ),
    );
    this.#changes = sql.prepare('SELECT changes() AS count');
    this.#chains = sql.prepare('SELECT account_id AS id FROM audit_chain ORDER BY account_id');
    this.#firstKept = sql.prepare(
      'SELECT audit_id AS number FROM audit WHERE account_id = ? AND created_at_ms >= ? ORDER BY audit_id LIMIT 1',
    );
    this.#lastHash = sql.prepare('SELECT hash FROM audit WHERE account_id = ? AND audit_id = ?');
    this.#removeAudit = sql.prepare('DELETE FROM audit WHERE account_id = ? AND audit_id <= ?');
    this.#removeDeliveries = sql.prepare(
      "DELETE FROM delivery WHERE (event_id, webhook_id) IN (SELECT event_id, webhook_id FROM delivery WHERE state <> 'pending' AND ended_at_ms < ? LIMIT ?)",
    );
    this.#removeEndedSessions = sql.prepare(
      'DELETE FROM session WHERE id IN (SELECT id FROM session WHERE ends_at_ms < ? LIMIT ?)',
    );
    this.#removeEvents = sql.prepare(
      'DELETE FROM event WHERE id IN (SELECT id FROM event e WHERE at_ms < ? AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.event_id = e.id) LIMIT ?)',
    );
  }

  /** Removes some rows. Returns how many were removed; 0: none is left. */
  run({ activityBeforeMs, auditBeforeMs, eventsBeforeMs }: RetentionLimits, nowMs: number): number {
    const ended = this.#rows.limitUses.removeEnded(nowMs - usesMs, rowsMax);
    const removed = ended + this.#removeActivity(Math.floor(activityBeforeMs / dayMs) * dayMs);
    const outbox = this.#removeOutbox(eventsBeforeMs);
    return removed + this.#shortenAudit(auditBeforeMs) + outbox + this.#removeSessions(nowMs - endedSessionMs);
  }

  #removeSessions(beforeMs: number): number {
    // They may be in memory.
    this.#rows.flush();
    this.#rows.sessions.clear();
    return this.#count(() => this.#removeEndedSessions.run(beforeMs, rowsMax));
  }

  #removeActivity(beforeMs: number): number {
    const { counters } = this.#rows;
    const name = 'activity_start';
    if ((counters.get(name)?.value ?? 0) < beforeMs) counters.put({ name, value: beforeMs });
    this.#rows.flush();
    let left = rowsMax;
    for (const { id } of this.#accounts.all()) {
      for (const removal of this.#removals) {
        if (left > 0) left -= this.#count(() => removal.run(Number(id), beforeMs, left));
      }
    }
    return rowsMax - left;
  }

  /** Removes rows only from the beginning of a chain; the chain keeps the hash of the last removed row. */
  #shortenAudit(beforeMs: number): number {
    let removed = 0;
    for (const { id } of this.#chains.all()) {
      const accountId = Number(id);
      const chain = this.#rows.auditChains.get(accountId);
      if (chain === undefined) continue;
      const kept = this.#firstKept.get(accountId, beforeMs)?.number;
      const last = kept === undefined ? chain.number : Number(kept) - 1;
      const startHash = this.#lastHash.get(accountId, last)?.hash;
      if (last <= chain.startNumber || startHash === undefined) continue;
      this.#rows.auditChains.put({ ...chain, startNumber: last, startHash });
      removed += this.#count(() => this.#removeAudit.run(accountId, last));
    }
    return removed;
  }

  #removeOutbox(beforeMs: number): number {
    // They may be in memory.
    this.#rows.flush();
    this.#rows.deliveries.clear();
    const deliveries = this.#count(() => this.#removeDeliveries.run(beforeMs, rowsMax));
    return deliveries + this.#count(() => this.#removeEvents.run(beforeMs, rowsMax));
  }

  #count(remove: () => unknown): number {
    remove();
    return Number(this.#changes.get()?.count ?? 0n);
  }
}
