import { UpstreamFailure } from '../generation/upstream.ts';
import { sleepOn } from '../lib/backoff.ts';
import type { WaitOptions } from './pace.ts';
import type { Steering } from './steering.ts';

/** The `retry-after` of requested failures with status 429 or 503. */
const retryAfterMs = 1_000;

/**
 * Applies the part of a steering line that concerns the time before the first event: waits for its `delay_ms`, then throws the
 * `UpstreamFailure` that it asks for in this attempt, if any.
 */
export async function delayOrFail(steering: Steering, attempt: number, options: WaitOptions): Promise<void> {
  const { status, times = Infinity, delayMs = 0 } = steering;
  if (delayMs > 0) await sleepOn(options.runtime)(delayMs, options.signal);
  if (status === undefined || attempt > times) return;
  throw new UpstreamFailure('status', {
    status,
    requested: true,
    message: `The built-in model answered with status ${status}, as the !sim line of the request says.`,
    ...(status === 429 || status === 503 ? { retryAfterMs } : {}),
  });
}
