import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import type { PostgresPool } from '../../lib/postgres/pool.ts';
import { isDuplicate, postgresCode } from '../../lib/postgres/errors.ts';

/** The id of a request, divided by this, is the time in ms at which it was made. */
const idsPerMs = 4096;
const monthsAhead = 2;
/** How long a query of a partition, or a change of the partitions, may take. */
const dropMs = 30_000;

/** Creates the partitions of `usage` for this month and the next ones. A month that already has records in the default partition stays there. */
export async function addPartitions(connection: PostgresConnection): Promise<void> {
  const [row] = await connection.query('SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now');
  const now = new Date(Number(row?.['now']));
  for (let ahead = 0; ahead <= monthsAhead; ahead += 1) {
    const [startMs, endMs] = [ahead, ahead + 1].map(months =>
      Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, 1),
    );
    await addPartition(connection, Number(startMs), Number(endMs));
  }
}

/**
 * Drops those partitions of `usage` that have only records from before `beforeMs` that may all be removed: this removes a month at once and leaves no dead rows. `kept`: an SQL condition on
 * accounts `a` whose records must stay. Returns the approximate number of removed records.
 */
export async function dropPartitions(pool: PostgresPool, beforeMs: number, kept: string): Promise<number> {
  const rows = await pool.query(
    `SELECT c.relname AS name, c.reltuples::bigint AS count FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'usage'::regclass AND c.relname LIKE 'usage\\_____\\___' ORDER BY c.relname`,
  );
  let dropped = 0;
  for (const { name, count } of rows) {
    const month = String(name);
    const [, year, number] = month.split('_');
    if (Date.UTC(Number(year), Number(number), 1) > beforeMs) continue;
    // Ids have the time of the gateway's clock, records that of the database's: a record may be in the partition of the month before its own.
    const [stays] = await pool.query(
      `SELECT 1 AS one FROM account a WHERE EXISTS (SELECT 1 FROM ${month} u WHERE u.account_id = a.id AND (u.created_at_ms >= $1::bigint OR ${kept})) LIMIT 1`,
      [beforeMs],
      dropMs,
    );
    if (stays !== undefined) continue;
    const isDropped = await pool.use(own => changePartitions(own, `DROP TABLE IF EXISTS ${month}`));
    if (isDropped) dropped += Math.max(1, Number(count));
  }
  return dropped;
}

/** Makes one change of the partitions. Returns false if it can't be made now, because another gateway has made it or another transaction blocks it for too long. */
async function changePartitions(connection: PostgresConnection, change: string): Promise<boolean> {
  try {
    // Settles queue behind this lock, so the wait for it must be shorter than a settle can wait.
    await connection.script(`BEGIN; SET LOCAL lock_timeout = '1s'; ${change}; COMMIT`, dropMs);
    return true;
  } catch (error) {
    await connection.script('ROLLBACK');
    const isHarmless = isDuplicate(error) || ['42P07', '23514', '55P03', '40P01'].includes(postgresCode(error) ?? '');
    if (!isHarmless) throw error;
    return false;
  }
}

async function addPartition(connection: PostgresConnection, startMs: number, endMs: number): Promise<void> {
  const name = `usage_${new Date(startMs).toISOString().slice(0, 7).replace('-', '_')}`;
  const known = await connection.query('SELECT 1 AS one FROM pg_class WHERE relname = $1::text', [name]);
  if (known.length > 0) return;
  const range = `FROM (${startMs * idsPerMs}) TO (${endMs * idsPerMs})`;
  // If it can't be created, the default partition takes the month's records, and the next day tries again.
  await changePartitions(connection, `CREATE TABLE ${name} PARTITION OF usage FOR VALUES ${range}`);
}
