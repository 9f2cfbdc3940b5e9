import { resolve } from 'node:path';
import fc from 'fast-check';
import { test } from 'vitest';
import { jointProperty } from './joint-run.ts';

test('limits that are counted together decide and show the same as each counted by itself', async () => {
  await fc.assert(await jointProperty(resolve(import.meta.dirname, '../../src')), { numRuns: 40 });
});
