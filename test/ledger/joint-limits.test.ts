import { resolve } from 'node:path';
import fc from 'fast-check';
import { test } from 'vitest';
import { jointProperty } from './joint-run.ts';

test('limits that are counted together give the same replies and the same use as limits that are counted separately', async () => {
  await fc.assert(await jointProperty(resolve(import.meta.dirname, '../../src')), { numRuns: 40 });
});
