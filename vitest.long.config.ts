import { defineConfig } from 'vitest/config';
import { cleanEnvironment } from './scripts/clean-environment.ts';

cleanEnvironment(process.env);

/** Load, crash and soak tests (`npm run test:long`): minutes each, one at a time, because they measure. */
export default defineConfig({
  test: {
    include: ['test/long/**/*.test.ts'],
    setupFiles: ['test/setup.ts'],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 3_600_000,
    hookTimeout: 600_000,
    passWithNoTests: true,
  },
});
