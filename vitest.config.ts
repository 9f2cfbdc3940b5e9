import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { cleanEnvironment } from './scripts/clean-environment.ts';

// Here and not in scripts/test.ts, so that `npx vitest` is as safe; the workers inherit what is left.
cleanEnvironment(process.env);

export default defineConfig({
  test: {
    projects: [
      // Units share a process: loading what they test takes longer than they do.
      { extends: true, test: { name: 'unit', include: ['src/**/*.test.ts'], isolate: false } },
      {
        extends: true,
        test: {
          name: 'whole',
          include: ['test/**/*.test.ts'],
          exclude: ['**/node_modules/**', 'test/long/**', 'test/browser/**'],
        },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          exclude: ['**/node_modules/**'],
          globalSetup: ['test/browser/prepare.ts'],
        },
      },
    ],
    pool: 'forks',
    // Tests start gateways and wait for them: more than there are cores.
    maxWorkers: availableParallelism() + 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 30_000,
    // A second, the default, is short on a busy machine.
    expect: { poll: { timeout: 15_000 } },
    expandSnapshotDiff: true,
  },
});
