import { refuseUnfinishedRestore } from './backup/restore-backup.ts';
import { backUpBeforeUpgrade } from './backup/upgrade-backup.ts';
import { statSync } from 'node:fs';
import type { Environment } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { systemClock } from '../lib/clock.ts';
import type { Documents } from '../store/documents.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { LedgerStartError } from '../lib/sqlite/start-error.ts';
import { countDocuments, openSqliteDocuments } from '../store/sqlite/documents/sqlite-documents.ts';
import { ledgerPath } from '../ledger/sqlite/verify.ts';
import { openSqliteLedger } from '../ledger/sqlite/sqlite-ledger.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { StorageHealth } from './storage-health.ts';

/** What a gateway keeps. */
export interface Stores {
  readonly ledger: Ledger;
  readonly documents: Documents;
}

/** Opens the ledger, whose lock makes the data directory this process's own, and the documents. Throws `LedgerStartError`, or `BackupError` if a restore has not ended or the backup before an upgrade failed. */
export async function openStores(
  { dataDir }: Environment,
  { dailyLimitUnit, plans, content, ledger: settings }: Config,
  { metrics, logger, health }: { readonly metrics: Metrics; readonly logger: Logger; readonly health: StorageHealth },
): Promise<Stores> {
  refuseUnfinishedRestore(dataDir);
  refuseMissing(dataDir);
  const backup = await backUpBeforeUpgrade(dataDir, () => systemClock.now());
  if (backup !== undefined) logger.warn({ backup }, 'backed up before the upgrade');
  const ledger = await openSqliteLedger({
    dataDir,
    clock: systemClock,
    dailyLimitUnit,
    plans,
    writeOffMax: settings.writeOffMaxNanoUsd === 0n ? undefined : settings.writeOffMaxNanoUsd,
    settleMs: settings.settleTimeoutMs,
    watch: health.ledgerWatch,
    observe: ({ commitMs, waiting }) => metrics.committed(commitMs, waiting),
  });
  for (const violation of ledger.violationsAtStart)
    logger.error({ violation }, 'an invariant of the ledger does not hold');
  if (ledger.voidedHoldsAtStart > 0)
    logger.warn({ holds: ledger.voidedHoldsAtStart }, 'holds of a crash were given back');
  try {
    return {
      ledger,
      documents: await openSqliteDocuments({
        dataDir,
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

/** Throws `LedgerStartError` (`missing`) if there is no ledger where there was one: a new one would forget all accounts and what they paid. */
function refuseMissing(dataDir: string): void {
  const path = ledgerPath(dataDir);
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  const documents = countDocuments(dataDir);
  if (documents === 0) return;
  throw new LedgerStartError(
    'missing',
    `There is no ledger ${path}, but content.db beside it has ${documents} documents of one. Restore ledger.sqlite from a backup; or, to begin with no accounts and no money, move content.db away.`,
  );
}
