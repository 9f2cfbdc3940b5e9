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
/** The least number of steps; the environment variable `STEPS` changes it. */
const stepsMin = Number(process.env['STEPS'] ?? 200_000);
/** How many databases are used at the same time, each for one trace after another. A trace mostly waits for its database, so that several cost little more time than one. */
const databases = 4;
/** The seed of the first traces, which the environment variable `SEED` sets; later traces have the next seeds. A failure names the seed of its trace. */
const firstSeed = Number(process.env['SEED'] ?? Date.now() % 1_000_000_000);
let server: PostgresServer | undefined;

beforeAll(async () => {
  // Nothing crashes here, so commits do not have to be synced at once.
  if (hasPostgres) server = await startPostgres({ synchronous_commit: 'off', autovacuum_naptime: '5s' });
});

afterAll(() => server?.stop());

/** Runs traces on each of the ledgers at the same time until they have executed `stepsMin` steps in all. Returns the number of steps. */
async function runSteps(openers: readonly OpenSubject[]): Promise<number> {
  let steps = 0;
  let seed = firstSeed;
  const startedAtMs = performance.now();
  const runTraces = async (open: OpenSubject): Promise<void> => {
    const property = fc.asyncProperty(traces(120), async trace => {
      const done = await runTrace(open, trace);
      steps += done;
    });
    while (steps < stepsMin) await fc.assert(property, { numRuns: 25, seed: seed++ });
  };
  try {
    await Promise.all(openers.map(runTraces));
  } finally {
    const perSecond = Math.round((steps * 1000) / (performance.now() - startedAtMs));
    console.log(`${steps} steps, ${perSecond} a second, seeds ${firstSeed} to ${seed - 1}`);
  }
  return steps;
}

test.each(Object.entries(subjects))(
  `${stepsMin} steps of the %s: it returns and stores what the reference model does`,
  async (_, openSubject) => {
    expect(await runSteps([await openSubject(src)])).toBeGreaterThanOrEqual(stepsMin);
  },
);

/** Opens a new database, on which the commands of a trace alternate between two gateways. */
async function openDatabase(): Promise<Awaited<ReturnType<typeof openPostgresSubject>>> {
  const url = await createDatabase(server?.url ?? '');
  const migrations = readMigrations(new URL('../../src/ledger/postgres/migrations/', import.meta.url));
  await migratePostgres({ url }, { part: 'ledger', migrations });
  return openPostgresSubject(src, url);
}

test.runIf(hasPostgres)(
  `${stepsMin} steps of two gateways on PostgreSQL: they return and store what the reference model does`,
  async () => {
    const opened = await Promise.all(Array.from({ length: databases }, openDatabase));
    expect(await runSteps(opened.map(({ open }) => open))).toBeGreaterThanOrEqual(stepsMin);
    await Promise.all(opened.map(({ close }) => close()));
  },
);
