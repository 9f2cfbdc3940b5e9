import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Environment } from '../config/env.ts';
import type { StorageState } from '../core/configuration-admin.ts';
import { backupsFolder } from './backup/data-files.ts';
import { columnsFolder, readFileSizes, readFolderBytes } from './file-sizes.ts';
import type { LiveConfig } from './live-config.ts';
import { eventsMs } from './retention.ts';
import type { StorageHealth } from './storage-health.ts';
import { fileLifetimeMs, type Stores } from './stores.ts';

/** The sources of the view of the storage. */
interface StorageViewOptions {
  readonly environment: Pick<Environment, 'dataDir' | 'databaseUrl'>;
  readonly live: LiveConfig;
  readonly health: Pick<StorageHealth, 'reason'>;
  readonly stores: Pick<Stores, 'databaseBytes'>;
}

/** Folders of the data directory. They may be missing. */
const folders = [columnsFolder, 'images', 'files', backupsFolder];

/** Returns a function that reads how much is stored, how much space is left, and how long things are kept. */
export function storageView({ environment, live, health, stores }: StorageViewOptions): () => Promise<StorageState> {
  const { dataDir, databaseUrl } = environment;
  return async () => {
    const { bavail, blocks, bsize } = await statfs(dataDir);
    const sizes = await Promise.all(
      folders.map(async name => ({ name, bytes: await readFolderBytes(join(dataDir, name)) })),
    );
    const database = stores.databaseBytes && { name: 'database', bytes: await stores.databaseBytes() };
    const files = Object.entries(readFileSizes(dataDir)).map(([name, bytes]) => ({ name, bytes }));
    return {
      engine: databaseUrl === undefined ? 'sqlite' : 'postgres',
      dataDir,
      freeBytes: bavail * bsize,
      totalBytes: blocks * bsize,
      problem: health.reason,
      parts: [...(database === undefined ? [] : [database]), ...files, ...sizes.filter(({ bytes }) => bytes > 0)],
      retention: listRetention(live),
    };
  };
}

function listRetention({ current }: LiveConfig): StorageState['retention'] {
  const { retention, content } = current;
  return [
    { name: 'activity', lifetimeMs: retention.activityMs, setting: 'retention.activity' },
    { name: 'audit', lifetimeMs: retention.auditMs, setting: 'retention.audit' },
    { name: 'webhook_events', lifetimeMs: eventsMs, setting: '' },
    { name: 'responses', lifetimeMs: content.responseLifetimeMs, setting: 'content.response_lifetime' },
    { name: 'bodies', lifetimeMs: content.bodyLifetimeMs, setting: 'content.body_lifetime' },
    { name: 'image_files', lifetimeMs: fileLifetimeMs, setting: '' },
  ];
}
