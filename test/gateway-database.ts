/** The databases of the tests' gateways, while the suite runs on PostgreSQL: each has one for itself. */

import type { Sendable } from '../src/lib/postgres/values.ts';

/** Whether the suite runs on PostgreSQL: `npm run test:postgres`. Then the data directory has neither ledger nor content. */
export const isOnPostgres = process.env['TOLLGATE_TEST_ENGINE'] === 'postgres';

/** The gateway by its folder. */
interface GatewayFolder {
  readonly folder: string;
}

type Rows = readonly Readonly<Record<string, unknown>>[];

/** URLs by the gateways' folders. */
const urls = new Map<string, string>();

/**
 * While the suite runs on PostgreSQL, makes the database of a gateway that has none yet, which `gatewayEnvironment` then names. `startGateway` does it; a test that starts a gateway's process by itself
 * calls it first.
 */
export async function prepareDatabase({ folder }: GatewayFolder): Promise<void> {
  if (!isOnPostgres || urls.has(folder)) return;
  // Vitest's own, which programs that are run by hand don't have.
  const { createLedgerDatabase } = await import('./postgres/ledger-database.ts');
  urls.set(folder, await createLedgerDatabase());
}

/** Returns the variable that names a gateway's database; none if the suite runs on SQLite. */
export function databaseVariable({ folder }: GatewayFolder): Record<string, string> {
  const url = urls.get(folder);
  return url === undefined ? {} : { TOLLGATE_DATABASE_URL: url };
}

/** Runs a statement in the database of a gateway. Returns its rows; undefined if the suite runs on SQLite. */
export async function queryDatabase(
  { folder }: GatewayFolder,
  text: string,
  values: readonly Sendable[] = [],
): Promise<Rows | undefined> {
  const url = urls.get(folder);
  if (url === undefined) return undefined;
  const { PostgresConnection } = await import('../src/lib/postgres/connection.ts');
  const connection = await PostgresConnection.open({ url });
  try {
    return await connection.query(text, values);
  } finally {
    await connection.end();
  }
}

/** Returns the violated invariants of a gateway's database; undefined if it has none. */
export async function verifyOwnDatabase({ folder }: GatewayFolder): Promise<string[] | undefined> {
  const url = urls.get(folder);
  if (url === undefined) return undefined;
  const { verifyDatabase } = await import('../src/ledger/postgres/verify.ts');
  return verifyDatabase(url);
}

/** Ends the leases of a killed gateway, so that no test waits for them. */
export async function endLeases(gateway: GatewayFolder): Promise<void> {
  await queryDatabase(gateway, 'UPDATE instance SET lease_until_ms = 0');
}

/** Drops the database of a gateway that has ended for good. */
export async function dropDatabase({ folder }: GatewayFolder): Promise<void> {
  const url = urls.get(folder);
  if (url === undefined) return;
  urls.delete(folder);
  const { dropDatabase: drop } = await import('./postgres/ledger-database.ts');
  await drop(url);
}

/** Folders of gateways whose databases have a moved clock. */
const moved = new Set<string>();

/**
 * Gives the database of a gateway the clock of a `FakeClock`, whose file has its offset in milliseconds; absent: the server's own. Only the database's clock counts, and statements read it with
 * `clock_timestamp()` only: a function of that name is found before PostgreSQL's.
 */
export async function moveDatabaseClock(gateway: GatewayFolder, file: string | undefined): Promise<void> {
  if (!urls.has(gateway.folder) || (file === undefined && !moved.has(gateway.folder))) return;
  moved.add(gateway.folder);
  const offsetMs = file === undefined ? '0' : `pg_read_file('${file}')`;
  await queryDatabase(
    gateway,
    `CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS
      $$ SELECT pg_catalog.clock_timestamp() + ${offsetMs}::double precision * interval '1 millisecond' $$`,
  );
  // Leases must not expire while a test moves the clock by days. The end of a process still ends its lease.
  await queryDatabase(
    gateway,
    `CREATE OR REPLACE FUNCTION public.keep_lease() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN NEW.lease_until_ms = 9007199254740991; RETURN NEW; END $$`,
  );
  await queryDatabase(
    gateway,
    `CREATE OR REPLACE TRIGGER keep_lease BEFORE INSERT OR UPDATE ON instance
      FOR EACH ROW WHEN (NEW.lease_until_ms > 0) EXECUTE FUNCTION public.keep_lease()`,
  );
  const [database] = (await queryDatabase(gateway, 'SELECT current_database()::text AS name')) ?? [];
  await queryDatabase(gateway, `ALTER DATABASE ${String(database?.['name'])} SET search_path = public, pg_catalog`);
}
