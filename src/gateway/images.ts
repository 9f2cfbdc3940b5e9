import { join } from 'node:path';
import type { Environment } from '../config/env.ts';
import type { Catalog } from '../core/catalog/catalog.ts';
import type { Replays } from '../core/idempotency/replays.ts';
import { Images } from '../core/images/images.ts';
import type { Router } from '../core/routing/router.ts';
import { systemClock } from '../lib/clock.ts';
import type { IdSource } from '../lib/ids.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { openDiskFiles } from '../store/disk/disk-files.ts';
import type { Documents } from '../store/documents.ts';
import type { Files } from '../store/files.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LiveConfig } from './live-config.ts';

/** How long a picture can be fetched by its address. Source: `service.md`, Image result. */
const fileLifetimeMs = 3_600_000;

/** What pictures are made with. */
export interface ImageParts {
  readonly environment: Environment;
  readonly live: LiveConfig;
  readonly ledger: Ledger;
  readonly documents: Documents;
  readonly router: Router;
  readonly catalog: Catalog;
  readonly ids: IdSource;
  readonly replays: Replays;
  readonly exposeRoute: () => boolean;
  readonly logger: Logger;
  readonly publicUrl: () => string;
}

/** Opens the pictures of the data directory: those whose hour is over are removed. */
export function openImages(parts: ImageParts): { readonly images: Images; readonly files: Files } {
  const { environment, live, logger, ...tools } = parts;
  const { imageFileBytes, imageTasks, imageTaskQueue } = live.current.limits;
  const files = openDiskFiles({
    folder: join(environment.dataDir, 'images'),
    clock: systemClock,
    lifetimeMs: fileLifetimeMs,
    bytesMax: imageFileBytes,
    onFailure: error => logger.warn({ error }, 'a picture whose hour is over can’t be removed'),
  });
  const images = new Images({
    ...tools,
    files,
    runtime: systemRuntime,
    tasks: { slots: imageTasks, waitersMax: imageTaskQueue },
    onDefect: (taskId, error) => logger.error({ taskId, error }, 'an image task was left by a failure'),
  });
  return { images, files };
}
