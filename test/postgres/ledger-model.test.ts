import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runTrace } from '../ledger/run.ts';
import { traces } from '../ledger/trace.ts';
import { createLedgerDatabase } from './ledger-database.ts';
import { openPostgresSubject } from './ledger-subject.ts';

/** How long new traces are started, in ms, and the most traces. */
const beginMs = 8000;
const tracesMax = 300;

test('two gateways on PostgreSQL return and store the same as the reference model, for any commands at any times in any batches', async () => {
  const src = resolve(import.meta.dirname, '../../src');
  const { open, close } = await openPostgresSubject(src, await createLedgerDatabase());
  const counts = { steps: 0, traces: 0 };
  const property = fc.asyncProperty(traces(60), async trace => {
    const steps = await runTrace(open, trace);
    counts.steps += steps;
    counts.traces += 1;
  });
  const untilMs = performance.now() + beginMs;
  // A failing trace is shortened for a while, and reported before the timeout of the test.
  while (counts.traces < tracesMax && performance.now() < untilMs) {
    await fc.assert(property, { numRuns: 5, interruptAfterTimeLimit: 30_000, markInterruptAsFailure: true });
  }
  await close();
  expect(counts.steps).toBeGreaterThan(100);
});
