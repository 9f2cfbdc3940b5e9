import type { UsageBuckets } from '../generation/usage-buckets.ts';
import type { TokenCounts } from '../telemetry/metrics.ts';

/** Renames the usage buckets to the labels that logs, metrics and traces use. */
export function toTokenCounts({ input, cacheRead, cacheWrite5m, cacheWrite1h, output }: UsageBuckets): TokenCounts {
  return { input, cache_read: cacheRead, cache_write_5m: cacheWrite5m, cache_write_1h: cacheWrite1h, output };
}
