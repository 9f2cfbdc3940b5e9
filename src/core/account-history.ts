import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { AccountService } from '../gen/tollgate/v1/account_pb.ts';
import type { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import {
  type AuditRecordSchema,
  type EntrySchema,
  ListAuditRequestSchema,
  ListEntriesRequestSchema,
} from '../gen/tollgate/v1/history_pb.ts';
import { defined } from '../lib/defined.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { AuditRow, EntryKind, Ledger, MovementRow, PageFilter } from '../ledger/ledger.ts';
import { requireRow, readId, invalidField } from './account-fields.ts';
import { authenticate } from './credential.ts';

const pageLimit = { default: 100, max: 1_000 };
const kinds: readonly EntryKind[] = ['opening', 'credit', 'move', 'plan_price', 'write_off'];

/** The methods that list the entries and the audit log of the caller's account. */
export function accountHistory(
  ledger: Ledger,
): Pick<PushedService<typeof AccountService>, 'listEntries' | 'listAudit'> {
  return {
    async listEntries(request, context) {
      const { accountId } = await authenticate(context, ledger, { scope: 'account:read' });
      return { entries: (await ledger.listEntries({ accountId, ...readPage(request) })).map(toEntry) };
    },
    async listAudit(request, context) {
      const { accountId } = await authenticate(context, ledger, { scope: 'audit:read' });
      return { records: (await ledger.listAudit({ accountId, ...readPage(request) })).map(toAuditRecord) };
    },
  };
}

/** The methods that list the entries and the audit log of any account, and the operator's changes. */
export function adminHistory(
  ledger: Ledger,
): Pick<PushedService<typeof AdminService>, 'listAccountEntries' | 'listAccountAudit'> {
  const existing = async (id: bigint): Promise<number> => {
    const accountId = readId(id, 'account');
    return requireRow(await ledger.findAccount(accountId), 'account', accountId).accountId;
  };
  return {
    async listAccountEntries({ accountId, query, kinds: wanted, charges }) {
      const page = readPage(query ?? create(ListEntriesRequestSchema));
      const filter = { accountId: await existing(accountId), ...page };
      if (charges) return { entries: (await ledger.listMovements(filter)).map(toEntry) };
      return { entries: (await ledger.listEntries({ ...filter, kinds: wanted.map(readKind) })).map(toEntry) };
    },
    async listAccountAudit({ accountId, query }) {
      const page = readPage(query ?? create(ListAuditRequestSchema));
      const of = accountId === undefined || accountId === 0n ? accountId : BigInt(await existing(accountId));
      const rows = await ledger.listAudit({ ...page, ...(of === undefined ? {} : { accountId: Number(of) }) });
      return { records: rows.map(toAuditRecord) };
    },
  };
}

function readKind(text: string, index: number): EntryKind {
  const kind = kinds.find(each => each === text);
  if (kind === undefined) throw invalidField(`kinds.${index}`, `must be one of ${kinds.join(', ')}`, text);
  return kind;
}

/** Returns the requested page. Throws `validation_error` if it is too large. */
export function readPage(request: {
  readonly limit: number;
  readonly offset: number;
  readonly startMs?: bigint | undefined;
  readonly endMs?: bigint | undefined;
}): PageFilter {
  const { limit, offset, startMs, endMs } = request;
  if (limit > pageLimit.max) throw invalidField('limit', `must be 1 to ${pageLimit.max}`, limit);
  return {
    limit: limit === 0 ? pageLimit.default : limit,
    offset,
    ...(startMs === undefined ? {} : { startMs: Number(startMs) }),
    ...(endMs === undefined ? {} : { endMs: Number(endMs) }),
  };
}

function toEntry(row: MovementRow): MessageInitShape<typeof EntrySchema> {
  const { keyId, groupId, requestId } = row;
  return {
    entryId: BigInt(row.entryId ?? 0),
    accountId: BigInt(row.accountId),
    kind: row.kind,
    amountNanoUsd: row.amount,
    balanceAfterNanoUsd: row.balanceAfter,
    note: row.note,
    writtenOffNanoUsd: row.writtenOff,
    createdAtMs: BigInt(row.createdAtMs),
    ...(keyId === null ? {} : { apiKeyId: BigInt(keyId) }),
    ...(groupId === null ? {} : { groupId: BigInt(groupId) }),
    ...(requestId === null ? {} : { requestId }),
  };
}

function toAuditRecord(row: AuditRow): MessageInitShape<typeof AuditRecordSchema> {
  return defined({
    auditId: BigInt(row.auditId),
    accountId: BigInt(row.accountId),
    actorType: row.actorType,
    actorId: row.actorId ?? undefined,
    action: row.action,
    resourceType: row.resourceType,
    resourceId: row.resourceId ?? undefined,
    beforeJson: row.before ?? undefined,
    afterJson: row.after ?? undefined,
    address: row.address ?? undefined,
    requestId: row.requestId ?? undefined,
    createdAtMs: BigInt(row.createdAtMs),
    previousHash: row.previousHash === '' ? undefined : row.previousHash,
    hash: row.hash,
  });
}
