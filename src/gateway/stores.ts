import type { Environment } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { systemClock } from '../lib/clock.ts';
import type { Documents } from '../store/documents.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openSqliteDocuments } from '../store/sqlite/documents/sqlite-documents.ts';
import { openSqliteLedger } from '../ledger/sqlite/sqlite-ledger.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** What a gateway keeps. */
export interface Stores {
  readonly ledger: Ledger;
  readonly documents: Documents;
}

/** Opens the ledger, whose lock makes the data directory this process's own, and the documents. Throws `LedgerStartError`. */
export async function openStores(
  { dataDir }: Environment,
  { dailyLimitUnit, plans, content }: Config,
  { metrics, logger }: { readonly metrics: Metrics; readonly logger: Logger },
): Promise<Stores> {
  const ledger = await openSqliteLedger({
    dataDir,
    clock: systemClock,
    dailyLimitUnit,
    plans,
    observe: ({ commitMs, waiting }) => metrics.committed(commitMs, waiting),
  });
  for (const violation of ledger.violationsAtStart)
    logger.error({ violation }, 'an invariant of the ledger does not hold');
  if (ledger.voidedHoldsAtStart > 0)
    logger.warn({ holds: ledger.voidedHoldsAtStart }, 'holds of a crash were given back');
  try {
    return {
      ledger,
      documents: await openSqliteDocuments({ dataDir, clock: systemClock, bytesMax: content.bytesMax }),
    };
  } catch (error) {
    await ledger.close();
    throw error;
  }
}
