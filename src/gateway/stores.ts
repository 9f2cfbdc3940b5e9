import { refuseUnfinishedRestore } from './backup/restore-backup.ts';
import { backUpBeforeUpgrade } from './backup/upgrade-backup.ts';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { systemClock } from '../lib/clock.ts';
import { type Claims, MemoryClaims } from '../store/claims.ts';
import type { BulkFiles } from '../store/bulk-files.ts';
import { openDiskBulkFiles } from '../store/disk/disk-bulk-files.ts';
import { serverSecrets } from '../core/secret-files.ts';
import { openDiskFiles } from '../store/disk/disk-files.ts';
import type { Files } from '../store/files.ts';
import type { Documents } from '../store/documents.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { endedEarly } from '../lib/sqlite/log-file.ts';
import { LedgerStartError } from '../lib/sqlite/start-error.ts';
import {
  countDocuments,
  documentsPath,
  openSqliteDocuments,
  type SharedDocuments,
} from '../store/sqlite/documents/sqlite-documents.ts';
import { ledgerPath } from '../ledger/sqlite/verify.ts';
import type { PostgresLedger } from '../ledger/postgres/postgres-ledger.ts';
import { makeDirectory } from '../lib/make-directory.ts';
import { openSqliteLedger, type SqliteLedger } from '../ledger/sqlite/sqlite-ledger.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { StorageHealth } from './storage-health.ts';

/** The stores of a gateway. */
export interface Stores {
  readonly ledger: Ledger;
  readonly documents: Documents;
  /** The images that clients get as URLs. */
  readonly files: Files;
  readonly claims: Claims;
  /** The same as `claims`; undefined if no other thread or gateway can get the same Idempotency-Key. */
  readonly sharedClaims: Claims | undefined;
  /** Opens the store of large files and journals, which may take `bytesMax()` bytes together. Call it only once. */
  readonly openBulk: (bytesMax: () => number) => BulkFiles;
  /** The secrets for encryption, newest first: see `SealedBox`. */
  readonly secrets: readonly string[];
  /** Returns the size of the PostgreSQL database in bytes; absent: everything is in the data directory. */
  readonly databaseBytes?: () => Promise<number>;
  /**
   * Registers a listener that is called when this gateway has lost its lease, so that other gateways may have voided its requests. `instance`: the number of the new instance as which it continues. Absent if there are no other gateways.
   */
  readonly onLeaseEnded?: (listener: (instance: number) => void) => void;
}

/** The stores of the main thread, which worker threads also use through messages. */
export interface LendingStores extends Stores {
  readonly ledger: SqliteLedger;
  readonly documents: SharedDocuments;
  readonly allClaims: MemoryClaims;
}

/** Stores in a database that other gateways may use, too. */
export interface DatabaseStores extends Stores {
  readonly ledger: PostgresLedger;
}

/** How long an image can be fetched by its URL. Source: docs/interfaces/images.md "Image URLs". */
export const fileLifetimeMs = 3_600_000;

interface StoreDependencies {
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly health: StorageHealth;
}

/**
 * Opens the ledger, whose lock reserves the data directory for this process, and all other stores. Throws `LedgerStartError`, or `BackupError` if a restore was not finished or the backup before an upgrade failed.
 */
export async function openStores(
  environment: Environment,
  config: Config,
  dependencies: StoreDependencies,
): Promise<LendingStores> {
  const { dataDir, workers } = environment;
  const { logger, metrics, health } = dependencies;
  refuseUnfinishedRestore(dataDir);
  // Read before anything opens the files.
  const checks = { ledger: endedEarly(ledgerPath(dataDir)), content: endedEarly(documentsPath(dataDir)) };
  refuseMissing(dataDir);
  const backup = await backUpBeforeUpgrade(dataDir, () => systemClock.now());
  if (backup !== undefined) logger.warn({ backup }, 'backed up before the upgrade');
  const ledger = await openSqliteLedger({
    dataDir,
    clock: systemClock,
    checksFile: checks.ledger,
    ...ledgerSettings(config),
    watch: health.ledgerWatch,
    observe: ({ commitMs, waiting }) => metrics.committed(commitMs, waiting),
  });
  for (const violation of ledger.violationsAtStart)
    logger.error({ violation }, 'an invariant of the ledger is violated');
  if (ledger.voidedHoldsAtStart > 0)
    logger.warn({ holds: ledger.voidedHoldsAtStart }, 'voided the holds that a crash left');
  const allClaims = new MemoryClaims();
  const claims = allClaims.of(0);
  const sharedClaims = workers > 1 ? claims : undefined;
  return {
    ledger,
    allClaims,
    claims,
    sharedClaims,
    ...(await openContent(ledger, { dataDir, checksFile: checks.content }, config, dependencies)),
  };
}

/** Opens the ledger and all other stores in PostgreSQL. Throws `LedgerStartError` if the database is newer than the program or can't be reached. */
export async function openDatabaseStores(
  environment: Environment & { readonly databaseUrl: string },
  config: Config,
  dependencies: StoreDependencies,
): Promise<DatabaseStores> {
  const { dataDir, databaseUrl: url } = environment;
  const { logger, metrics, health } = dependencies;
  // Loaded only if PostgreSQL is used.
  const { openPostgresLedger } = await import('../ledger/postgres/postgres-ledger.ts');
  const { lockHome } = await import('../ledger/postgres/home-lock.ts');
  let leaseEnded: Parameters<NonNullable<Stores['onLeaseEnded']>>[0] = () => undefined;
  const ledger = await openPostgresLedger({
    url,
    clock: systemClock,
    home: lockHome(dataDir),
    ...ledgerSettings(config),
    watch: health.ledgerWatch,
    observe: ({ commitMs, waiting }) => metrics.committed(commitMs, waiting),
    onLeaseEnded: () => {
      logger.error(
        'this gateway lost its lease: other gateways may have voided its requests; it continues as a new instance',
      );
      leaseEnded(ledger.instanceNumber);
    },
    onSnapshotAge: ageMs => health.metrics.oldestSnapshot(ageMs),
    onOldSnapshot: ageMs =>
      logger.warn(
        { age_ms: ageMs },
        'an old snapshot keeps the database from removing dead rows: see docs/growth.md "Backup"',
      ),
  });
  try {
    // If the directory can't be created, this throws an error with the reason.
    makeDirectory(dataDir);
    const { openSharedContent } = await import('./shared-content.ts');
    const place = { url, dataDir, boot: () => ledger.boot };
    const images = { lifetimeMs: fileLifetimeMs, bytesMax: config.limits.imageFileBytes };
    const content = await openSharedContent(place, config.content, images);
    return {
      ledger,
      ...content,
      databaseBytes: () => ledger.databaseBytes(),
      onLeaseEnded: listener => void (leaseEnded = listener),
    };
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

function ledgerSettings({ dailyLimitUnit, plans, ledger: settings }: Config) {
  const { writeOffMaxNanoUsd, settleTimeoutMs: settleMs } = settings;
  return { dailyLimitUnit, plans, settleMs, writeOffMax: writeOffMaxNanoUsd === 0n ? undefined : writeOffMaxNanoUsd };
}

/** Opens all stores except the ledger in the data directory. Closes the ledger if that fails. */
async function openContent(
  ledger: Ledger,
  data: { readonly dataDir: string; readonly checksFile: boolean },
  { content, limits }: Config,
  { logger, health }: StoreDependencies,
): Promise<Pick<LendingStores, 'files' | 'documents' | 'openBulk' | 'secrets'>> {
  try {
    return {
      openBulk: bytesMax => openDiskBulkFiles({ folder: join(data.dataDir, 'files'), bytesMax }),
      secrets: serverSecrets(data.dataDir),
      files: openDiskFiles({
        folder: join(data.dataDir, 'images'),
        clock: systemClock,
        lifetimeMs: fileLifetimeMs,
        bytesMax: limits.imageFileBytes,
        onFailure: error => logger.warn({ error }, 'could not remove an expired image'),
      }),
      documents: await openSqliteDocuments({
        ...data,
        clock: systemClock,
        bytesMax: content.bytesMax,
        replayBytesMax: content.replayBytesMax,
        watch: health.documentWatch,
      }),
    };
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

/**
 * Throws `LedgerStartError` (`missing`) if the ledger has disappeared, because a new ledger would have no accounts and no money.
 */
function refuseMissing(dataDir: string): void {
  const path = ledgerPath(dataDir);
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  const documents = countDocuments(dataDir);
  if (documents === 0) return;
  throw new LedgerStartError(
    'missing',
    `There is no ledger at ${path}, but content.db in the same directory has ${documents} documents that belong to one. Restore ledger.sqlite from a backup; or, to begin with no accounts and no money, move content.db away.`,
  );
}
