import type { AuditRecord, Entry } from '../gen/tollgate/v1/history_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { jsonDollars } from '../lib/dollars.ts';

/**
 * Converts the history of an account to the JSON that REST clients get and the command line prints. Source: docs/interfaces/account.md "Entries
 * and audit".
 */

/**
 * Returns an entry, or a charge (whose `entry_id` is null). The balance that changed is that of the named key or group, or if neither is named, that of the account.
 */
export function entryJson(entry: Entry) {
  const { apiKeyId, groupId, requestId, kind } = entry;
  return {
    entry_id: entry.entryId === 0n ? null : Number(entry.entryId),
    kind,
    amount: jsonDollars(entry.amountNanoUsd),
    balance_after: jsonDollars(entry.balanceAfterNanoUsd),
    note: entry.note,
    ...(apiKeyId === undefined ? {} : { api_key_id: Number(apiKeyId) }),
    ...(groupId === undefined ? {} : { group_id: Number(groupId) }),
    ...(kind === 'write_off' ? { written_off: jsonDollars(entry.writtenOffNanoUsd) } : {}),
    ...(requestId === undefined ? {} : { request_id: requestId }),
    created_at: isoTime(entry.createdAtMs),
  };
}

/** Returns a record of the audit log. Amounts in `before` and `after` keep all digits. */
export function auditJson(record: AuditRecord) {
  const { beforeJson, afterJson } = record;
  return {
    audit_id: Number(record.auditId),
    actor: { type: record.actorType, id: record.actorId ?? null },
    action: record.action,
    resource: { type: record.resourceType, id: record.resourceId ?? null },
    before: readExact(beforeJson),
    after: readExact(afterJson),
    created_at: isoTime(record.createdAtMs),
    address: record.address ?? null,
    request_id: record.requestId ?? null,
    previous_hash: record.previousHash ?? null,
    hash: record.hash,
  };
}

/** Parses JSON without losing digits of numbers. */
function readExact(text: string | undefined): unknown {
  if (text === undefined) return null;
  return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' && context?.source !== undefined ? JSON.rawJSON(context.source) : value,
  );
}
