import type { Runtime } from './runtime.ts';

/** How long a caller waits for its turn. */
export interface TurnLimits {
  readonly runtime: Pick<Runtime, 'after'>;
  /** In ms. */
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

/**
 * Waits for a turn. `enter` adds the caller to those that wait; it gets the function that gives the caller its turn, and returns one that removes the caller, or returns false if it has had its turn. Returns undefined if the wait was too long. Rejects with the signal's reason if it is aborted before.
 */
export async function waitForTurn<Turn>(
  { runtime, waitMs, signal }: TurnLimits,
  enter: (grant: (turn: Turn | undefined) => void) => () => boolean,
): Promise<Turn | undefined> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Turn | undefined>();
  const leave = enter(resolve);
  const timer = runtime.after(waitMs, () => {
    if (leave()) resolve(undefined);
  });
  const onAbort = (): void => {
    if (leave()) reject(signal.reason);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await promise;
  } finally {
    timer.cancel();
    signal.removeEventListener('abort', onAbort);
  }
}
