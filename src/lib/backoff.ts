import type { Runtime } from './runtime.ts';

/** The waits between attempts. */
export interface BackoffPolicy {
  /** The longest wait before the first retry; it doubles with each one. */
  readonly baseMs: number;
  /** The upper bound, whatever the number of attempts. */
  readonly maxMs: number;
}

/** A number in [0, 1), as `Math.random` makes it; injected so that tests know what comes. */
export type Random = () => number;

/**
 * Returns the wait before a retry in ms: exponential with full jitter, so that callers that failed together do not
 * return together. `failures` is how many attempts have failed, from 1. `requestedMs` is the wait that the other side
 * requested: then the wait is at least that, with jitter on top.
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
