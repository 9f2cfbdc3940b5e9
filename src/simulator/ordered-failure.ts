import { UpstreamFailure } from '../generation/upstream.ts';
import type { Steering } from './steering.ts';

/** Where an upstream would say when to come back. */
const retryAfterMs = 1_000;

/** Fails this try where the steering line orders it. */
export function failAsOrdered({ status, times }: Steering, attempt: number): void {
  if (status === undefined || (times !== undefined && attempt > times)) return;
  throw new UpstreamFailure('status', {
    status,
    ordered: true,
    message: `The built-in model was told to answer with status ${status}.`,
    ...(status === 429 || status === 503 ? { retryAfterMs } : {}),
  });
}
