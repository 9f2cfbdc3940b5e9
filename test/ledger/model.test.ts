import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runTrace } from './run.ts';
import { subjects } from './subjects.ts';
import { traces } from './trace.ts';

test.each(Object.entries(subjects))(
  'the %s returns and stores the same as the reference model, for any commands at any times in any batches',
  async (_, openSubject) => {
    const open = await openSubject(resolve(import.meta.dirname, '../../src'));
    let steps = 0;
    await fc.assert(
      fc.asyncProperty(traces(60), async trace => {
        steps += await runTrace(open, trace);
      }),
      { numRuns: 120 },
    );
    expect(steps).toBeGreaterThan(3000);
  },
  // This test takes a minute if three other files run on two cores.
  180_000,
);
