import { defineConfig } from 'vitest/config';
import { cleanEnvironment } from './scripts/clean-environment.ts';

cleanEnvironment(process.env);

/** `npm run test:postgres`: the tests of the ledger and of whole gateways with PostgreSQL as the ledger's engine. Files that are about the SQLite file itself are left out. */
export default defineConfig({
  test: {
    include: ['test/ledger/**/*.test.ts', 'test/postgres/**/*.test.ts', 'test/e2e/**/*.test.ts'],
    exclude: [
      '**/node_modules/**',
      'test/ledger/engine-faults.test.ts',
      'test/ledger/faults.test.ts',
      'test/ledger/kill.test.ts',
      'test/ledger/migration.test.ts',
      'test/ledger/power-cut.test.ts',
      'test/ledger/start.test.ts',
      'test/ledger/reader.test.ts',
      'test/ledger/suspensions.test.ts',
      // Asks for the sizes of the files.
      'test/e2e/metrics.e2e.test.ts',
      'test/ledger/tampered.e2e.test.ts',
    ],
    globalSetup: ['test/postgres/prepare.ts'],
    env: { TOLLGATE_TEST_ENGINE: 'postgres' },
    setupFiles: ['test/setup.ts'],
    pool: 'forks',
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 30_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
