import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runTrace } from '../ledger/run.ts';
import { traces } from '../ledger/trace.ts';
import { createLedgerDatabase } from './ledger-database.ts';
import { openPostgresSubject } from './ledger-subject.ts';

test('two gateways on PostgreSQL answer and store what the plain model does, whatever is asked, when, and in which batches', async () => {
  const { open, close } = await openPostgresSubject(
    resolve(import.meta.dirname, '../../src'),
    await createLedgerDatabase(),
  );
  let steps = 0;
  await fc.assert(
    fc.asyncProperty(traces(60), async trace => {
      steps += await runTrace(open, trace);
    }),
    { numRuns: 100, seed: Number(process.env['SEED'] ?? Date.now()) },
  );
  await close();
  expect(steps).toBeGreaterThan(3000);
});
