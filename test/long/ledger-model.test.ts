import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runTrace } from '../ledger/run.ts';
import { subjects } from '../ledger/subjects.ts';
import { traces } from '../ledger/trace.ts';

test.each(Object.entries(subjects))(
  '200,000 steps of the %s: it answers and stores what the plain model does',
  async (_, openSubject) => {
    const open = await openSubject(resolve(import.meta.dirname, '../../src'));
    let steps = 0;
    while (steps < 200_000) {
      await fc.assert(
        fc.asyncProperty(traces(120), async trace => {
          steps += await runTrace(open, trace);
        }),
        { numRuns: 500 },
      );
    }
    expect(steps).toBeGreaterThanOrEqual(200_000);
  },
);
