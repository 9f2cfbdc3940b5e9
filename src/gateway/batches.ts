import type { EndedItem } from '../core/batches/batch-job.ts';
import { Batches, type BatchDependencies } from '../core/batches/batches.ts';
import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { knownDollars } from '../lib/dollars.ts';
import { createBatchCodec } from '../edge/batches/batch-codec.ts';
import { JsonParser } from '../edge/json-parser.ts';
import type { ErrorTexts } from '../edge/options.ts';
import { systemRuntime } from '../lib/runtime.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { bodyBounds, parserLimits } from './body-limits.ts';
import type { Stores } from './stores.ts';
import type { LiveConfig } from './live-config.ts';

/** The dependencies of `Batches` that `openBatches` makes from its options. */
type ProvidedHere =
  | 'bulk'
  | 'codec'
  | 'runtime'
  | 'lineBytesMax'
  | 'fileBytesMax'
  | 'diskBytesMax'
  | 'concurrency'
  | 'onItem'
  | 'onDefect';

/** The options of `openBatches`. */
interface OpenBatchesOptions extends Omit<BatchDependencies, ProvidedHere> {
  readonly openBulk: Stores['openBulk'];
  readonly live: LiveConfig;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Returns the configured texts of errors. */
  readonly texts: () => ErrorTexts;
}

/** Opens the store of large files, and the batches that use it. */
export function openBatches(options: OpenBatchesOptions): Batches {
  const { openBulk, live, logger, metrics, texts, ...dependencies } = options;
  return new Batches({
    ...dependencies,
    bulk: openBulk(() => live.current.batches.diskBytes),
    codec: createBatchCodec({
      texts,
      strict: () => live.current.strict,
      parser: new JsonParser(parserLimits(live), systemRuntime),
      bounds: () => bodyBounds(live),
    }),
    runtime: systemRuntime,
    lineBytesMax: () => live.current.limits.bodyBytes,
    fileBytesMax: () => live.current.batches.fileBytes,
    diskBytesMax: () => live.current.batches.diskBytes,
    concurrency: () => live.current.batches.concurrency,
    onItem: item => recordItem(item, logger, metrics),
    onDefect: (batchId, error) =>
      logger.error(
        { batchId, error },
        'a batch stopped because of an internal failure: it is tried again within seconds',
      ),
  });
}

/**
 * Writes the log line and the metrics of an item. Its path is that of its batch, so that its latency is not mixed with that of requests whose clients wait.
 */
function recordItem({ batchId, endpoint, call, durationMs, error }: EndedItem, logger: Logger, metrics: Metrics): void {
  const { model, route, settled, accountId, keyId, attempts } = call;
  const path = endpoint === Endpoint.MESSAGES ? '/v1/messages/batches' : '/v1/batches';
  const status = error?.facets.http ?? 200;
  const costUsd = knownDollars(settled?.costNanoUsd);
  metrics.answered({
    endpoint: path,
    model: model ?? 'other',
    route: route === undefined ? undefined : `${route.provider}/${route.model}`,
    status,
    code: error?.code,
    durationMs,
    firstEventMs: undefined,
    tokens: settled?.tokens,
    costUsd,
    providerCostUsd: knownDollars(settled?.providerCostNanoUsd),
  });
  logger[error?.facets.log ?? 'info'](
    {
      request_id: call.requestId,
      batch_id: batchId,
      account_id: accountId,
      key_id: keyId,
      model,
      endpoint: path,
      provider: route?.provider,
      attempts,
      status,
      code: error?.code,
      tokens: settled?.tokens,
      cost: costUsd,
      latency_ms: Math.round(durationMs * 10) / 10,
    },
    'request',
  );
}
