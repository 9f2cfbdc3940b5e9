import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { errorsDoc, errorsDocPath } from '../scripts/errors-doc.ts';
import { errorTable } from '../src/errors/error-table.ts';

test('docs/errors.md equals the output of the error table', () => {
  expect(readFileSync(errorsDocPath, 'utf8'), 'run: node scripts/errors-doc.ts').toBe(errorsDoc());
});

test('every code has one row', () => {
  const codes = [...readFileSync(errorsDocPath, 'utf8').matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code);
  expect(codes).toEqual(Object.keys(errorTable));
});
