import type { AnswerHeaders } from './call.ts';

/** A request window of a key, as an error or the contract tells it. */
export interface LimitWindow {
  readonly max: number | bigint;
  readonly remaining: number | bigint;
  readonly resetAtMs: number | bigint;
}

/** A time from now as OpenAI writes it: "12s", "1m30s", "6h0m0s"; whole seconds, rounded up. */
export function resetText(ms: number): string {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const seconds = `${total % 60}s`;
  if (total < 60) return seconds;
  const minutes = Math.floor(total / 60);
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}

/** Adds the `x-ratelimit-*` headers of the window with the least remaining; none if the key has no window. Source: decisions §3. */
export function addLimitHeaders(headers: AnswerHeaders, windows: readonly LimitWindow[], nowMs: number): AnswerHeaders {
  let [tightest] = windows;
  if (tightest === undefined) return headers;
  for (const window of windows) if (window.remaining < tightest.remaining) tightest = window;
  headers['x-ratelimit-limit-requests'] = Number(tightest.max);
  headers['x-ratelimit-remaining-requests'] = Number(tightest.remaining);
  headers['x-ratelimit-reset-requests'] = resetText(Number(tightest.resetAtMs) - nowMs);
  return headers;
}
