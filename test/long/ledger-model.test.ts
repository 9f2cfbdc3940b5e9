import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { engineModules, runTrace } from '../ledger/run.ts';
import { traces } from '../ledger/trace.ts';

test('200,000 steps: the engine answers and stores what the plain model does', async () => {
  const modules = await engineModules(resolve(import.meta.dirname, '../../src'));
  let steps = 0;
  while (steps < 200_000) {
    fc.assert(
      fc.property(traces(120), trace => {
        steps += runTrace(modules, trace);
      }),
      { numRuns: 500 },
    );
  }
  expect(steps).toBeGreaterThanOrEqual(200_000);
});
