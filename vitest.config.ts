import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { cleanEnvironment } from './scripts/clean-environment.ts';

// Here and not in scripts/test.ts, so that `npx vitest` is as safe; the workers inherit what is left.
cleanEnvironment(process.env);

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['**/node_modules/**', 'test/long/**'],
    pool: 'forks',
    // Tests start gateways and wait for them: two at a time even on one core.
    maxWorkers: Math.max(2, availableParallelism()),
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 30_000,
    expandSnapshotDiff: true,
  },
});
