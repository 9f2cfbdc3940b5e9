import { query, type StoreDatabase } from './database.ts';

/** Returns the server secrets that all gateways of a database share, newest first. The first gateway stores its own; later ones use the stored ones. */
export async function shareSecrets(database: StoreDatabase, own: readonly string[]): Promise<string[]> {
  const text = 'SELECT value FROM secret ORDER BY number DESC';
  const there = await query(database, text);
  if (there.length === 0) {
    const insert = `INSERT INTO secret SELECT 0, $1::text WHERE NOT EXISTS (SELECT 1 FROM secret) ON CONFLICT (number) DO NOTHING`;
    await query(database, insert, [own[0] ?? '']);
  }
  return (await query(database, text)).map(row => String(row['value']));
}
