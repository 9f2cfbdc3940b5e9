import type { PostgresConnection } from '../../lib/postgres/connection.ts';
import { isDuplicate, postgresCode } from '../../lib/postgres/errors.ts';

/** Ids of requests are that many times the ms of their making. */
const idsPerMs = 4096;
const monthsAhead = 2;

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

async function addPartition(connection: PostgresConnection, startMs: number, endMs: number): Promise<void> {
  const name = `usage_${new Date(startMs).toISOString().slice(0, 7).replace('-', '_')}`;
  const known = await connection.query('SELECT 1 AS one FROM pg_class WHERE relname = $1::text', [name]);
  if (known.length > 0) return;
  const range = `FROM (${startMs * idsPerMs}) TO (${endMs * idsPerMs})`;
  try {
    // Waits no longer for those who read activity than a settle can.
    await connection.script(
      `BEGIN; SET LOCAL lock_timeout = '1s'; CREATE TABLE ${name} PARTITION OF usage FOR VALUES ${range}; COMMIT`,
      30_000,
    );
  } catch (error) {
    await connection.script('ROLLBACK');
    // Another gateway made it, it has rows elsewhere, or somebody reads: the partition for all others takes them, and the next day tries again.
    const isHarmless = isDuplicate(error) || ['42P07', '23514', '55P03', '40P01'].includes(postgresCode(error) ?? '');
    if (!isHarmless) throw error;
  }
}
