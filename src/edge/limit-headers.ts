import type { AnswerHeaders } from './call.ts';

/** The state of a request or token limit, from an error or from the core. */
export interface LimitWindow {
  /** "tokens"; anything else means requests. */
  readonly unit: string;
  readonly max: number | bigint;
  readonly remaining: number | bigint;
  /** When the limit resets, in milliseconds since 1970; 0 or Infinity if it never does by itself. */
  readonly resetAtMs: number | bigint;
}

/** Returns a duration as OpenAI writes it: "12s", "1m30s", "6h0m0s"; whole seconds, rounded up. */
export function resetText(ms: number): string {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const seconds = `${total % 60}s`;
  if (total < 60) return seconds;
  const minutes = Math.floor(total / 60);
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}

/**
 * Adds the `x-ratelimit-*` headers: of the request limit and of the token limit with the least remaining. Adds none if no limit applies to the key.
 * Source: docs/errors.md "Rate limit headers".
 */
export function addLimitHeaders(headers: AnswerHeaders, windows: readonly LimitWindow[], nowMs: number): AnswerHeaders {
  let requests: LimitWindow | undefined;
  let tokens: LimitWindow | undefined;
  for (const window of windows) {
    if (window.unit === 'tokens') tokens = tighter(tokens, window);
    else requests = tighter(requests, window);
  }
  if (requests !== undefined) addHeaders(headers, 'requests', requests, nowMs);
  if (tokens !== undefined) addHeaders(headers, 'tokens', tokens, nowMs);
  return headers;
}

function tighter(one: LimitWindow | undefined, other: LimitWindow): LimitWindow {
  return one === undefined || other.remaining < one.remaining ? other : one;
}

function addHeaders(
  headers: AnswerHeaders,
  unit: 'requests' | 'tokens',
  { max, remaining, resetAtMs }: LimitWindow,
  nowMs: number,
): void {
  headers[`x-ratelimit-limit-${unit}`] = Number(max);
  headers[`x-ratelimit-remaining-${unit}`] = Number(remaining);
  const reset = Number(resetAtMs);
  if (reset > 0 && reset < Number.POSITIVE_INFINITY) headers[`x-ratelimit-reset-${unit}`] = resetText(reset - nowMs);
}
