import { formatRequestId } from '../../lib/ids.ts';
import type { Connection, Query } from '../../lib/sqlite/database.ts';
import { toPocket } from '../columns/column-file.ts';
import type { ColumnStore } from '../columns/column-store.ts';
import type { AuditFilter, AuditRow, EntryFilter, EntryRow, MovementRow } from '../history.ts';
import { RowCodec, type Stored as StoredValue } from '../sqlite/columns.ts';
import { auditTable } from '../sqlite/tables.ts';
import { LaterChanges, longestMs, longMs } from './later-changes.ts';
import { type Stored as StoredRow, toRow } from './to-row.ts';

interface PageValues {
  account: number;
  start: number;
  end: number;
  limit: number;
  offset: number;
}

type MovementColumns = Omit<MovementRow, 'requestId'> & {
  readonly usageId: number | null;
  readonly request: bigint | string | null;
};

const auditCodec = new RowCodec(auditTable);
const bigintColumns = ['amount', 'balanceAfter', 'writtenOff', 'request'] as const;
const entryColumns = `e.account_id AS accountId, e.number AS entryId, e.kind, e.key_id AS keyId, e.group_id AS groupId, e.amount,
  e.written_off AS writtenOff, e.usage_id AS usageId, e.note, e.at_ms AS createdAtMs`;

const chargeSelect = `SELECT account_id, NULL, 'charge', iif(payer = 1, key_id, NULL), payer_group, -cost, 0, id, '', created_at_ms + latency_ms
    FROM usage WHERE account_id = @account AND cost > 0 AND created_at_ms + latency_ms >= @start AND created_at_ms + latency_ms < @end AND created_at_ms < @end`;

/**
 * Reads the entries and charges of a span. The balance after each is the current balance of the account, key or group minus the later changes in the span, so it is right even if old records were
 * removed. The caller must also subtract the changes after the span. The charges are read in two parts, because a charge can be in the span although its request was admitted before it: the first part
 * looks back `longMs`, the second one `longestMs`, and only for the few requests that took that long, which have an index of their own.
 */
const movementsText = `WITH payer AS (
     SELECT CAST(NULL AS INTEGER) AS keyId, CAST(NULL AS INTEGER) AS groupId, balance FROM account WHERE id = @account
     UNION ALL SELECT id, NULL, coalesce(balance, 0) FROM api_key WHERE account_id = @account
     UNION ALL SELECT NULL, id, coalesce(balance, 0) FROM key_group WHERE account_id = @account
   ), movement AS (
     SELECT ${entryColumns} FROM entry e WHERE e.account_id = @account AND e.at_ms >= @start AND e.at_ms < @end
     UNION ALL ${chargeSelect} AND created_at_ms >= @start - ${longMs}
     UNION ALL ${chargeSelect} AND created_at_ms >= @start - ${longestMs} AND created_at_ms < @start - ${longMs} AND latency_ms >= ${longMs}
   ), balanced AS (
     SELECT m.*, p.balance - coalesce(sum(m.amount) OVER (PARTITION BY m.keyId, m.groupId
         ORDER BY m.createdAtMs DESC, m.entryId IS NULL, m.entryId DESC, m.usageId DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS balanceAfter
     FROM movement m JOIN payer p ON p.keyId IS NOT DISTINCT FROM m.keyId AND p.groupId IS NOT DISTINCT FROM m.groupId
   )
   SELECT b.*, u.request FROM balanced b LEFT JOIN usage u ON u.id = b.usageId
   ORDER BY b.createdAtMs DESC, b.entryId IS NULL, b.entryId DESC, b.usageId DESC LIMIT @limit OFFSET @offset`;

/** Reads entries, charges and the audit log, newest first. */
export class HistoryReads {
  readonly #entries: Query<[PageValues & { kinds: string }], StoredRow<MovementColumns>>;
  readonly #movements: Query<[PageValues], StoredRow<MovementColumns>>;
  readonly #chargeStart: Query<[{ account: number; end: number; skip: number }], { createdAtMs: bigint }>;
  readonly #later: LaterChanges;
  readonly #audit: Query<[PageValues], StoredValue[]>;

  /** `columns`: the column files, which contain the records of past hours; undefined: there are none. */
  constructor(db: Connection, columns?: ColumnStore) {
    this.#later = new LaterChanges(db, columns);
    this.#entries = db.prepare(
      `SELECT ${entryColumns}, e.balance_after AS balanceAfter, u.request FROM entry e LEFT JOIN usage u ON u.id = e.usage_id
       WHERE e.account_id = @account AND e.at_ms >= @start AND e.at_ms < @end AND (@kinds = '' OR instr(@kinds, ',' || e.kind || ',') > 0)
       ORDER BY e.number DESC LIMIT @limit OFFSET @offset`,
    );
    this.#movements = db.prepare(movementsText);
    this.#chargeStart = db.prepare(
      `SELECT created_at_ms AS createdAtMs FROM usage WHERE account_id = @account AND created_at_ms < @end AND created_at_ms + latency_ms < @end AND cost > 0
       ORDER BY created_at_ms DESC LIMIT 1 OFFSET @skip`,
    );
    this.#audit = db
      .prepare<[PageValues], StoredValue[]>(
        `SELECT ${auditCodec.names.join(', ')} FROM audit WHERE (@account < 0 OR account_id = @account)
           AND created_at_ms >= @start AND created_at_ms < @end
         ORDER BY created_at_ms DESC, account_id DESC, audit_id DESC LIMIT @limit OFFSET @offset`,
      )
      .raw();
  }

  entries({ kinds = [], ...filter }: EntryFilter): EntryRow[] {
    const wanted = kinds.length === 0 ? '' : `,${kinds.join(',')},`;
    return this.#entries.all({ ...toValues(filter), kinds: wanted }).map(stored => toMovement(stored) as EntryRow);
  }

  movements(filter: EntryFilter): MovementRow[] {
    const values = toValues(filter);
    // Begins at the oldest charge that this page and the newer pages can contain. Anything older is on later pages and does not affect these balances.
    const { account, end } = values;
    const oldest = this.#chargeStart.get({ account, end, skip: values.limit + values.offset - 1 });
    const start = Math.max(values.start, Number(oldest?.createdAtMs ?? 0n));
    const rows = this.#movements.all({ ...values, start }).map(toMovement);
    const later = filter.endMs === undefined ? new Map<number, bigint>() : this.#later.read(account, end);
    return rows.map(row => {
      const after = later.get(toPocket(row.keyId, row.groupId)) ?? 0n;
      return { ...row, balanceAfter: row.balanceAfter - after };
    });
  }

  audit(filter: AuditFilter): AuditRow[] {
    return this.#audit.all(toValues(filter)).map(stored => auditCodec.read(stored));
  }
}

function toValues({ accountId = -1, limit, offset, startMs, endMs }: AuditFilter): PageValues {
  return { account: accountId, limit, offset, start: startMs ?? 0, end: endMs ?? Number.MAX_SAFE_INTEGER };
}

function toMovement(stored: StoredRow<MovementColumns>): MovementRow {
  const { usageId, request, ...row } = toRow<MovementColumns>(stored, bigintColumns);
  return { ...row, requestId: usageId === null || request === null ? null : formatRequestId(usageId, request) };
}
