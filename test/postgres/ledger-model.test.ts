import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { noUsage } from '../ledger/fixture.ts';
import { runTrace } from '../ledger/run.ts';
import { type Action, type Trace, traces } from '../ledger/trace.ts';
import { createLedgerDatabase } from './ledger-database.ts';
import { openPostgresSubject } from './ledger-subject.ts';

/** How long new traces are started, in ms, and the most traces. */
const beginMs = 8000;
const tracesMax = 300;

/** One account's requests at 12:00 and, after the clock was set back, a millisecond before. `id: 0` and `request: 1` stand for the same id, which is then admitted again until a given time. */
const readmitted: Trace = {
  start: '2026-05-10T12:00:00.000Z',
  chain: undefined,
  unit: 'dollars',
  freeBefore: 0,
  plans: [undefined, undefined],
  flags: Array.from({ length: 4 }, () => ({ useSubsFirst: false, fallbackToPayg: true })),
  steps: [
    { move: 0, action: admitOnce({ id: 0 }), flush: false },
    { move: 0, action: admitOnce({ id: 'new' }), flush: true },
    { move: -1, action: { kind: 'void', request: 1, reason: 'rejected' }, flush: false },
    { move: 0, action: admitOnce({ id: 1, ttlMs: 1 }), flush: true },
    {
      move: 0,
      action: { kind: 'settle', request: 0, usage: noUsage, multiplier: 500, state: 'completed' },
      flush: false,
    },
    { move: 0, action: { kind: 'update', key: 0, settings: { minuteLimit: 3 } }, flush: false },
  ],
};

function admitOnce(how: { readonly id: number | 'new'; readonly ttlMs?: number }): Extract<Action, { kind: 'admit' }> {
  return { kind: 'admit', key: 0, model: 'acme/large', funds: undefined, ...how };
}

test('a request that is voided, and admitted again until a given time in the same batch, is settled as it was admitted the second time', async () => {
  const src = resolve(import.meta.dirname, '../../src');
  const { open, close } = await openPostgresSubject(src, await createLedgerDatabase());
  expect(await runTrace(open, readmitted)).toBeGreaterThan(readmitted.steps.length);
  await close();
});

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
