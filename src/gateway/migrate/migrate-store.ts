import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { serverSecrets } from '../../core/secret-files.ts';
import { parseExtension } from '../../generation/images/image-type.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { acquireNodeLock } from '../../ledger/sqlite/node-lock.ts';
import { ledgerPath } from '../../ledger/sqlite/verify.ts';
import { systemClock } from '../../lib/clock.ts';
import { PostgresConnection } from '../../lib/postgres/connection.ts';
import { PostgresPool } from '../../lib/postgres/pool.ts';
import { type Connection, openForReading } from '../../lib/sqlite/database.ts';
import { openDiskBulkFiles } from '../../store/disk/disk-bulk-files.ts';
import { migrateStores, type StoreDatabase } from '../../store/postgres/database.ts';
import { openPostgresBulkFiles } from '../../store/postgres/postgres-bulk-files.ts';
import { documentsPath } from '../../store/sqlite/documents/sqlite-documents.ts';
import { type CopiedTable, TableCopy } from './copied-table.ts';
import { documentTables, ledgerTables } from './copied-tables.ts';

/** Moves the SQLite data of a stopped gateway to PostgreSQL. */

/** Says why nothing is moved, in words for the operator. */
export class MigrationRefused extends Error {
  override readonly name = 'MigrationRefused';
}

/** The source and target of a migration. */
export interface MigrationOptions {
  /** The data directory of a gateway that is stopped. */
  readonly dataDir: string;
  /** The URL of the database: `postgres://…`. */
  readonly url: string;
  /** Opens the SQLite stores and closes them again, so that nothing is left to be recovered or upgraded. Throws `LedgerStartError`. */
  readonly settle: () => Promise<void>;
  /** Migrates the tables of the ledger in PostgreSQL, and opens the ledger. */
  readonly openTarget: () => Promise<Pick<Ledger, 'verify' | 'close'>>;
  /** Called for each table that is copied. */
  readonly progress: (table: string, rows: number) => void;
}

/** How many rows were moved. `already`: an earlier run had moved everything. */
export interface Migrated {
  readonly already: boolean;
  readonly rows: number;
}

const stateText = `CREATE TABLE IF NOT EXISTS store_migration (part text PRIMARY KEY, source text NOT NULL, rows bigint NOT NULL)`;
const whole = 'all of it';

/** Moves everything that an earlier run has not moved yet. Throws `MigrationRefused`, and `LedgerStartError` if a gateway runs. */
export async function migrateStore(options: MigrationOptions): Promise<Migrated> {
  const { dataDir, url } = options;
  if (!existsSync(ledgerPath(dataDir))) throw new MigrationRefused(`There is no ledger in ${dataDir}.`);
  const source = createHash('sha256').update(serverSecrets(dataDir).join('\n')).digest('hex');
  await (await options.openTarget()).close();
  await migrateStores(url);
  const to = await PostgresConnection.open({ url });
  try {
    await to.script(stateText);
    const isBegun = await checkTarget(to, source);
    if (isBegun === 'done') return { already: true, rows: 0 };
    await options.settle();
    const lock = acquireNodeLock(dataDir);
    try {
      await note(to, 'begun', source, 0);
      const rows = await copyAll({ ...options, to, source });
      const violations = await verify(options);
      if (violations.length > 0)
        throw new MigrationRefused(`The moved ledger violates its invariants: ${violations.join('; ')}`);
      await note(to, whole, source, rows);
      return { already: false, rows };
    } finally {
      lock.release();
    }
  } finally {
    await to.end();
  }
}

/** Returns the violated invariants of the ledger in PostgreSQL, in words. */
async function verify({ openTarget }: MigrationOptions): Promise<string[]> {
  const ledger = await openTarget();
  try {
    return await ledger.verify();
  } finally {
    await ledger.close();
  }
}

/** Throws `MigrationRefused` if the database has data of another gateway. */
async function checkTarget(to: PostgresConnection, source: string): Promise<'new' | 'begun' | 'done'> {
  const parts = await to.query('SELECT part, source FROM store_migration');
  if (parts.some(row => row['source'] !== source)) {
    throw new MigrationRefused('Another data directory was moved to this database.');
  }
  if (parts.some(row => row['part'] === whole)) return 'done';
  const [live] = await to.query(
    'SELECT number FROM instance WHERE lease_until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint LIMIT 1',
  );
  if (live !== undefined) throw new MigrationRefused('Gateways use this database. Stop them first.');
  if (parts.length > 0) return 'begun';
  const [used] = await to.query('SELECT 1 AS one FROM account UNION ALL SELECT 1 FROM document LIMIT 1');
  if (used !== undefined)
    throw new MigrationRefused('The database already has accounts or documents. Use an empty database.');
  return 'new';
}

interface Copying extends MigrationOptions {
  readonly to: PostgresConnection;
  readonly source: string;
}

async function copyAll(copying: Copying): Promise<number> {
  const { dataDir } = copying;
  const ledger = openForReading(ledgerPath(dataDir));
  const content = existsSync(documentsPath(dataDir)) ? openForReading(documentsPath(dataDir)) : undefined;
  try {
    let rows = await copyTables(copying, ledger, ledgerTables);
    await copyMeta(copying.to, ledger);
    if (content !== undefined) rows += await copyTables(copying, content, documentTables);
    await copyFiles(copying);
    return rows;
  } finally {
    ledger.close();
    content?.close();
  }
}

async function copyTables(
  { to, source, progress }: Copying,
  from: Connection,
  tables: readonly CopiedTable[],
): Promise<number> {
  const columns = await to.query(
    'SELECT table_name::text AS place, column_name::text AS name, udt_name::text AS type FROM information_schema.columns WHERE table_schema = current_schema()',
  );
  const types = new Map(columns.map(({ place, name, type }) => [`${String(place)}.${String(name)}`, String(type)]));
  let rows = 0;
  for (const table of tables) {
    const copy = new TableCopy(table, from, to, types);
    const [done] = await to.query('SELECT rows FROM store_migration WHERE part = $1::text', [copy.target]);
    const copied = await copy.run({
      done: Number(done?.['rows'] ?? 0n),
      advance: (connection, count) => note(connection, copy.target, source, count),
    });
    await compare(copy);
    progress(copy.target, copied);
    rows += copied;
  }
  return rows;
}

/** Throws `MigrationRefused` if the number of rows or the sums differ between the databases. */
async function compare(copy: TableCopy): Promise<void> {
  const { from, to } = await copy.compare();
  for (const [name, sum] of from) {
    if (to.get(name) === sum) continue;
    throw new MigrationRefused(
      `The table ${copy.target} differs: ${name} is ${sum} in SQLite and ${String(to.get(name))} in PostgreSQL. Empty the database and start the migration again.`,
    );
  }
}

async function copyMeta(to: PostgresConnection, ledger: Connection): Promise<void> {
  const values = ledger.prepare<[], { name: string; value: bigint }>('SELECT name, value FROM meta').all();
  for (const { name, value } of values.filter(each => each.name !== 'probe')) {
    await to.query(
      'INSERT INTO meta VALUES ($1::text, $2::bigint) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
      [name, value],
    );
  }
}

/** Copies secrets, images, large files and journals, including those that an earlier run has copied. */
async function copyFiles({ dataDir, to, url }: Copying): Promise<void> {
  for (const [index, secret] of serverSecrets(dataDir).toReversed().entries()) {
    await to.query('INSERT INTO secret VALUES ($1::integer, $2::text) ON CONFLICT (number) DO NOTHING', [
      index,
      secret,
    ]);
  }
  const images = join(dataDir, 'images');
  for (const name of existsSync(images) ? readdirSync(images) : []) {
    const [, token, expires, extension] = /^([0-9a-f]{32})\.(\d{1,16})\.([a-z]+)$/.exec(name) ?? [];
    if (token === undefined || parseExtension(extension ?? '') === undefined || Number(expires) <= systemClock.now())
      continue;
    await to.query('INSERT INTO picture VALUES ($1::text, $2::bytea, $3::bigint) ON CONFLICT (name) DO NOTHING', [
      `${token}.${extension ?? ''}`,
      await readFile(join(images, name)),
      Number(expires),
    ]);
  }
  if (existsSync(join(dataDir, 'files'))) await copyBulk(dataDir, url);
}

async function copyBulk(dataDir: string, url: string): Promise<void> {
  const pool = new PostgresPool({ url, connections: 2 });
  const database: StoreDatabase = { pool, boot: () => 0 };
  const from = openDiskBulkFiles({ folder: join(dataDir, 'files'), bytesMax: () => Number.MAX_SAFE_INTEGER });
  const to = openPostgresBulkFiles(database, () => Number.MAX_SAFE_INTEGER);
  try {
    for (const name of await from.list()) {
      await to.delete(name);
      if (name.endsWith('.journal')) await copyJournal(name, from, to);
      else await copyFile(name, from, to);
    }
  } finally {
    to.close();
    await pool.close();
  }
}

type Bulk = ReturnType<typeof openDiskBulkFiles>;

/** Copies a journal record by record. The positions of records differ between the stores, but a journal is always read from its beginning. */
async function copyJournal(name: string, from: Bulk, to: Bulk): Promise<void> {
  const [source, target] = [await from.openJournal(name), await to.openJournal(name)];
  const records: Uint8Array[] = [];
  await source.scan(record => void records.push(Uint8Array.from(record)));
  await target.scan(() => undefined);
  for (const record of records) await target.append(record, true);
  await Promise.all([source.close(), target.close()]);
}

async function copyFile(name: string, from: Bulk, to: Bulk): Promise<void> {
  const reader = await from.open(name);
  if (reader === undefined) return;
  const writer = await to.create(name);
  for (let piece = await reader.read(); piece.length > 0; piece = await reader.read()) {
    await writer.append(Uint8Array.from(piece));
  }
  await writer.finish();
  await reader.close();
}

async function note(to: PostgresConnection, part: string, source: string, rows: number): Promise<void> {
  await to.query(
    `INSERT INTO store_migration VALUES ($1::text, $2::text, $3::bigint) ON CONFLICT (part) DO UPDATE SET rows = excluded.rows`,
    [part, source, rows],
  );
}
