import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { cleanEnvironment } from './scripts/clean-environment.ts';
import { listPostgresTests } from './test/postgres/suite.ts';

cleanEnvironment(process.env);

const tests = listPostgresTests();
const inBrowser = tests.filter(path => path.startsWith('test/browser/'));
/** Files that start a PostgreSQL of their own. */
const alone = tests.filter(path => path.startsWith('test/postgres/'));
const others = tests.filter(path => !inBrowser.includes(path) && !alone.includes(path));

/** `npm run test:postgres`: every test of a ledger or a gateway, with PostgreSQL as the engine. `test/postgres/suite.ts` lists those that are left out, and why. */
export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'whole', include: others, isolate: false } },
      { extends: true, test: { name: 'alone', include: alone } },
      {
        extends: true,
        test: {
          name: 'browser',
          include: inBrowser,
          globalSetup: ['test/browser/prepare.ts', 'test/postgres/prepare.ts'],
        },
      },
    ],
    globalSetup: ['test/postgres/prepare.ts'],
    env: { TOLLGATE_TEST_ENGINE: 'postgres' },
    experimental: { viteModuleRunner: false, nodeLoader: false },
    setupFiles: ['test/setup.ts'],
    pool: 'forks',
    maxWorkers: availableParallelism(),
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 30_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
