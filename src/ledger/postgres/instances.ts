import type { PostgresPool } from '../../lib/postgres/pool.ts';

/** How long an instance counts as running after it has renewed its lease, and how often it renews it. */
export const leaseMs = 15_000;
export const renewMs = 5000;

const clock = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
/** Takes the lowest free number. If two instances start at the same time, the conflicting insert makes one of them wait and take another number. */
const registerText = `INSERT INTO instance (number, lease_until_ms, home)
  SELECT n, ${clock} + $1::bigint, $2::text FROM generate_series(0, 63) AS n WHERE n NOT IN (SELECT number FROM instance) ORDER BY n LIMIT 1
  ON CONFLICT (number) DO NOTHING RETURNING boot, number`;
const succeedText = 'UPDATE instance SET lease_until_ms = 0 WHERE home = $1::text';
const renewText = `UPDATE instance SET lease_until_ms = ${clock} + $2::bigint WHERE boot = $1::bigint AND lease_until_ms > ${clock} RETURNING boot`;
/** Finds holds of instances that have ended. It has to read all holds, because no index has their instance, so it does nothing unless a listed instance has ended or `$2` is true (which also finds holds of instances that are not listed any more). */
const orphanText = `SELECT h.id, h.account_id FROM hold h WHERE ($2::boolean OR EXISTS (SELECT 1 FROM instance WHERE lease_until_ms <= ${clock}))
  AND h.boot IS NOT NULL AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.boot = h.boot AND i.lease_until_ms > ${clock}) ORDER BY h.id LIMIT $1::bigint`;
/** Interval at which all holds are searched even if no instance has ended. */
const searchAllMs = 60_000;
const removeText = `DELETE FROM instance i WHERE i.lease_until_ms <= ${clock} AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.boot = i.boot)`;
const leaderText = `SELECT min(boot) AS boot FROM instance WHERE lease_until_ms > ${clock}`;
const dueText = `SELECT id FROM account WHERE due_at_ms <= coalesce($2::bigint, ${clock}) ORDER BY due_at_ms LIMIT $1::bigint`;
const triesMax = 100;

/** A running gateway, as other gateways on the database know it. */
export interface Instance {
  /** The number of this run; it is never used again. */
  readonly boot: number;
  /** From 0 to 63; request ids carry it. */
  readonly number: number;
}

/** How an instance registers. */
export interface InstanceOptions {
  /** How long its leases last; absent: 15 s. */
  readonly ms: number | undefined;
  /** The name of the data directory that this process has locked. An earlier instance that registered with the same name must have ended. Absent: no directory is locked. */
  readonly home: string | undefined;
}

/** The instances that use a database. Each renews a lease. If one stops renewing it, another ends the holds that it has left. */
export class Instances {
  readonly #pool: PostgresPool;
  readonly #leaseMs: number;
  readonly #home: string | null;
  #lookedThroughMs = Number.NEGATIVE_INFINITY;

  constructor(pool: PostgresPool, { ms = leaseMs, home }: InstanceOptions) {
    this.#pool = pool;
    this.#leaseMs = ms;
    this.#home = home ?? null;
  }

  /** Registers this process, and ends the lease of the earlier one with the same `home`. Throws if 64 others are running. */
  async register(): Promise<Instance> {
    if (this.#home !== null) await this.#pool.query(succeedText, [this.#home]);
    for (let tries = 0; tries < triesMax; tries += 1) {
      const [row] = await this.#pool.query(registerText, [this.#leaseMs, this.#home]);
      if (row !== undefined) return { boot: Number(row['boot']), number: Number(row['number']) };
      await this.#pool.query(removeText);
    }
    throw new Error('64 gateways use this database already');
  }

  /** Renews the lease. Returns false if it had ended: others may have ended the instance's holds then. */
  async renew(boot: number): Promise<boolean> {
    return (await this.#pool.query(renewText, [boot, this.#leaseMs])).length > 0;
  }

  /** Ends the lease at once. */
  async leave(boot: number): Promise<void> {
    await this.#pool.query('UPDATE instance SET lease_until_ms = 0 WHERE boot = $1::bigint', [boot]);
    await this.#pool.query(removeText);
  }

  /** Returns holds of instances that have ended. */
  async listOrphans(limit: number): Promise<{ readonly id: number; readonly accountId: number }[]> {
    const nowMs = performance.now();
    const isDue = nowMs - this.#lookedThroughMs > searchAllMs;
    const rows = await this.#pool.query(orphanText, [limit, isDue]);
    if (isDue) this.#lookedThroughMs = nowMs;
    await this.#pool.query(removeText);
    return rows.map(row => ({ id: Number(row['id']), accountId: Number(row['account_id']) }));
  }

  /** Returns accounts with something that has ended by itself by now. */
  async listDue(limit: number, nowMs: number | null): Promise<number[]> {
    return (await this.#pool.query(dueText, [limit, nowMs])).map(row => Number(row['id']));
  }

  /** Returns true if this instance is the one that does the work that only one may do. */
  async isLeader(boot: number): Promise<boolean> {
    const [row] = await this.#pool.query(leaderText);
    return Number(row?.['boot']) === boot;
  }
}
