import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import type { PostgresPool } from '../../lib/postgres/pool.ts';
import { isDuplicate, postgresCode } from '../../lib/postgres/errors.ts';

/** Ids of requests are that many times the ms of their making. */
const idsPerMs = 4096;
const monthsAhead = 2;
/** How long a look into a partition and a change of them may take. */
const dropMs = 30_000;

/** Makes the partitions of `usage` for this month and the next ones. A month that has records in the partition for all others stays there. */
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
 * Drops the partitions of `usage` that have nothing but records from before that time, all of which may go: a month in one step, which leaves no dead rows behind. `kept` is true of
 * accounts, named `a`, whose records stay. Returns about how many records that were.
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
    // Ids carry the gateways' clocks, records the database's: a record may lie in the month before its own.
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

/** Does one change of the partitions. Returns false if it can't be made now: another gateway made it, or somebody reads or writes for too long. */
async function changePartitions(connection: PostgresConnection, change: string): Promise<boolean> {
  try {
    // Settles wait behind this lock, so it is not waited for longer than a settle can wait.
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
  // If it can't be made, because it has rows elsewhere or somebody reads, the partition for all others takes its records, and the next day tries again.
  await changePartitions(connection, `CREATE TABLE ${name} PARTITION OF usage FOR VALUES ${range}`);
}
