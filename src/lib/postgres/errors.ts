import pg from 'pg';

/** The connection to PostgreSQL is lost, or an answer did not arrive in time. The statements that were sent may have been executed. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

/** Returns PostgreSQL's code of an error ("23505"); undefined for errors of other kinds. */
export function postgresCode(thrown: unknown): string | undefined {
  return thrown instanceof pg.DatabaseError ? thrown.code : undefined;
}

/** Returns whether a transaction was undone because of others, so that it can be run again at once: serialization failures and deadlocks. */
export function isConflict(thrown: unknown): boolean {
  const code = postgresCode(thrown);
  return code === '40001' || code === '40P01';
}

/** Returns whether a unique row existed already. */
export function isDuplicate(thrown: unknown): boolean {
  return postgresCode(thrown) === '23505';
}

/** Returns whether the server ended a statement because it took longer than its `statement_timeout`, or because someone cancelled it. */
export function isCancelled(thrown: unknown): boolean {
  return postgresCode(thrown) === '57014';
}

/** Returns whether a row named another that is not there. */
export function isMissingReference(thrown: unknown): boolean {
  return postgresCode(thrown) === '23503';
}

/**
 * Returns whether the database failed, and not one command: it is unreachable, full, stopping or read-only, so that the command can be tried again later. Any other error is caused by the statement itself.
 */
export function isDatabaseFailure(thrown: unknown): boolean {
  if (thrown instanceof ConnectionLost) return true;
  const code = postgresCode(thrown);
  if (code === undefined) return isSocketFailure(thrown);
  // Connections, resources, operators, the system, a read-only server, locks that were not granted in time, a database that accepts no connections.
  return (
    ['08', '53', '57', '58', 'XX'].includes(code.slice(0, 2)) || ['25006', '25P03', '55000', '55P03'].includes(code)
  );
}

/** Errors of sockets and names, which Node.js and `pg` throw. */
function isSocketFailure(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false;
  const code = (thrown as NodeJS.ErrnoException).code;
  return code !== undefined ? /^E[A-Z_]+$/.test(code) : /connection|terminat|timeout/i.test(thrown.message);
}
