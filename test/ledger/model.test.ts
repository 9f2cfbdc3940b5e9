import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { engineModules, runTrace } from './run.ts';
import { traces } from './trace.ts';

test('the engine answers and stores what the plain model does, whatever is asked, when, and in which batches', async () => {
  const modules = await engineModules(resolve(import.meta.dirname, '../../src'));
  let steps = 0;
  fc.assert(
    fc.property(traces(60), trace => {
      steps += runTrace(modules, trace);
    }),
    { numRuns: 250 },
  );
  expect(steps).toBeGreaterThan(3000);
});
