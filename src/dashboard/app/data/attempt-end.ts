/** How attempts ended, in words, by the gateway's names for the ends (`src/core/routing/observer.ts`). */
const ends: Readonly<Record<string, string>> = {
  connect: 'no connection',
  status: 'error response',
  first_event_timeout: 'no answer in time',
  idle_timeout: 'stopped sending',
  total_timeout: 'took too long',
  reported: 'reported an error',
  truncated: 'broke off',
  oversized: 'answer too large',
  malformed: 'invalid answer',
};

/** Says how an attempt ended. An unknown name is shown as it is. */
export function attemptEnd(result: string): string {
  return ends[result] ?? result.replaceAll('_', ' ');
}
