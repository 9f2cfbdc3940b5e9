import { resolve } from 'node:path';
import fc from 'fast-check';
import { test } from 'vitest';
import { jointProperty } from './joint-run.ts';

test('limits that are counted together answer and show what each does by itself', async () => {
  await fc.assert(await jointProperty(resolve(import.meta.dirname, '../../src')), { numRuns: 40 });
});
