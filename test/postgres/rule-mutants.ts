/**
 * Plants the mutants of `../ledger/mutants-table.ts` in copies of the engine in PostgreSQL: `node test/postgres/rule-mutants.ts [NUMBER ...]`. Prints what found each; exits 1 if one survives.
 * Random traces take too long there, so a trace that finds the mutant is searched on the rules in memory, where it takes seconds, and then runs on PostgreSQL with the mutant and without it.
 */
import { resolve } from 'node:path';
import type { Mutant } from '../ledger/mutants-table.ts';
import { mutants } from '../ledger/mutants-table.ts';
import { findTrace, plant } from '../ledger/mutants.ts';
import { runTrace } from '../ledger/run.ts';
import type { Trace } from '../ledger/trace.ts';
import { openPostgresSubject } from './ledger-subject.ts';
import { makeTemplate } from './ledger-template.ts';
import { findByTests } from './mutants.ts';
import { createDatabase, readDatabaseName, startPostgres } from './server.ts';

const own = resolve(import.meta.dirname, '../../src');
/** How many traces that find it in memory a mutant may survive on PostgreSQL, where two gateways share the commands. */
const traceMax = 10;

/** A mutant and its number in the table. */
export type NumberedMutant = Mutant & { readonly index: number };

/** The mutants of code that the engine in PostgreSQL runs: it counts no limits together, and of SQLite's files it uses one. */
export const ruleMutants: readonly NumberedMutant[] = mutants
  .map((mutant, index) => ({ ...mutant, index }))
  .filter(
    ({ file, isJoint }) =>
      isJoint !== true &&
      file !== 'rules/joint-limits.ts' &&
      (!file.startsWith('sqlite/') || file === 'sqlite/tallies.ts'),
  );

/** Returns what finds a mutant on PostgreSQL: the failed tests, or the difference from the reference model. Undefined: it survives. */
export async function findOnPostgres(
  mutant: NumberedMutant,
  server: string,
  template: string,
): Promise<string | undefined> {
  if (mutant.test !== undefined) {
    const titles = await findByTests(mutant, mutant.index, `ledger/${mutant.test}`, server);
    return titles.length === 0 ? undefined : titles.join('; ');
  }
  const planted = plant(mutant, mutant.index);
  try {
    for (let seed = 1; seed <= traceMax; seed += 1) {
      const found = await findTrace(mutant, planted.src, seed);
      if (found === undefined) return undefined;
      const difference = await runOnPostgres(planted.src, found.trace, server, template);
      if (difference === undefined) continue;
      const wrong = await runOnPostgres(own, found.trace, server, template);
      if (wrong !== undefined) throw new Error(`without the mutant, too: ${wrong}`);
      return `${difference} (trace ${found.runs} of seed ${seed})`;
    }
    return undefined;
  } finally {
    planted.remove();
  }
}

/** Runs a trace on two gateways of the modules in `src`. Returns how they differ from the reference model; undefined: they don't. */
async function runOnPostgres(src: string, trace: Trace, server: string, template: string): Promise<string | undefined> {
  const { open, close } = await openPostgresSubject(src, await createDatabase(server, readDatabaseName(template)));
  try {
    await runTrace(open, trace);
    return undefined;
  } catch (error) {
    return String(error).split('\n', 1)[0];
  } finally {
    await close();
  }
}

if (import.meta.main) {
  const only = process.argv.slice(2).map(Number);
  const server = await startPostgres({ synchronous_commit: 'off', autovacuum: 'off' });
  try {
    const template = await makeTemplate(server.url);
    for (const mutant of ruleMutants) {
      if (only.length > 0 && !only.includes(mutant.index)) continue;
      const found = await findOnPostgres(mutant, server.url, template);
      console.log(`${found === undefined ? 'SURVIVES' : 'found'}: ${mutant.index} ${mutant.mistake}`);
      if (found === undefined) process.exitCode = 1;
      else console.log(`  by: ${found}`);
    }
  } finally {
    await server.stop();
  }
}
