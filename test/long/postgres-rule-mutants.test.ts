import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeTemplate } from '../postgres/ledger-template.ts';
import { findOnPostgres, ruleMutants } from '../postgres/rule-mutants.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;
let template: string;

beforeAll(async () => {
  // Nothing crashes here, so commits need not be synced at once.
  server = await startPostgres({ synchronous_commit: 'off', autovacuum: 'off' });
  template = await makeTemplate(server.url);
});

afterAll(() => server.stop());

test('there are at least 25 mutants of what the engine in PostgreSQL runs', () => {
  expect(ruleMutants.length).toBeGreaterThanOrEqual(25);
});

test.each(ruleMutants)('found on PostgreSQL: $mistake', async mutant => {
  expect(await findOnPostgres(mutant, server.url, template)).toBeDefined();
});
