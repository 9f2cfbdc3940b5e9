import { checkChain, listChains } from '../sqlite/audit-invariants.ts';
import { describeViolation, invariants } from '../sqlite/invariants.ts';
import { checkLimit, listCountedLimits } from '../sqlite/limit-invariants.ts';
import { PostgresPool } from '../../lib/postgres/pool.ts';
import { PostgresReader } from './postgres-reader.ts';

/** Invariants of ledgers on PostgreSQL only. */
const own = [
  {
    name: 'an account’s `due_at_ms` is not later than the first end of its holds, periods and keys with money',
    sql: `SELECT 'account ' || a.id AS what FROM account a WHERE coalesce(a.due_at_ms, 9007199254740991) > least(
      (SELECT min(expires_at_ms) FROM hold h WHERE h.account_id = a.id), (SELECT min(end_ms) FROM plan_period p WHERE p.account_id = a.id AND p.live = 1),
      (SELECT min(expires_at_ms) FROM api_key k WHERE k.account_id = a.id AND k.balance > k.held))`,
  },
  {
    name: 'no request is held and settled',
    sql: "SELECT 'request ' || h.id AS what FROM hold h JOIN usage u ON u.id = h.id",
  },
  {
    name: 'a hold of a gateway names its instance, a hold of another service names none',
    sql: "SELECT 'hold ' || id AS what FROM hold WHERE (boot IS NULL) <> (expires_at_ms IS NOT NULL)",
  },
];
/** The highest id is not stored in this database: a gateway looks it up when it starts. */
const notHere = new Set(['no request of the gateway has an id above the last one that it issued']);

/** Checks every invariant of a database's ledger, also while gateways use it. */
export async function verifyDatabase(url: string): Promise<string[]> {
  const pool = new PostgresPool({ url, connections: 1 });
  try {
    return await verifyPostgres(new PostgresReader({ pool }));
  } finally {
    await pool.close();
  }
}

/** Runs every invariant. Returns the violations, in words for the operator; empty: all hold. */
export async function verifyPostgres(reader: PostgresReader): Promise<string[]> {
  const found: string[] = [];
  for (const { name, sql } of [...invariants, ...own]) {
    if (notHere.has(name)) continue;
    const { rows } = await reader.run(results => results.read(`${sql} LIMIT 20`, []));
    found.push(...rows.map(([what]) => describeViolation(name, String(what))));
  }
  for (const limit of await reader.run(results => listCountedLimits(results.asConnection()))) {
    found.push(...(await reader.run(results => checkLimit(results.asConnection(), limit))));
  }
  for (const chain of await reader.run(results => listChains(results.asConnection()))) {
    found.push(...(await reader.run(results => checkChain(results.asConnection(), chain))));
  }
  return found;
}
