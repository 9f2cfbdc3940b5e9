import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createStopping, type StoppingOptions } from './stopping.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const never = Promise.withResolvers<never>().promise;
const hangs = (): Promise<never> => never;
const nothing = (): void => undefined;

/** Returns parts whose calls never resolve. `graceMs` is 30 s. */
function stuckParts(): StoppingOptions {
  const parts = {
    edge: { close: hangs },
    rpc: { drain: nothing, close: hangs },
    ledger: { close: hangs },
    documents: { close: hangs },
    files: { close: hangs },
    deliveries: { stop: nothing },
    stopRetention: nothing,
    services: [{ drain: hangs, idle: hangs, interruptAll: nothing }],
    responses: { idle: hangs },
    batches: { close: hangs },
    graceMs: 30_000,
    unready: () => undefined,
  };
  return parts as unknown as StoppingOptions;
}

test('if all parts hang, a stop ends 15 s after the grace period and returns that not everything is stored', async () => {
  const ends: boolean[] = [];
  const stopping = createStopping(stuckParts());
  void stopping.stop().then(isStored => ends.push(isStored));
  await vi.advanceTimersByTimeAsync(44_999);
  expect(ends).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ends).toEqual([false]);
});

test('a second signal ends the grace period of a stop', async () => {
  const ends: boolean[] = [];
  const stopping = createStopping(stuckParts());
  void stopping.stop().then(isStored => ends.push(isStored));
  await vi.advanceTimersByTimeAsync(1_000);
  stopping.hurry();
  await vi.advanceTimersByTimeAsync(15_000);
  expect(ends).toEqual([false]);
});
