import type { Connection } from '../../lib/sqlite/database.ts';
import { hashAudit } from '../rules/audit-hash.ts';
import type { AuditChain } from '../rows.ts';
import { RowCodec, type Stored } from './columns.ts';
import { auditChainTable, auditTable } from './tables.ts';

const rows = new RowCodec(auditTable);
const chains = new RowCodec(auditChainTable);

/**
 * Returns which audit rows were changed, removed or added outside the gateway: each row must carry the hash of the
 * row before it and its own.
 */
export function checkAudit(db: Connection): string[] {
  return listChains(db).flatMap(chain => checkChain(db, chain));
}

/** Returns the audit log's chains of hashes. Rows of an account that has no chain get one with number 0, which `checkChain` reports. */
export function listChains(db: Connection): AuditChain[] {
  const stored = db
    .prepare<[], Stored[]>(`SELECT ${chains.names.join(', ')} FROM audit_chain ORDER BY account_id`)
    .raw();
  const known = stored.all().map(row => chains.read(row));
  const lost = db.prepare<[], { id: bigint }>(
    'SELECT DISTINCT account_id AS id FROM audit WHERE account_id NOT IN (SELECT account_id FROM audit_chain)',
  );
  const none = { startNumber: 0, startHash: '', number: 0, hash: '' };
  return [...known, ...lost.all().map(({ id }) => ({ accountId: Number(id), ...none }))];
}

/** Returns what is wrong with a chain, in words; empty if it is complete and unchanged. */
export function checkChain(db: Connection, { accountId, startNumber, startHash, number, hash }: AuditChain): string[] {
  const found: string[] = [];
  const auditRows = db
    .prepare<[number], Stored[]>(`SELECT ${rows.names.join(', ')} FROM audit WHERE account_id = ? ORDER BY audit_id`)
    .raw();
  // The numbers of a chain are audit ids, which have no gaps within an account.
  let last = { number: startNumber, hash: startHash };
  for (const each of auditRows.iterate(accountId)) {
    if (number === 0) return [`the audit log has rows of ${nameChain(accountId)}, which has no chain`];
    const row = rows.read(each);
    const place = `row ${row.auditId} of ${nameChain(accountId)}`;
    if (row.auditId !== last.number + 1) found.push(`the audit log lacks rows before ${place}`);
    else if (row.previousHash !== last.hash) found.push(`the audit log was changed before ${place}`);
    if (row.hash !== hashAudit(row)) found.push(`the audit log was changed in ${place}`);
    last = { number: row.auditId, hash: row.hash };
  }
  if (last.number !== number || last.hash !== hash) {
    found.push(`the audit log lacks rows at the end of ${nameChain(accountId)}`);
  }
  return found;
}

function nameChain(accountId: number): string {
  return accountId === 0 ? 'the operator' : `account ${accountId}`;
}
