import { resolve } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readMigrations } from '../../src/lib/sqlite/migrations.ts';
import { migratePostgres } from '../../src/lib/postgres/migrations.ts';
import { runTrace } from '../ledger/run.ts';
import { type OpenSubject, subjects } from '../ledger/subjects.ts';
import { traces } from '../ledger/trace.ts';
import { openPostgresSubject } from '../postgres/ledger-subject.ts';
import { createDatabase, hasPostgres, type PostgresServer, startPostgres } from '../postgres/server.ts';

const src = resolve(import.meta.dirname, '../../src');
const stepsMin = 200_000;
let server: PostgresServer | undefined;

beforeAll(async () => {
  if (hasPostgres) server = await startPostgres();
});

afterAll(() => server?.stop());

async function runSteps(open: OpenSubject): Promise<number> {
  let steps = 0;
  const property = fc.asyncProperty(traces(120), async trace => {
    const done = await runTrace(open, trace);
    steps += done;
  });
  while (steps < stepsMin) await fc.assert(property, { numRuns: 500 });
  return steps;
}

test.each(Object.entries(subjects))(
  '200,000 steps of the %s: it answers and stores what the plain model does',
  async (_, openSubject) => {
    expect(await runSteps(await openSubject(src))).toBeGreaterThanOrEqual(stepsMin);
  },
);

test.runIf(hasPostgres)(
  '200,000 steps of two gateways on PostgreSQL: they answer and store what the plain model does',
  async () => {
    const url = await createDatabase(server?.url ?? '');
    const migrations = readMigrations(new URL('../../src/ledger/postgres/migrations/', import.meta.url));
    await migratePostgres({ url }, { part: 'ledger', migrations });
    const { open, close } = await openPostgresSubject(src, url);
    expect(await runSteps(open)).toBeGreaterThanOrEqual(stepsMin);
    await close();
  },
);
