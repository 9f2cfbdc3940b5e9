/** A row as SQLite returns it: every integer is a bigint. */
export type Stored<Row> = { [Column in keyof Row]: StoredValue<Row[Column]> };
type StoredValue<Value> = Value extends number ? bigint : Value;

/** Converts the integers of a stored row to numbers, except the columns in `exact`: amounts of money can exceed 2^53. */
export function toRow<Row extends object>(stored: Stored<Row>, exact: readonly (keyof Row)[]): Row {
  const row: Partial<Record<keyof Row, unknown>> = { ...stored };
  for (const column of Object.keys(stored) as (keyof Row)[]) {
    const value = row[column];
    if (typeof value === 'bigint' && !exact.includes(column)) row[column] = Number(value);
  }
  return row as Row;
}
