import type { PostgresPool } from '../../lib/postgres/pool.ts';
import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import type { RetentionLimits } from '../history.ts';
import { type CalendarWindow, dayMs, windowAt } from '../rules/calendar.ts';
import { dropPartitions } from './partitions.ts';
import { endedSessionMs, usesMs } from '../sqlite/pruning.ts';

/** The most rows that one call removes, so that no lock is held for long. */
const rowsMax = 2000;
const pruneMs = 30_000;
const goes = "account_id NOT IN (SELECT account_id FROM usage_limit WHERE removed = 0 AND per = 'total')";
/** An SQL condition: the account `a` keeps its records, because a limit with the window `total` counts them. */
const keeps = "a.id IN (SELECT account_id FROM usage_limit WHERE removed = 0 AND per = 'total')";

/** Removes some rows whose retention time is over, records by whole months if possible. Sums, entries and balances stay. Returns the approximate number of removed rows; 0: none is left. */
export async function removeOld(pool: PostgresPool, limits: RetentionLimits, nowMs: number): Promise<number> {
  const beforeMs = Math.floor(limits.activityBeforeMs / dayMs) * dayMs;
  const uses = await removeUses(pool, nowMs - usesMs);
  await pool.query("UPDATE meta SET value = greatest(value, $1::bigint) WHERE name = 'activity_start'", [beforeMs]);
  const dropped = await dropPartitions(pool, beforeMs, keeps);
  return pool.transaction(async connection => {
    const count = async (text: string, values: readonly (number | string)[]): Promise<number> => {
      const [result] = await connection.run([{ text, values: values.map(String) }], pruneMs);
      return Number(result?.tag.split(' ').at(-1) ?? 0);
    };
    const usage = await count(
      `DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE created_at_ms < $1::bigint AND ${goes} LIMIT $2::bigint)`,
      [beforeMs, rowsMax],
    );
    const voided = await count(
      `DELETE FROM voided WHERE (id, number) IN (SELECT id, number FROM voided WHERE admitted_at_ms < $1::bigint AND ${goes} LIMIT $2::bigint)`,
      [beforeMs, rowsMax],
    );
    const audit = await shortenAudit(connection, limits.auditBeforeMs, count);
    const ended = [limits.eventsBeforeMs, rowsMax];
    const deliveries = await count(
      "DELETE FROM delivery WHERE (event_id, webhook_id) IN (SELECT event_id, webhook_id FROM delivery WHERE state <> 'pending' AND ended_at_ms < $1::bigint LIMIT $2::bigint)",
      ended,
    );
    const events = await count(
      'DELETE FROM event WHERE id IN (SELECT id FROM event e WHERE at_ms < $1::bigint AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.event_id = e.id) LIMIT $2::bigint)',
      ended,
    );
    const sessions = await count(
      'DELETE FROM session WHERE id IN (SELECT id FROM session WHERE ends_at_ms < $1::bigint LIMIT $2::bigint)',
      [nowMs - endedSessionMs, rowsMax],
    );
    return uses + dropped + usage + voided + audit + deliveries + events + sessions;
  });
}

/** For how many accounts one call removes ended windows, and how many windows of each. */
const usersMax = 20;
const windowsMax = 100;

/**
 * Removes the uses of calendar windows that ended before `beforeMs`. All uses of a window are removed together, while its account is locked: the row with `end_user` 0 marks the window as counted, and without it the next reader counts the window again. Returns the number of removed rows.
 */
async function removeUses(pool: PostgresPool, beforeMs: number): Promise<number> {
  const kinds = await pool.query(
    "SELECT DISTINCT per, time_zone AS zone FROM usage_limit WHERE per IN ('hour', 'day', 'week', 'month')",
  );
  const ended =
    'FROM limit_use u JOIN usage_limit l ON l.id = u.limit_id WHERE l.per = $1::text AND l.time_zone = $2::text AND u.number < $3::bigint';
  let removed = 0;
  for (const { per, zone } of kinds) {
    const { number } = windowAt(per as CalendarWindow, String(zone), beforeMs);
    const kind = [String(per), String(zone), number];
    const owners = await pool.query(`SELECT DISTINCT l.account_id AS id ${ended} LIMIT ${usersMax}`, kind, pruneMs);
    for (const { id } of owners) {
      removed += await pool.transaction(async connection => {
        await connection.query('SELECT 1 FROM account WHERE id = $1::bigint FOR UPDATE', [Number(id)], pruneMs);
        const windows = `SELECT DISTINCT u.limit_id, u.number ${ended} AND l.account_id = $4::bigint LIMIT ${windowsMax}`;
        const text = `DELETE FROM limit_use WHERE (limit_id, number) IN (${windows})`;
        const [result] = await connection.run([{ text, values: [...kind, Number(id)].map(String) }], pruneMs);
        return Number(result?.tag.split(' ').at(-1) ?? 0);
      });
    }
  }
  return removed;
}

/** Removes rows only from the beginning of a chain; the chain keeps the hash of the last removed row. */
async function shortenAudit(
  connection: PostgresConnection,
  beforeMs: number,
  count: (text: string, values: readonly (number | string)[]) => Promise<number>,
): Promise<number> {
  const chains = await connection.query(
    `SELECT c.account_id AS account, coalesce((SELECT min(audit_id) - 1 FROM audit a WHERE a.account_id = c.account_id AND a.created_at_ms >= $1::bigint), c.number) AS last
       FROM audit_chain c JOIN audit f ON f.account_id = c.account_id AND f.audit_id = c.start_number + 1 WHERE f.created_at_ms < $1::bigint ORDER BY c.account_id LIMIT 100`,
    [beforeMs],
    pruneMs,
  );
  let removed = 0;
  for (const { account, last } of chains) {
    const values = [Number(account), Number(last)];
    await count(
      `UPDATE audit_chain c SET start_number = a.audit_id, start_hash = a.hash FROM audit a
         WHERE c.account_id = $1::bigint AND a.account_id = c.account_id AND a.audit_id = $2::bigint AND c.start_number < a.audit_id`,
      values,
    );
    removed += await count('DELETE FROM audit WHERE account_id = $1::bigint AND audit_id <= $2::bigint', values);
  }
  return removed;
}
