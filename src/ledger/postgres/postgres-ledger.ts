import type { Clock } from '../../lib/clock.ts';
import { PostgresPool } from '../../lib/postgres/pool.ts';
import { PostgresConnection } from '../../lib/postgres/connection.ts';
import { migratePostgres, SchemaError } from '../../lib/postgres/migrations.ts';
import { readMigrations } from '../../lib/sqlite/migrations.ts';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import { CommandLedger } from '../command-ledger.ts';
import type { Ledger } from '../ledger.ts';
import type { DailyLimitUnit, Plans } from '../plans.ts';
import type { RetentionLimits } from '../history.ts';
import type { DueDelivery } from '../webhooks.ts';
import { type LedgerWatch, unwatched } from '../sqlite/ledger-watch.ts';
import type { CommitFacts } from '../sqlite/writer.ts';
import { AccountConfigs } from './account-config.ts';
import type { Shared } from './batch-rows.ts';
import { BatchWriter } from './batch-writer.ts';
import { readColumnTypes } from './column-types.ts';
import { CredentialReads } from './credential-reads.ts';
import { Dictionary } from './dictionary.ts';
import { type BatchOutcome, Engine } from './engine.ts';
import type { HomeLock } from './home-lock.ts';
import { Instances, renewMs } from './instances.ts';
import { addPartitions } from './partitions.ts';
import { PostgresReader } from './postgres-reader.ts';
import { removeOld } from './pruning.ts';
import { SnapshotWatch } from './snapshot-watch.ts';
import { makeStatements } from './statements.ts';
import { verifyPostgres } from './verify.ts';

/** The number of connections in addition to the one for batches: for credentials, for leases and sweeps, and for reads. */
const poolConnections = 3;
/** How many of them reads and the removal of old rows may use at a time. One stays free for credentials and leases, which must not wait for these. */
const longConnections = 2;
const sweepsMax = 500;
const dayMs = 86_400_000;

/** How to open the ledger. */
export interface PostgresLedgerOptions {
  /** `postgres://…` */
  readonly url: string;
  readonly clock: Clock;
  /** The unit of keys' `daily_limit`. */
  readonly dailyLimitUnit: DailyLimitUnit;
  readonly plans: Plans;
  /** An account is suspended if more nano-dollars than this have been written off; absent: never. */
  readonly writeOffMax?: bigint | undefined;
  /** How long a bounded settle may wait; absent: 10 s. */
  readonly settleMs?: number;
  readonly observe?: (commit: CommitFacts) => void;
  readonly watch?: LedgerWatch;
  /** Called if this instance's lease has ended: all its running requests must end. */
  readonly onLeaseEnded?: () => void;
  /** Called every few seconds with the age of the database's oldest snapshot, which keeps PostgreSQL from removing dead rows; 0: there is no snapshot. */
  readonly onSnapshotAge?: (ageMs: number) => void;
  /** Called for a snapshot that is older than a minute, every ten minutes at most. */
  readonly onOldSnapshot?: (ageMs: number) => void;
  /** The lock of the data directory, which is released when the ledger is closed. With it, holds of the process that had it before are voided at once; absent: when the lease of that process ends. */
  readonly home?: HomeLock | undefined;
  /** Tests only: rules use `clock`, not the database's clock. */
  readonly drivesTime?: true;
  /** Tests only: how long leases last, and the interval at which they are renewed and ended ones are searched for. */
  readonly lease?: { readonly leaseMs: number; readonly renewMs: number };
  /** Tests only: how long a read may take. */
  readonly readMs?: number;
  /** Tests only: how long a command waits for the database before it is refused, in ms. */
  readonly patienceMs?: number;
}

/** The ledger in PostgreSQL, as one of several gateways uses it. */
export interface PostgresLedger extends Ledger {
  /** The number of this gateway's instance, which is part of the ids of its requests. */
  readonly instanceNumber: number;
  /** See `Instance.boot`. */
  readonly boot: number;
  /** True if the database could be written when this gateway last tried. */
  readonly isReachable: boolean;
  readonly voidedHoldsAtStart: number;
  readonly violationsAtStart: readonly string[];
  /** For metrics, tests and benches. */
  readonly stats: PostgresStats;
  /** Returns the size of the whole database, in bytes. */
  readonly databaseBytes: () => Promise<number>;
}

/** Counts since the start. */
export interface PostgresStats {
  batches: number;
  commands: number;
  roundTrips: number;
}

/** Migrates the database and opens the ledger in it. Throws `LedgerStartError` if the database is newer than the program, or the error of the connection if it can't be reached. */
export async function openPostgresLedger(options: PostgresLedgerOptions): Promise<PostgresLedger> {
  const database = { url: options.url };
  try {
    const migrations = readMigrations(new URL('migrations/', import.meta.url));
    await migratePostgres(database, { part: 'ledger', migrations });
  } catch (error) {
    if (error instanceof SchemaError) throw new LedgerStartError('newer', error.message, error);
    throw error;
  }
  const connection = await PostgresConnection.open(database);
  const types = await readColumnTypes(connection);
  await addPartitions(connection);
  const lastId = await readLastId(connection);
  await connection.end();
  const pool = new PostgresPool({ ...database, connections: poolConnections });
  const ledger = new InstanceLedger(makeParts(options, pool, { types, lastId }));
  await ledger.join();
  return ledger;
}

/** Returns the highest id of a request of a gateway; 0 if there is none. */
export async function readLastId(connection: PostgresConnection): Promise<number> {
  const [last] = await connection.query(
    'SELECT greatest((SELECT max(id) FROM hold WHERE boot IS NOT NULL), (SELECT max(id) FROM usage WHERE expires_at_ms IS NULL), 0) AS id',
  );
  return Number(last?.['id'] ?? 0n);
}

/** The parts of an instance. */
export interface Parts {
  readonly options: PostgresLedgerOptions;
  readonly pool: PostgresPool;
  /** The connections of the pool that may be used for work that takes long. */
  readonly longPool: PostgresPool;
  readonly shared: Shared;
  readonly number: { value: number };
  readonly stats: PostgresStats;
  readonly instances: Instances;
  readonly engine: Engine;
  readonly writer: BatchWriter;
  readonly reader: PostgresReader;
  readonly lastId: number;
  /** Returns the estimated time of the database's clock. */
  readonly now: () => number;
  readonly register: () => Promise<void>;
}

/** The state that is read from the database at the start. */
interface Found {
  readonly types: Shared['types'];
  readonly lastId: number;
}

/** Makes the parts of an instance. It must be registered afterwards. */
export function makeParts(options: PostgresLedgerOptions, pool: PostgresPool, { types, lastId }: Found): Parts {
  const { clock, watch = unwatched, settleMs = 10_000, plans, observe, drivesTime = false, url } = options;
  const number = { value: 0 };
  const stats: PostgresStats = { batches: 0, commands: 0, roundTrips: 0 };
  const shared = makeShared(types, number);
  let offsetMs = 0;
  const now = (): number => (drivesTime ? clock.now() : Math.floor(clock.now() + offsetMs));
  const context = { plans, dailyLimitUnit: options.dailyLimitUnit, writeOffMax: options.writeOffMax };
  const time = { clock: drivesTime ? 'commands' : 'database', guessNow: now } as const;
  const engine = new Engine({ shared, context, pool, ...time, lastId, instanceNumber: () => number.value });
  const instances = new Instances(pool, { ms: options.lease?.leaseMs, home: options.home?.name });
  const register = async (): Promise<void> => {
    const instance = await instances.register();
    shared.boot = instance.boot;
    number.value = instance.number;
  };
  const onBatch = (outcome: BatchOutcome): void => {
    offsetMs = outcome.nowMs - clock.now();
    stats.batches += 1;
    stats.commands += outcome.replies.length;
    stats.roundTrips += outcome.roundTrips;
  };
  const onLeaseEnded = async (): Promise<void> => {
    await register();
    options.onLeaseEnded?.();
  };
  const waits = { settleMs, patienceMs: options.patienceMs };
  const writer = new BatchWriter({ database: { url }, engine, observe, watch, ...waits, onBatch, onLeaseEnded });
  const sweep = async (nowMs: number): Promise<unknown> =>
    writer.sendFor(await instances.listDue(sweepsMax, drivesTime ? nowMs : null), ['sweep', nowMs]);
  const longPool = pool.share(longConnections);
  const reader = new PostgresReader({ pool: longPool, plans, sweep, readMs: options.readMs });
  return { options, pool, longPool, shared, number, stats, instances, engine, writer, reader, lastId, now, register };
}

function makeShared(types: Shared['types'], number: { readonly value: number }): Shared {
  return {
    types,
    statements: makeStatements(types),
    dictionary: new Dictionary(),
    configs: new AccountConfigs(),
    countedSums: new Set(),
    committedSums: new Set(),
    nextEventId: makeEventIds(number),
    boot: 0,
  };
}

class InstanceLedger extends CommandLedger implements PostgresLedger {
  readonly voidedHoldsAtStart = 0;
  readonly violationsAtStart: readonly string[] = [];
  readonly #own: Parts;
  readonly #snapshots: SnapshotWatch;
  #timer: NodeJS.Timeout | undefined;
  #isLeader = false;
  #isTicking = false;
  #partitionsAtMs = performance.now();

  constructor(own: Parts) {
    const { writer, reader, pool, now, lastId, options } = own;
    const { watch = unwatched } = options;
    super({
      writer,
      startReader: () => reader,
      credentials: new CredentialReads(pool, () => writer.probe()),
      now,
      lastId: () => lastId,
      wroteOff: (id, nanoUsd) => watch.wroteOff(id, nanoUsd),
      close: () => Promise.resolve(),
    });
    this.#own = own;
    const { onSnapshotAge: onAge, onOldSnapshot: onOld } = options;
    this.#snapshots = new SnapshotWatch({ now: () => performance.now(), onAge, onOld });
  }

  get stats(): PostgresStats {
    return this.#own.stats;
  }

  get boot(): number {
    return this.#own.shared.boot;
  }

  get instanceNumber(): number {
    return this.#own.number.value;
  }

  get isReachable(): boolean {
    return !this.#own.writer.isFailing;
  }

  /** Registers the instance, and starts to renew its lease and to end the holds of instances that have ended. */
  async join(): Promise<void> {
    await this.#own.register();
    await this.#tick();
    this.#timer = setInterval(() => void this.#tick(), this.#own.options.lease?.renewMs ?? renewMs).unref();
  }

  /** Only one instance delivers events. */
  override async listDueDeliveries(limit: number, resting?: readonly number[]): Promise<DueDelivery[]> {
    return this.#isLeader ? super.listDueDeliveries(limit, resting) : [];
  }

  /** Reminders can concern keys of all accounts, which are locked first. */
  override async remindOfExpiry(): Promise<void> {
    if (!this.#isLeader) return;
    const nowMs = this.#own.options.clock.now();
    const rows = await this.#own.pool.query(
      'SELECT DISTINCT account_id AS id FROM api_key WHERE expires_at_ms > $1::bigint AND expires_at_ms <= $2::bigint',
      [nowMs - dayMs, nowMs + 8 * dayMs],
    );
    await this.#own.writer.sendFor(
      rows.map(row => Number(row['id'])),
      ['remind', nowMs],
    );
  }

  async databaseBytes(): Promise<number> {
    const [row] = await this.#own.longPool.query('SELECT pg_database_size(current_database()) AS bytes');
    return Number(row?.['bytes'] ?? 0);
  }

  override removeOld(limits: RetentionLimits): Promise<number> {
    return removeOld(this.#own.longPool, limits, this.#own.options.clock.now());
  }

  override verify(): Promise<string[]> {
    return verifyPostgres(this.#own.reader);
  }

  override async close(): Promise<void> {
    clearInterval(this.#timer);
    const { writer, instances, pool } = this.#own;
    await writer.drain();
    await instances.leave(this.#own.shared.boot).catch(() => undefined);
    await pool.close();
    this.#own.options.home?.release();
  }

  /** Renews the lease, and ends holds of instances that have ended and everything that is over. If something fails, the next call tries again. */
  async #tick(): Promise<void> {
    if (this.#isTicking) return;
    this.#isTicking = true;
    try {
      await this.#renew();
      await endLeft(this.#own);
      await this.#snapshots.check(this.#own.pool);
    } catch {
      // The writer finds out whether the database can be written, and reports it.
      this.#own.writer.probe();
    } finally {
      this.#isTicking = false;
    }
  }

  async #renew(): Promise<void> {
    const { instances, engine, pool } = this.#own;
    const { boot } = this.#own.shared;
    if (!(await instances.renew(boot)) && boot === this.#own.shared.boot) {
      engine.forgetHolds();
      await this.#own.register();
      this.#own.options.onLeaseEnded?.();
    }
    this.#isLeader = await instances.isLeader(this.#own.shared.boot);
    if (performance.now() - this.#partitionsAtMs > dayMs) {
      this.#partitionsAtMs = performance.now();
      await pool.use(addPartitions);
    }
  }
}

/** Ends holds of instances that have ended, and everything that is over. Returns how many holds were voided. */
export async function endLeft({ instances, writer, options }: Parts): Promise<number> {
  const nowMs = options.clock.now();
  const orphans = await instances.listOrphans(sweepsMax);
  const ends = orphans.map(({ id, accountId }) => writer.sendFor([accountId], ['void', nowMs, id, 'restarted']));
  const replies = await Promise.all(ends);
  const due = await instances.listDue(sweepsMax, options.drivesTime === true ? nowMs : null);
  if (due.length > 0) await writer.sendFor(due, ['sweep', nowMs]);
  return replies.filter(reply => reply === 'voided').length;
}

/** Returns a function that makes ids of events. Like ids of requests, they consist of the time and the instance's number, so no two gateways make the same id. */
function makeEventIds(number: { readonly value: number }): (nowMs: number) => number {
  let last = 0;
  return nowMs => {
    const next = Math.max(nowMs * 4096, (Math.floor(last / 64) + 1) * 64);
    last = next + number.value;
    return last;
  };
}
