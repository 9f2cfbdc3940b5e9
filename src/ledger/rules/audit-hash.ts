import { hash } from 'node:crypto';
import type { AuditRow } from '../history.ts';

/** Returns the SHA-256, in hexadecimal, of all fields of an audit row, the previous row's hash included. */
export function hashAudit(row: Omit<AuditRow, 'hash'>): string {
  const fields = [
    row.accountId,
    row.auditId,
    row.actorType,
    row.actorId,
    row.action,
    row.resourceType,
    row.resourceId,
    row.before,
    row.after,
    row.address,
    row.requestId,
    row.createdAtMs,
    row.previousHash,
  ];
  return hash('sha256', JSON.stringify(fields), 'hex');
}
