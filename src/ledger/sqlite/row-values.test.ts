import { expect, test } from 'vitest';
import type { TableSpec } from './columns.ts';
import { holdTable, usageTable } from './tables.ts';

/** Returns the values that a table lists for a row whose values are the names of its properties. */
function listNames<R>({ columns, listValues }: TableSpec<R>): unknown[] | undefined {
  const row = Object.fromEntries(Object.keys(columns).map(property => [property, property]));
  return listValues?.(row as R);
}

test('listed values are in the order of the columns', () => {
  expect(listNames(holdTable)).toEqual(Object.keys(holdTable.columns));
  expect(listNames(usageTable)).toEqual(Object.keys(usageTable.columns));
});
