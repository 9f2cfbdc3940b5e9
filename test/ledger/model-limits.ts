import type { DenialFacts, WindowState } from '../../src/errors/gateway-error.ts';
import type { Denied } from '../../src/ledger/ledger.ts';

/** Windows and caps of the plain model: every question is answered by looking at all times there are. */

const dayMs = 86_400_000;
/** The UTC day and month of a time. */
export const day = (ms: number): number => Math.floor(ms / dayMs);
export const month = (ms: number): string => new Date(ms).toISOString().slice(0, 7);

export function nextDay(ms: number): number {
  return (day(ms) + 1) * dayMs;
}

export function nextMonth(ms: number): number {
  let at = nextDay(ms);
  while (month(at) === month(ms)) at += dayMs;
  return at;
}

/** One thing that bounds what money can pay. */
export interface Pool {
  readonly limit: 'daily_limit' | 'monthly_limit' | 'balance';
  readonly used: bigint;
  readonly max: bigint;
  readonly resetAtMs?: number;
}

export function smallest(pools: readonly Pool[]): bigint {
  const left = pools.map(pool => pool.max - pool.used).reduce((least, each) => (each < least ? each : least));
  return left < 0n ? 0n : left;
}

export function minuteWindow(
  limit: 'minute_limit' | 'free_minute',
  admittedAtMs: readonly number[],
  max: number,
  now: number,
): WindowState {
  const times = admittedAtMs.filter(at => at > now - 60_000);
  times.sort((a, b) => a - b);
  // One fewer than `max` are left when the first `count - max + 1` of them have gone; while there is room: the oldest.
  const last = times[Math.max(0, times.length - max)];
  const resetAtMs = last === undefined ? now : Math.min(last + 60_000, now + 61_000);
  return { limit, max, remaining: Math.max(0, max - times.length), resetAtMs };
}

/** A request that counts as `count` has no room. `times`: of the account's free requests. */
export function windowDenial(
  { window, count, times }: { window: WindowState; count: number; times: readonly number[] },
  windows: readonly WindowState[],
  now: number,
): Denied {
  const { limit, max, remaining } = window;
  const asked = count === 1 ? {} : { answers: count };
  const denial: DenialFacts = { limit, unit: 'requests', used: max - remaining, max };
  if (count > max) return { kind: 'denied', code: 'rate_limit', ...asked, denial, windows };
  const resetAtMs =
    limit === 'free_minute' ? minuteWindow(limit, times, max - count + 1, now).resetAtMs : window.resetAtMs;
  const wait = resetAtMs - now;
  const retryAfterMs = limit.endsWith('minute') || limit === 'minute_limit' ? Math.max(1000, wait) : wait;
  return { kind: 'denied', code: 'rate_limit', ...asked, denial: { ...denial, resetAtMs }, retryAfterMs, windows };
}

export function poolDenial(pool: Pool, windows: readonly WindowState[], now: number): Denied {
  const { limit, used, max, resetAtMs } = pool;
  if (resetAtMs === undefined) {
    return { kind: 'denied', code: 'insufficient_balance', denial: { limit, unit: 'nano_usd', used, max }, windows };
  }
  const denial: DenialFacts = { limit, unit: 'nano_usd', used, max, resetAtMs };
  return { kind: 'denied', code: 'spending_limit', denial, retryAfterMs: resetAtMs - now, windows };
}
