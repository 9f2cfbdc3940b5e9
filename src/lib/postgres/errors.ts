import pg from 'pg';

/** Thrown if the connection to PostgreSQL is lost, or an answer did not arrive in time. The statements that were sent may have been executed. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

/** Returns PostgreSQL's code of an error, for example "23505"; undefined if it is not an error of PostgreSQL. */
export function postgresCode(thrown: unknown): string | undefined {
  return thrown instanceof pg.DatabaseError ? thrown.code : undefined;
}

/** Returns true for serialization failures and deadlocks: other transactions caused them, so the transaction can be run again at once. */
export function isConflict(thrown: unknown): boolean {
  const code = postgresCode(thrown);
  return code === '40001' || code === '40P01';
}

/** Returns whether a row violates a unique constraint. */
export function isDuplicate(thrown: unknown): boolean {
  return postgresCode(thrown) === '23505';
}

/** Returns whether the server cancelled a statement, because of `statement_timeout` or because someone asked for it. */
export function isCancelled(thrown: unknown): boolean {
  return postgresCode(thrown) === '57014';
}

/** Returns whether a row violates a foreign key. */
export function isMissingReference(thrown: unknown): boolean {
  return postgresCode(thrown) === '23503';
}

/**
 * Returns true if the database itself failed (it is unreachable, full, stopping or read-only), so that the command can be tried again later. Any other error is caused by the statement.
 */
export function isDatabaseFailure(thrown: unknown): boolean {
  if (thrown instanceof ConnectionLost) return true;
  const code = postgresCode(thrown);
  if (code === undefined) return isSocketFailure(thrown);
  // Classes of codes: connections, resources, operator intervention, system errors. Codes: a read-only server, a lock that was not granted in time, a database that accepts no connections.
  return (
    ['08', '53', '57', '58', 'XX'].includes(code.slice(0, 2)) || ['25006', '25P03', '55000', '55P03'].includes(code)
  );
}

/** Returns true for errors of sockets and host names, which Node.js and `pg` throw. */
function isSocketFailure(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false;
  const code = (thrown as NodeJS.ErrnoException).code;
  return code !== undefined ? /^E[A-Z_]+$/.test(code) : /connection|terminat|timeout/i.test(thrown.message);
}
