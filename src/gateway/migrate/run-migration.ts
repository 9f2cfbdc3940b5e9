import type { Config } from '../../config/settings.ts';
import { openPostgresLedger } from '../../ledger/postgres/postgres-ledger.ts';
import { openSqliteLedger } from '../../ledger/sqlite/sqlite-ledger.ts';
import { systemClock } from '../../lib/clock.ts';
import { openSqliteDocuments } from '../../store/sqlite/documents/sqlite-documents.ts';
import { type Migrated, type MigrationOptions, migrateStore } from './migrate-store.ts';

/** Moves the data of a stopped gateway to PostgreSQL, with the settings of its configuration. Throws what `migrateStore` throws. */
export function runMigration(
  {
    dailyLimitUnit,
    plans,
    content,
  }: Pick<Config, 'dailyLimitUnit' | 'plans'> & { readonly content: Pick<Config['content'], 'bytesMax'> },
  { dataDir, url, progress }: Pick<MigrationOptions, 'dataDir' | 'url' | 'progress'>,
): Promise<Migrated> {
  const clock = systemClock;
  const ledger = { clock, dailyLimitUnit, plans };
  return migrateStore({
    dataDir,
    url,
    progress,
    async settle() {
      await (await openSqliteLedger({ ...ledger, dataDir })).close();
      await (await openSqliteDocuments({ dataDir, clock, bytesMax: content.bytesMax })).close();
    },
    openTarget: () => openPostgresLedger({ ...ledger, url }),
  });
}
