import { Images, type ImageDependencies } from '../core/images/images.ts';
import { systemRuntime } from '../lib/runtime.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LiveConfig } from './live-config.ts';

/** The options of `openImages`. */
interface OpenImagesOptions extends Omit<ImageDependencies, 'runtime' | 'tasks' | 'onDefect'> {
  readonly live: LiveConfig;
  readonly logger: Logger;
}

/** Opens the image requests and image tasks of this process. */
export function openImages(options: OpenImagesOptions): Images {
  const { live, logger, ...dependencies } = options;
  const { imageTasks, imageTaskQueue } = live.current.limits;
  return new Images({
    ...dependencies,
    runtime: systemRuntime,
    tasks: { slots: imageTasks, waitersMax: imageTaskQueue },
    onDefect: (taskId, error) =>
      logger.error({ taskId, error }, 'an image task stopped because of an internal failure'),
  });
}
