import type { UsageBuckets } from '../generation/usage-buckets.ts';
import type { TokenCounts } from '../telemetry/metrics.ts';

/** Converts usage buckets to the token counts of logs, metrics and traces. */
export function toTokenCounts({ input, cacheRead, cacheWrite5m, cacheWrite1h, output }: UsageBuckets): TokenCounts {
  return { input, cache_read: cacheRead, cache_write_5m: cacheWrite5m, cache_write_1h: cacheWrite1h, output };
}
