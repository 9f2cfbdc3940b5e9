import type { Connection } from '../../lib/sqlite/database.ts';
import { hashAudit } from '../rules/audit-hash.ts';
import { RowCodec, type Stored } from './columns.ts';
import { auditChainTable, auditTable } from './tables.ts';

const rows = new RowCodec(auditTable);
const chains = new RowCodec(auditChainTable);

/** Returns what of the audit was changed, removed or added by other hands: each row must carry the hash of the row before it and its own. */
export function checkAudit(db: Connection): string[] {
  const found: string[] = [];
  const rowsOf = db
    .prepare<[number], Stored[]>(`SELECT ${rows.names.join(', ')} FROM audit WHERE account_id = ? ORDER BY audit_id`)
    .raw();
  const known = new Set<number>();
  for (const stored of db
    .prepare<[], Stored[]>(`SELECT ${chains.names.join(', ')} FROM audit_chain`)
    .raw()
    .all()) {
    const { accountId, startNumber, startHash, number, hash } = chains.read(stored);
    known.add(accountId);
    let last = { number: startNumber, hash: startHash };
    for (const each of rowsOf.iterate(accountId)) {
      const row = rows.read(each);
      const place = `row ${row.auditId} of ${nameChain(accountId)}`;
      if (row.auditId !== last.number + 1) found.push(`the audit lacks rows before ${place}`);
      else if (row.previousHash !== last.hash) found.push(`the audit was changed before ${place}`);
      if (row.hash !== hashAudit(row)) found.push(`the audit was changed in ${place}`);
      last = { number: row.auditId, hash: row.hash };
    }
    if (last.number !== number || last.hash !== hash)
      found.push(`the audit lacks rows at the end of ${nameChain(accountId)}`);
  }
  const all = db.prepare<[], { id: bigint }>('SELECT DISTINCT account_id AS id FROM audit').all();
  for (const { id } of all)
    if (!known.has(Number(id))) found.push(`the audit has rows of ${nameChain(Number(id))}, which has no chain`);
  return found;
}

function nameChain(accountId: number): string {
  return accountId === 0 ? 'the operator' : `account ${accountId}`;
}
