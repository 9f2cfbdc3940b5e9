import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { cleanEnvironment } from './scripts/clean-environment.ts';

// Here and not in scripts/test.ts, so that `npx vitest` is as safe; the workers inherit what is left.
cleanEnvironment(process.env);
// Stripped and compiled modules are kept between the workers, and between runs; the directory is the one that Node.js uses by default.
process.env['NODE_COMPILE_CACHE'] ??= join(tmpdir(), 'node-compile-cache');

/** The tests that measure the CPU time of a turn of the event loop (`test/attacks/loop-holds.ts`), or whose faults must come within a time. */
const measured = [
  'test/attacks/account-reads.attack.test.ts',
  'test/attacks/answers.attack.test.ts',
  'test/attacks/bodies.attack.test.ts',
  'test/attacks/bounds.attack.test.ts',
  'test/attacks/fairness.attack.test.ts',
  'test/attacks/hostile.attack.test.ts',
  'test/attacks/large-content.attack.test.ts',
  'test/storage/storage-faults.test.ts',
];

export default defineConfig({
  test: {
    projects: [
      // Units share a process: loading what they test takes longer than they do.
      { extends: true, test: { name: 'unit', include: ['src/**/*.test.ts'], isolate: false } },
      // So do tests of whole gateways: to start a process and load what they all import costs as much as many of them take.
      {
        extends: true,
        test: {
          name: 'whole',
          include: ['test/**/*.test.ts'],
          exclude: [
            '**/node_modules/**',
            'test/long/**',
            'test/browser/**',
            'test/postgres/**',
            'test/contracts/guard-tokenizer.test.ts',
            ...measured,
          ],
          isolate: false,
        },
      },
      // After all others and one after the other: beside other work the same code takes up to a third more CPU time, and fewer faults come in time.
      {
        extends: true,
        test: {
          name: 'measured',
          include: measured,
          exclude: ['**/node_modules/**'],
          isolate: false,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      // It must be the first to load a module.
      { extends: true, test: { name: 'alone', include: ['test/contracts/guard-tokenizer.test.ts'] } },
      {
        extends: true,
        test: {
          name: 'postgres',
          include: ['test/postgres/**/*.test.ts'],
          exclude: ['**/node_modules/**'],
          globalSetup: ['test/postgres/prepare.ts'],
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          exclude: ['**/node_modules/**'],
          globalSetup: ['test/browser/prepare.ts'],
          isolate: false,
        },
      },
    ],
    // Node.js strips the types itself, as it does for the gateway; Vite's own runner takes twice the processor time.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    setupFiles: ['test/setup.ts'],
    pool: 'forks',
    // Tests start gateways and wait for them: more than there are cores.
    maxWorkers: availableParallelism() + 2,
    // A busy machine can need ten times as long as a quiet one.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    teardownTimeout: 30_000,
    // A second, the default, is short on a busy machine.
    expect: { poll: { timeout: 15_000 } },
    expandSnapshotDiff: true,
  },
});
