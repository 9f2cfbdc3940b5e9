import type { Runtime } from './runtime.ts';

/** The waits between attempts. */
export interface BackoffPolicy {
  /** The longest wait before the first retry. It doubles with each further retry. */
  readonly baseMs: number;
  /** The longest wait before any retry. */
  readonly maxMs: number;
}

/** Returns a number in [0, 1), like `Math.random`. It is a parameter, so that tests can choose the numbers. */
export type Random = () => number;

/**
 * Returns the wait before a retry in ms: exponential with full jitter, so that callers that failed at the same time do
 * not retry at the same time. `failures`: how many attempts have failed, at least 1. `requestedMs`: the wait that the
 * other side requested; the result is at least that, plus jitter.
 */
export function backoffMs(failures: number, policy: BackoffPolicy, random: Random, requestedMs = 0): number {
  const ceiling = Math.min(policy.maxMs, policy.baseMs * 2 ** (failures - 1));
  if (requestedMs > 0) return requestedMs + random() * policy.baseMs;
  return random() * ceiling;
}

/** Waits; rejects with the signal's reason as soon as it is aborted. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** Waits on the timers of a runtime. */
export function sleepOn(runtime: Pick<Runtime, 'after'>): Sleep {
  return async (ms, signal) => {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = runtime.after(ms, resolve);
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
    }
  };
}
