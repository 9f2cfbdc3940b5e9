import type { PostgresPool } from '../../lib/postgres/pool.ts';

/** A snapshot as old as that slows busy accounts down. */
const oldMs = 60_000;
const warnAgainMs = 600_000;

/**
 * Finds what keeps dead rows of this database from being removed: transactions with a snapshot, replication slots, prepared transactions. Vacuums are left out, because they keep none.
 * `age_ms` is NULL if the owner is another role, whose times PostgreSQL hides.
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
  /** Monotonic, in ms. */
  readonly now: () => number;
  /** Called after each look with the age of the oldest snapshot; 0: there is none. */
  readonly onAge?: ((ageMs: number) => void) | undefined;
  /** Called for a snapshot that is older than a minute, every ten minutes at most. */
  readonly onOld?: ((ageMs: number) => void) | undefined;
}

/** Finds out how old the oldest snapshot of the database is. A snapshot whose start PostgreSQL hides is as old as the time for which this process has seen it. */
export class SnapshotWatch {
  readonly #options: SnapshotWatchOptions;
  /** When each was seen first. */
  #seen = new Map<string, number>();
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SnapshotWatchOptions) {
    this.#options = options;
  }

  /** Looks once. Throws what the database throws. */
  async look(pool: PostgresPool): Promise<void> {
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
