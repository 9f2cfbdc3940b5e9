import type { PostgresConnection } from '../../lib/postgres/connection.ts';

/** The types of columns, by `table.column`. */
export type ColumnTypes = ReadonlyMap<string, string>;

/** Reads the types of all columns. */
export async function readColumnTypes(connection: PostgresConnection): Promise<ColumnTypes> {
  const rows = await connection.query(
    'SELECT table_name::text AS place, column_name::text AS name, udt_name::text AS type FROM information_schema.columns WHERE table_schema = current_schema()',
  );
  return new Map(
    rows.map(row => [`${String(row['place'])}.${String(row['name'])}`, String(row['type'])] satisfies [string, string]),
  );
}
