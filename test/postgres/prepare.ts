import type { TestProject } from 'vitest/node';
import { startPostgres } from './server.ts';

/** Starts one PostgreSQL for all tests of a run, or takes the one that `TOLLGATE_TEST_DATABASE_URL` names. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env['TOLLGATE_TEST_DATABASE_URL'];
  if (given !== undefined && given !== '') {
    project.provide('postgresUrl', given);
    return undefined;
  }
  const server = await startPostgres();
  project.provide('postgresUrl', server.url);
  return () => server.stop();
}
