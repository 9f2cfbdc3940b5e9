import type { TestProject } from 'vitest/node';
import { makeTemplate } from './ledger-template.ts';
import { startPostgres } from './server.ts';

/** Starts one PostgreSQL for all tests of a run, or uses the one in `TOLLGATE_TEST_DATABASE_URL`, and makes the database that the tests copy. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env['TOLLGATE_TEST_DATABASE_URL'];
  const server = given === undefined || given === '' ? await startPostgres() : undefined;
  const url = server?.url ?? given ?? '';
  project.provide('postgresUrl', url);
  project.provide('ledgerTemplate', await makeTemplate(url));
  return server && (() => server.stop());
}
