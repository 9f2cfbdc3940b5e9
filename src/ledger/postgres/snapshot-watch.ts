import type { PostgresPool } from '../../lib/postgres/pool.ts';

/** A snapshot that is older than this slows busy accounts. */
const oldMs = 60_000;
const warnAgainMs = 600_000;

/**
 * Finds what keeps PostgreSQL from removing dead rows of this database: transactions with a snapshot, replication slots and prepared transactions. Vacuums are left out, because they do not.
 * `age_ms` is NULL if PostgreSQL hides the time, because the transaction belongs to another role.
 */
const text = `
  WITH clock AS (SELECT clock_timestamp() AS now)
  SELECT 'process ' || pid || ' ' || coalesce(xact_start::text, backend_xmin::text) AS name, floor(extract(epoch FROM now - xact_start) * 1000)::bigint AS age_ms
    FROM pg_stat_activity CROSS JOIN clock
    WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
      AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum v WHERE v.pid = pg_stat_activity.pid)
  UNION ALL SELECT 'slot ' || slot_name || ' ' || xmin, NULL FROM pg_replication_slots WHERE xmin IS NOT NULL
  UNION ALL SELECT 'prepared ' || gid || ' ' || transaction, floor(extract(epoch FROM now - prepared) * 1000)::bigint
    FROM pg_prepared_xacts CROSS JOIN clock WHERE database = current_database()`;

/** How a `SnapshotWatch` reports. */
export interface SnapshotWatchOptions {
  /** Returns the time of a monotonic clock, in ms. */
  readonly now: () => number;
  /** Called after each check with the age of the oldest snapshot; 0: there is none. */
  readonly onAge?: ((ageMs: number) => void) | undefined;
  /** Called for a snapshot that is older than a minute, every ten minutes at most. */
  readonly onOld?: ((ageMs: number) => void) | undefined;
}

/** Measures the age of the database's oldest snapshot. If PostgreSQL hides when a snapshot was taken, its age is the time since this process first saw it. */
export class SnapshotWatch {
  readonly #options: SnapshotWatchOptions;
  /** When each snapshot was first seen. */
  #seen = new Map<string, number>();
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SnapshotWatchOptions) {
    this.#options = options;
  }

  /** Checks once. Throws the database's error. */
  async check(pool: PostgresPool): Promise<void> {
    const rows = await pool.query(text);
    const { now, onAge, onOld } = this.#options;
    const nowMs = now();
    const seen = new Map<string, number>();
    let ageMs = 0;
    for (const row of rows) {
      const name = String(row['name']);
      const firstMs = this.#seen.get(name) ?? nowMs;
      seen.set(name, firstMs);
      ageMs = Math.max(ageMs, nowMs - firstMs, Number(row['age_ms'] ?? 0n));
    }
    this.#seen = seen;
    onAge?.(ageMs);
    if (ageMs < oldMs || nowMs - this.#warnedAtMs < warnAgainMs) return;
    this.#warnedAtMs = nowMs;
    onOld?.(ageMs);
  }
}
