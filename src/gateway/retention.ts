import type { Ledger } from '../ledger/ledger.ts';
import { systemClock } from '../lib/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { LiveConfig } from './live-config.ts';

/** How often old rows are removed, and how long after the start for the first time. */
const everyMs = 3_600_000;
const firstMs = 60_000;
/** The pause between two commands that remove rows, so that requests are not delayed. */
const pauseMs = 50;
/** How long events are kept after they were delivered or given up. */
export const eventsMs = 30 * 86_400_000;

/** Removes rows whose configured retention time has passed: every hour, a few at a time. Returns a function that stops it. */
export function startRetention(ledger: Ledger, live: LiveConfig, logger: Logger): () => void {
  let timer: NodeJS.Timeout;
  let isStopped = false;
  const removeSome = async (): Promise<void> => {
    const { activityMs, auditMs } = live.current.retention;
    const nowMs = systemClock.now();
    let nextMs = everyMs;
    try {
      const removed = await ledger.removeOld({
        activityBeforeMs: nowMs - activityMs,
        auditBeforeMs: nowMs - auditMs,
        eventsBeforeMs: nowMs - eventsMs,
      });
      if (removed > 0) nextMs = pauseMs;
    } catch (error) {
      logger.warn({ error }, 'old records can’t be removed now; it is tried again in an hour');
    }
    schedule(nextMs);
  };
  const schedule = (ms: number): void => {
    if (!isStopped) timer = setTimeout(() => void removeSome(), ms).unref();
  };
  schedule(firstMs);
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}
