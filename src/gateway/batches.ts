import { join } from 'node:path';
import type { Environment } from '../config/env.ts';
import { Batches, type BatchTools } from '../core/batches/batches.ts';
import { createBatchCodec } from '../edge/batches/batch-codec.ts';
import type { ErrorTexts } from '../edge/options.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { openDiskBulkFiles } from '../store/disk/disk-bulk-files.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LiveConfig } from './live-config.ts';

type OpenedHere = 'bulk' | 'codec' | 'runtime' | 'lineBytesMax' | 'fileBytesMax' | 'concurrency' | 'onDefect';

/** What batches are made with. */
interface BatchParts extends Omit<BatchTools, OpenedHere> {
  readonly environment: Environment;
  readonly live: LiveConfig;
  readonly logger: Logger;
  /** What errors say beside their message. */
  readonly texts: () => ErrorTexts;
}

/** Opens the files of the data directory, and the batches that run on them. */
export function openBatches(parts: BatchParts): Batches {
  const { environment, live, logger, texts, ...tools } = parts;
  return new Batches({
    ...tools,
    bulk: openDiskBulkFiles({
      folder: join(environment.dataDir, 'files'),
      bytesMax: () => live.current.batches.diskBytes,
    }),
    codec: createBatchCodec({ texts, strict: () => live.current.strict }),
    runtime: systemRuntime,
    lineBytesMax: () => live.current.limits.bodyBytes,
    fileBytesMax: () => live.current.batches.fileBytes,
    concurrency: () => live.current.batches.concurrency,
    onDefect: (batchId, error) => logger.error({ batchId, error }, 'a batch was left by a failure'),
  });
}
