/** Reads everything that a gateway has stored, in its data directory or in its database. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { queryDatabase } from './gateway-database.ts';

/** A gateway's folder and its data directory. */
interface GatewayFolders {
  readonly folder: string;
  readonly dataDir: string;
}

/** The content of a file or a table. Only Latin letters can be searched for. */
export interface Stored {
  /** The path of a file, or for example "table usage". */
  readonly name: string;
  readonly text: string;
}

/** Reads everything that a gateway has stored: the files of its data directory, and the tables of its database if it has one. */
export async function readStored(gateway: GatewayFolders): Promise<Stored[]> {
  const files = readdirSync(gateway.dataDir, { recursive: true })
    .map(name => join(gateway.dataDir, String(name)))
    // Sockets have no content.
    .filter(path => statSync(path).isFile());
  const stored = files.map(path => ({ name: path, text: readFileSync(path, 'latin1') }));
  const tables = await queryDatabase(
    gateway,
    "SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
  );
  for (const { name } of tables ?? []) {
    const rows = (await queryDatabase(gateway, `SELECT t::text AS row FROM ${String(name)} t`)) ?? [];
    stored.push({ name: `table ${String(name)}`, text: rows.map(({ row }) => withBytes(String(row))).join('\n') });
  }
  return stored;
}

/** Replaces bytes that PostgreSQL prints as hexadecimal digits with their letters. */
function withBytes(row: string): string {
  return row.replaceAll(/\\x((?:[0-9a-f]{2})+)/g, (_, digits: string) => Buffer.from(digits, 'hex').toString('latin1'));
}

/** Returns whether a word of ASCII letters is in anything that a gateway has stored. */
export async function isStored(gateway: GatewayFolders, word: string): Promise<boolean> {
  return (await readStored(gateway)).some(({ text }) => text.includes(word));
}

/** Returns the names of the stored images. */
export async function listImages(gateway: GatewayFolders): Promise<string[]> {
  const rows = await queryDatabase(gateway, 'SELECT name FROM picture');
  if (rows !== undefined) return rows.map(({ name }) => String(name));
  const folder = join(gateway.dataDir, 'images');
  return existsSync(folder) ? readdirSync(folder) : [];
}
