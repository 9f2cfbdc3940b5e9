import { join } from 'node:path';
import type { Environment } from '../config/env.ts';
import { Images, type ImageTools } from '../core/images/images.ts';
import { systemClock } from '../lib/clock.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { openDiskFiles } from '../store/disk/disk-files.ts';
import type { Files } from '../store/files.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LiveConfig } from './live-config.ts';

/** How long a picture can be fetched by its address. Source: `service.md`, Image result. */
const fileLifetimeMs = 3_600_000;

/** What images are made with. */
interface ImageParts extends Omit<ImageTools, 'files' | 'runtime' | 'tasks' | 'onDefect'> {
  readonly environment: Environment;
  readonly live: LiveConfig;
  readonly logger: Logger;
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
