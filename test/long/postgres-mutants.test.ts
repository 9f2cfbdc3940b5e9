import { afterAll, beforeAll, expect, test } from 'vitest';
import { findMutant } from '../postgres/mutants.ts';
import { postgresMutants } from '../postgres/mutants-table.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(() => server.stop());

test.each(postgresMutants.map((mutant, index) => ({ ...mutant, index })))('found: $mistake', async ({ index }) => {
  expect(await findMutant(index, server.url)).not.toEqual([]);
});
