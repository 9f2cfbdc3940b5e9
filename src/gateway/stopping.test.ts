import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createStopping, type StoppingParts } from './stopping.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const never = Promise.withResolvers<never>().promise;
const hangs = (): Promise<never> => never;
const nothing = (): void => undefined;

/** Parts of which none ever ends. `graceMs`: 30 s. */
function stuckParts(): StoppingParts {
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
  return parts as unknown as StoppingParts;
}

test('a stop whose parts all hang ends 15 s after the grace and says that not everything is stored', async () => {
  const ends: boolean[] = [];
  const stopping = createStopping(stuckParts());
  void stopping.stop().then(isStored => ends.push(isStored));
  await vi.advanceTimersByTimeAsync(44_999);
  expect(ends).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ends).toEqual([false]);
});

test('a second signal ends the grace of a stop', async () => {
  const ends: boolean[] = [];
  const stopping = createStopping(stuckParts());
  void stopping.stop().then(isStored => ends.push(isStored));
  await vi.advanceTimersByTimeAsync(1_000);
  stopping.hurry();
  await vi.advanceTimersByTimeAsync(15_000);
  expect(ends).toEqual([false]);
});
