import type { ContentSettings } from '../config/settings.ts';
import { serverSecrets } from '../core/secret-files.ts';
import { PostgresPool } from '../lib/postgres/pool.ts';
import { migrateStores, type StoreDatabase } from '../store/postgres/database.ts';
import { openPostgresBulkFiles } from '../store/postgres/postgres-bulk-files.ts';
import { openPostgresClaims } from '../store/postgres/postgres-claims.ts';
import { openPostgresDocuments } from '../store/postgres/postgres-documents.ts';
import { openPostgresFiles, type PostgresFilesOptions } from '../store/postgres/postgres-files.ts';
import { shareSecrets } from '../store/postgres/shared-secrets.ts';
import type { Stores } from './stores.ts';

/** The number of connections. The ledger has four more, so a gateway has at most eight. */
const connections = 4;

/** The database, and the gateway that uses it. */
interface SharedStoreOptions {
  readonly url: string;
  readonly dataDir: string;
  /** Returns the number under which this gateway's process is registered in the database (column `boot` of the table `instance`). */
  readonly boot: () => number;
}

/**
 * Opens all stores except the ledger in a database that several gateways share. The ledger's tables must already exist. Throws the errors of `migrateStores`.
 */
export async function openSharedContent(
  { url, dataDir, boot }: SharedStoreOptions,
  { bytesMax, replayBytesMax }: ContentSettings,
  images: PostgresFilesOptions,
): Promise<Omit<Stores, 'ledger'>> {
  await migrateStores(url);
  const pool = new PostgresPool({ url, connections });
  const database: StoreDatabase = { pool, boot };
  const claims = openPostgresClaims(database);
  const closing: (() => void)[] = [];
  const close = async (): Promise<void> => {
    for (const each of closing) each();
    await pool.close();
  };
  try {
    return {
      claims,
      sharedClaims: claims,
      documents: openPostgresDocuments(database, { bytesMax, keptBytesMax: replayBytesMax }, close),
      files: openPostgresFiles(database, images),
      secrets: await shareSecrets(database, serverSecrets(dataDir)),
      openBulk: bulkBytesMax => {
        const bulk = openPostgresBulkFiles(database, bulkBytesMax);
        closing.push(() => bulk.close());
        return bulk;
      },
    };
  } catch (thrown) {
    await pool.close();
    throw thrown;
  }
}
