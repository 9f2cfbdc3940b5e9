import { afterAll, beforeAll, expect, test } from 'vitest';
import { findMutant } from '../postgres/mutants.ts';
import { postgresMutants } from '../postgres/mutants-table.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(() => server.stop());

test.each(postgresMutants)('is found: $mistake', async mutant => {
  expect(await findMutant(mutant, server.url)).not.toEqual([]);
});

const files = new Map(postgresMutants.map(mutant => [mutant.test, mutant]));

test.each([...files])('nothing is found in a copy without a mistake: %s', async (_, mutant) => {
  expect(await findMutant({ ...mutant, to: mutant.from }, server.url)).toEqual([]);
});
