/**
 * Makes a copy of the engine with each mutant of `mutants-table.ts` and runs the mutant's test file on it: `node test/postgres/mutants.ts [NUMBER]`. Prints which tests found
 * each; exits with 1 if no test finds one. As a library: `findMutant`.
 */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { plant } from '../ledger/mutants.ts';
import type { Mutant } from '../ledger/mutants-table.ts';
import { type PostgresMutant, postgresMutants } from './mutants-table.ts';
import { startPostgres } from './server.ts';

const root = resolve(import.meta.dirname, '../..');
const config = `export default { test: { include: ['test/{ledger,postgres}/*.test.ts'], globalSetup: ['test/postgres/prepare.ts'], pool: 'forks', testTimeout: 30_000, expect: { poll: { timeout: 10_000 } } } };\n`;

/** How long a run may take to end after its report. */
const endMs = 15_000;

interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly title: string }[];
  }[];
}

/** Returns the titles of the tests that find a mutant; [] if none does. Throws if the tests could not run. */
export function findMutant(mutant: PostgresMutant, serverUrl: string): Promise<string[]> {
  return findByTests(mutant, postgresMutants.indexOf(mutant), `postgres/${mutant.test}`, serverUrl);
}

/** Returns which tests of a file (`ledger/NAME` or `postgres/NAME`) fail with a mutant, on PostgreSQL. Throws if they could not run. */
export async function findByTests(mutant: Mutant, index: number, file: string, serverUrl: string): Promise<string[]> {
  const { src, remove } = plant(mutant, index);
  try {
    const folder = resolve(src, '..');
    // PostgreSQL runs as another user if this one is root.
    chmodSync(folder, 0o755);
    for (const part of ['ledger', 'postgres']) {
      mkdirSync(join(folder, 'test', part), { recursive: true });
      const files = readdirSync(join(root, 'test', part)).filter(name => name.endsWith('.ts'));
      for (const name of files) cpSync(join(root, 'test', part, name), join(folder, 'test', part, name));
    }
    symlinkSync(join(root, 'test/postgres/node_modules'), join(folder, 'test/postgres/node_modules'));
    writeFileSync(join(folder, 'vitest.config.mjs'), config);
    return await listFailures(folder, file, serverUrl);
  } finally {
    remove();
  }
}

async function listFailures(folder: string, file: string, serverUrl: string): Promise<string[]> {
  const to = join(folder, 'report.json');
  const options = ['run', '--root', folder, '--reporter', 'json', '--outputFile', to, `test/${file}`];
  const run = spawn(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), ...options], {
    cwd: folder,
    env: { ...process.env, TOLLGATE_TEST_DATABASE_URL: serverUrl, TOLLGATE_TEST_ENGINE: 'postgres' },
    stdio: 'ignore',
  });
  // A test that fails may leave open what keeps its process from ending.
  const look = setInterval(() => {
    if (!existsSync(to)) return;
    clearInterval(look);
    setTimeout(() => run.kill('SIGKILL'), endMs).unref();
  }, 1000);
  await once(run, 'exit');
  clearInterval(look);
  if (!existsSync(to)) throw new Error(`${file} could not run`);
  const report = JSON.parse(readFileSync(to, 'utf8')) as Report;
  if (report.numPassedTests === 0) throw new Error(`${file} could not run`);
  const results = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  return results.filter(({ status }) => status === 'failed').map(({ title }) => title);
}

if (import.meta.main) {
  const only = process.argv[2];
  const server = await startPostgres();
  for (const [index, mutant] of postgresMutants.entries()) {
    if (only !== undefined && only !== String(index)) continue;
    const found = await findMutant(mutant, server.url);
    console.log(`${found.length === 0 ? 'SURVIVES' : 'found'}: ${index} ${mutant.mistake}`);
    for (const title of found) console.log(`  by: ${title}`);
    if (found.length === 0) process.exitCode = 1;
  }
  await server.stop();
}
