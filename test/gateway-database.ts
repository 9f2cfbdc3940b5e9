/** The databases of the tests' gateways, if the suite runs on PostgreSQL: one for each gateway. */

import type { Sendable } from '../src/lib/postgres/values.ts';

/** Whether the suite runs on PostgreSQL (`npm run test:postgres`). If so, data directories have neither ledger nor content. */
export const isOnPostgres = process.env['TOLLGATE_TEST_ENGINE'] === 'postgres';

/** Identifies a gateway by its folder. */
interface GatewayFolder {
  readonly folder: string;
}

type Rows = readonly Readonly<Record<string, unknown>>[];

/** URLs of databases, by the folder of the gateway. */
const urls = new Map<string, string>();

/**
 * If the suite runs on PostgreSQL, makes a database for a gateway that has none yet; its URL is then in the gateway's environment (`gatewayEnvironment`). `startGateway` calls it; a test that starts a
 * gateway's process itself calls it first.
 */
export async function prepareDatabase({ folder }: GatewayFolder): Promise<void> {
  if (!isOnPostgres || urls.has(folder)) return;
  // Imported lazily: it needs Vitest, which programs that are run by hand don't have.
  const { createLedgerDatabase } = await import('./postgres/ledger-database.ts');
  urls.set(folder, await createLedgerDatabase());
}

/** Returns the environment variable with the URL of a gateway's database; {} if the suite runs on SQLite. */
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

/** Returns the violated invariants of a gateway's database; undefined if the suite runs on SQLite. */
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
 * Shifts the clock of a gateway's database by the offset in `file`, in milliseconds (a `FakeClock` writes it); without `file`, back to the server's time. It shadows `clock_timestamp()`, the only
 * function with which statements read the time.
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
  // Leases must not expire while a test moves the clock by days; a process that stops still ends its own.
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
