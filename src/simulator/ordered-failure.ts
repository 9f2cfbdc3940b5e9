import { UpstreamFailure } from '../generation/upstream.ts';
import { sleepOn } from '../lib/backoff.ts';
import type { Waiting } from './pace.ts';
import type { Steering } from './steering.ts';

/** The wait that an upstream would request. */
const retryAfterMs = 1_000;

/** Waits before the first event, and fails this attempt, as the steering line orders. */
export async function beginAsOrdered(steering: Steering, attempt: number, waiting: Waiting): Promise<void> {
  const { status, times = Infinity, delayMs = 0 } = steering;
  if (delayMs > 0) await sleepOn(waiting.runtime)(delayMs, waiting.signal);
  if (status === undefined || attempt > times) return;
  throw new UpstreamFailure('status', {
    status,
    ordered: true,
    message: `The built-in model was told to answer with status ${status}.`,
    ...(status === 429 || status === 503 ? { retryAfterMs } : {}),
  });
}
