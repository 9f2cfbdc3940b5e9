import { expect, test } from 'vitest';
import { kill } from '../ledger/mutants.ts';
import { mutants } from '../ledger/mutants-table.ts';

test('there are at least 25 mutants', () => {
  expect(mutants.length).toBeGreaterThanOrEqual(25);
});

test.each(mutants.map((mutant, index) => ({ ...mutant, index })))('is found: $mistake', async mutant => {
  expect(await kill(mutant, mutant.index)).toBeGreaterThan(0);
});
