import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { postgresMutants } from '../postgres/mutants-table.ts';
import { mutants as ruleMutants } from './mutants-table.ts';

const mutants = [...ruleMutants, ...postgresMutants];

test('every mutant still applies: its code is in the source exactly once, and the replacement differs', () => {
  const unfit = mutants.flatMap(({ mistake, file, from, to }) => {
    const source = readFileSync(resolve(import.meta.dirname, '../../src/ledger', file), 'utf8');
    const times = source.split(from).length - 1;
    return times === 1 && from !== to ? [] : [`${mistake}: its code is ${times} times in ${file}`];
  });
  expect(unfit).toEqual([]);
});

test('no two mutants are the same edit, and no two have the same name', () => {
  const edits = new Set(mutants.map(({ file, from, to }) => JSON.stringify([file, from, to])));
  expect(edits.size).toBe(mutants.length);
  expect(new Set(mutants.map(({ mistake }) => mistake)).size).toBe(mutants.length);
});
