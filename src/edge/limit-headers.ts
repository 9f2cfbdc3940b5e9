import type { WindowState } from '../errors/gateway-error.ts';
import type { AnswerHeaders } from './call.ts';

/** A time from now as OpenAI writes it: "12s", "1m30s", "6h0m0s"; whole seconds, rounded up. */
export function resetText(ms: number): string {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const seconds = `${total % 60}s`;
  if (total < 60) return seconds;
  const minutes = Math.floor(total / 60);
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}

/** The `x-ratelimit-*` headers of the window with the least remaining; none where the key has no window. Source: decisions §3. */
export function limitHeaders(windows: readonly WindowState[], nowMs: number): AnswerHeaders {
  const [first, ...others] = windows;
  if (first === undefined) return {};
  const tightest = others.reduce((least, window) => (window.remaining < least.remaining ? window : least), first);
  return {
    'x-ratelimit-limit-requests': tightest.max,
    'x-ratelimit-remaining-requests': tightest.remaining,
    'x-ratelimit-reset-requests': resetText(tightest.resetAtMs - nowMs),
  };
}
