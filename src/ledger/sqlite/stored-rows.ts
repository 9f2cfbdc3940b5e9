import type { Connection } from '../../lib/sqlite/database.ts';
import type { AuditRow, LimitFilter, LimitScope, Tags } from '../ledger.ts';
import type {
  Entry,
  Group,
  Hold,
  Key,
  Limit,
  ManagementKey,
  OldSecret,
  PlanPeriod,
  Rows,
  SumChange,
  Table,
  Tally,
  TallySpan,
  Webhook,
  WebhookEvent,
} from '../rows.ts';
import { type JointLimits, separate, separateAll } from '../rules/joint-limits.ts';
import { ensureCounted } from '../rules/limits.ts';
import { AddedTable } from './added-table.ts';
import { CachedTable } from './cached-table.ts';
import { GroupTable } from './group-table.ts';
import { Labels } from './labels.ts';
import { LimitTable } from './limit-table.ts';
import type { Sql } from './sql.ts';
import { SumTable } from './sum-table.ts';
import { Tallies } from './tallies.ts';
import { WebhookTable } from './webhook-table.ts';
import { UseTable } from './use-table.ts';
import {
  accountTable,
  appliedTable,
  auditChainTable,
  auditTable,
  counterTable,
  entryTable,
  holdTable,
  keyDayTable,
  keyTable,
  managementKeyTable,
  sessionTable,
  periodTable,
  planDayTable,
  secretTable,
  subscriptionTable,
  usageTable,
  voidedTable,
  deliveryTable,
  eventMarkTable,
  eventTable,
} from './tables.ts';

const appliedMax = 1000;
const none: readonly never[] = [];
const hashSelect =
  'SELECT 1 FROM api_key WHERE hash = ? UNION ALL SELECT 1 FROM old_secret WHERE hash = ? UNION ALL SELECT 1 FROM management_key WHERE hash = ? UNION ALL SELECT 1 FROM session WHERE hash = ?';

/** The rows of a ledger's file, each read once, and written once in a batch by `write`. */
export class StoredRows implements Rows {
  readonly accounts;
  readonly managementKeys;
  readonly sessions;
  readonly keyDays;
  readonly planDays;
  readonly groups: GroupTable;
  readonly limits: LimitTable;
  /** The names in records. */
  readonly labels: Labels;
  readonly limitUses: UseTable;
  readonly joint = {
    key: new Map<number, JointLimits>(),
    group: new Map<number, JointLimits>(),
    account: new Map<number, JointLimits>(),
  };
  readonly usage;
  readonly voided;
  readonly subscriptions;
  readonly counters;
  readonly applied;
  readonly auditChains;
  readonly webhooks: WebhookTable;
  readonly deliveries;
  readonly eventMarks;
  readonly keys: Rows['keys'];
  readonly holds: Rows['holds'];
  readonly periods: Rows['periods'];
  readonly #keys: CachedTable<Key>;
  readonly #holds: CachedTable<Hold>;
  readonly #periods: CachedTable<PlanPeriod>;
  readonly #entries: AddedTable<Entry>;
  readonly #audit: AddedTable<AuditRow>;
  readonly #events: AddedTable<WebhookEvent>;
  readonly #sums: SumTable;
  readonly #secrets: AddedTable<OldSecret>;
  readonly #tallies: Tallies;
  readonly #db: Connection;
  readonly #queries: ReturnType<typeof prepareQueries>;
  readonly #tables: readonly { write(): void; settle(): void; clear(): void }[];
  /** The earliest time at which a hold, a key with money or a period may end; undefined: not known. */
  #nextExpiryMs: number | undefined;
  #nextKeyExpiryMs: number | undefined;
  #nextEndMs: number | undefined;

  constructor(sql: Sql) {
    const highest = (table: string): number =>
      Number(sql.db.prepare<[], { id: bigint | null }>(`SELECT max(id) AS id FROM ${table}`).get()?.id ?? 0n);
    this.accounts = new CachedTable(sql, accountTable);
    this.#keys = new CachedTable(sql, keyTable);
    this.managementKeys = new CachedTable(sql, managementKeyTable);
    this.sessions = new CachedTable(sql, sessionTable);
    this.keyDays = new CachedTable(sql, keyDayTable);
    this.planDays = new CachedTable(sql, planDayTable);
    this.groups = new GroupTable(sql);
    this.limits = new LimitTable(sql);
    this.labels = new Labels(sql);
    this.#secrets = new AddedTable(sql, secretTable);
    this.limitUses = new UseTable(sql, () => this.#begin());
    this.subscriptions = new CachedTable(sql, subscriptionTable);
    this.counters = new CachedTable(sql, counterTable);
    this.applied = new AddedTable(sql, appliedTable);
    this.usage = new AddedTable(sql, usageTable, highest('usage'));
    this.voided = new AddedTable(sql, voidedTable);
    this.#entries = new AddedTable(sql, entryTable);
    this.#audit = new AddedTable(sql, auditTable);
    this.webhooks = new WebhookTable(sql);
    this.#events = new AddedTable(sql, eventTable);
    this.deliveries = new CachedTable(sql, deliveryTable);
    this.eventMarks = new CachedTable(sql, eventMarkTable);
    this.auditChains = new CachedTable(sql, auditChainTable);
    this.#holds = new CachedTable(sql, holdTable, { highest: highest('hold') });
    this.#periods = new CachedTable(sql, periodTable);
    this.#sums = new SumTable(sql, this.labels);
    this.#tallies = new Tallies(sql);
    this.#db = sql.db;
    this.keys = watched(this.#keys, key => {
      this.#nextKeyExpiryMs = this.#nextKeyExpiryMs && Math.min(this.#nextKeyExpiryMs, keyExpiryMs(key));
    });
    this.holds = watched(this.#holds, hold => {
      this.#nextExpiryMs = this.#nextExpiryMs && Math.min(this.#nextExpiryMs, expiryMs(hold));
    });
    this.periods = watched(this.#periods, period => {
      this.#nextEndMs = this.#nextEndMs && Math.min(this.#nextEndMs, endMs(period));
    });
    // In an order in which each row finds the rows that it refers to.
    this.#tables = [
      this.labels,
      this.accounts,
      this.subscriptions,
      this.#periods,
      this.groups,
      this.#keys,
      this.#secrets,
      this.managementKeys,
      this.sessions,
      this.keyDays,
      this.planDays,
      this.limits,
      this.limitUses,
      this.#holds,
      this.usage,
      this.voided,
      this.#entries,
      this.#audit,
      this.auditChains,
      this.webhooks,
      this.#events,
      this.deliveries,
      this.eventMarks,
      this.#sums,
      this.counters,
      this.applied,
    ];
    this.#queries = prepareQueries(sql);
  }

  addEntry(entry: Entry): void {
    this.#entries.put(entry);
  }

  addAudit(row: AuditRow): void {
    this.#audit.put(row);
  }

  listWebhooks(accountId: number): readonly Webhook[] {
    return this.webhooks.of(accountId);
  }

  listAllWebhooks(accountId: number): readonly Webhook[] {
    return this.webhooks.all(accountId);
  }

  addEvent(event: WebhookEvent): void {
    this.#events.put(event);
  }

  listKeys(accountId: number): readonly Key[] {
    this.flush();
    return existing(this.#queries.ofAccount.all(accountId).map(({ id }) => this.#keys.get(Number(id))));
  }

  listManagementKeys(accountId: number): readonly ManagementKey[] {
    this.flush();
    return existing(
      this.#queries.managementOfAccount.all(accountId).map(({ id }) => this.managementKeys.get(Number(id))),
    );
  }

  expiringKeys(afterMs: number, byMs: number): readonly Key[] {
    this.flush();
    return existing(this.#queries.expiring.all(afterMs, byMs).map(({ id }) => this.#keys.get(Number(id))));
  }

  findEntry(reference: string): Entry | undefined {
    return this.#entries.findBy('reference', reference);
  }

  raiseSum(change: SumChange): void {
    this.#sums.add(change);
  }

  listLimits(scope: LimitScope, scopeId: number): readonly Limit[] {
    return this.limits.of(scope, scopeId);
  }

  forgetUses(limitId: number): void {
    const limit = this.limits.get(limitId);
    if (limit !== undefined) separate(this, limit.scope, limit.scopeId);
    this.limitUses.forget(limitId);
  }

  /** Makes the next `write` store uses of limits, with the present uses of these limits. */
  showUses(wanted: LimitFilter | number, nowMs: number): void {
    const limits = typeof wanted === 'number' ? existing([this.limits.get(wanted)]) : this.limits.list(wanted);
    for (const limit of limits) {
      separate(this, limit.scope, limit.scopeId);
      if (!limit.removed) ensureCounted(this, limit, nowMs);
    }
    this.limitUses.want();
  }

  /** Writes all uses of limits, for the next process to continue with. */
  finishUses(): void {
    separateAll(this);
    this.limitUses.finish();
  }

  tally(span: TallySpan): readonly Tally[] {
    this.flush();
    return this.#tallies.read(span);
  }

  modelName(modelId: number): string {
    return this.labels.modelName(modelId);
  }

  kindNumber(modelId: number, providerId: number, endpointId: number): number {
    return this.labels.kind(modelId, providerId, endpointId);
  }

  tagsNumber(tags: Tags): number | null {
    return this.labels.tagSet(tags);
  }

  tagNumbers(tagsId: number): readonly number[] {
    return this.labels.listTags(tagsId);
  }

  listGroups(accountId: number): readonly Group[] {
    return this.groups.of(accountId);
  }

  hasKeys(groupId: number): boolean {
    this.flush();
    return this.#queries.findKey.get(groupId) !== undefined;
  }

  addSecret(secret: OldSecret): void {
    this.#secrets.put(secret);
  }

  hasHash(hash: Uint8Array): boolean {
    this.flush();
    return this.#queries.findHash.get(hash, hash, hash, hash) !== undefined;
  }

  expiredHolds(nowMs: number): readonly Hold[] {
    this.#nextExpiryMs ??= Math.min(
      Number(this.#queries.nextExpiry.get()?.at ?? Number.POSITIVE_INFINITY),
      ...this.#holds.changed().map(expiryMs),
    );
    if (nowMs < this.#nextExpiryMs) return none;
    this.#nextExpiryMs = undefined;
    const stored = this.#queries.expired.all(nowMs).map(({ id }) => this.#holds.get(Number(id)));
    const all = new Set([...existing(stored), ...this.#holds.changed()]);
    const expired = [...all].filter(hold => expiryMs(hold) <= nowMs);
    return expired.sort((a, b) => expiryMs(a) - expiryMs(b) || a.id - b.id);
  }

  expiredKeys(nowMs: number): readonly Key[] {
    this.#nextKeyExpiryMs ??= Math.min(
      Number(this.#queries.nextKeyExpiry.get()?.at ?? Number.POSITIVE_INFINITY),
      ...this.#keys.changed().map(keyExpiryMs),
    );
    if (nowMs < this.#nextKeyExpiryMs) return none;
    this.#nextKeyExpiryMs = undefined;
    const stored = this.#queries.expiredKeys.all(nowMs).map(({ id }) => this.#keys.get(Number(id)));
    const all = new Set([...existing(stored), ...this.#keys.changed()]);
    return [...all].filter(key => keyExpiryMs(key) <= nowMs).sort((a, b) => a.id - b.id);
  }

  ownHolds(): readonly Hold[] {
    return existing(this.#queries.own.all().map(({ id }) => this.#holds.get(Number(id))));
  }

  endedPeriods(nowMs: number): readonly PlanPeriod[] {
    this.#nextEndMs ??= Math.min(
      Number(this.#queries.nextEnd.get()?.at ?? Number.POSITIVE_INFINITY),
      ...this.#periods.changed().map(endMs),
    );
    if (nowMs < this.#nextEndMs) return none;
    this.#nextEndMs = undefined;
    const stored = this.#queries.ended
      .all(nowMs)
      .map(row => this.#periods.get(Number(row.account_id), Number(row.number)));
    const all = new Set([...existing(stored), ...this.#periods.changed()]);
    const ended = [...all].filter(period => endMs(period) <= nowMs);
    return ended.sort((a, b) => a.endMs - b.endMs || a.accountId - b.accountId);
  }

  /** Writes the batch's changes so far in its transaction, which it begins if necessary. */
  flush(): void {
    this.#begin();
    this.write();
    this.settle();
  }

  #begin(): void {
    if (!this.#db.inTransaction) this.#db.exec('BEGIN IMMEDIATE');
  }

  /** Writes the batch's changes, each row once. If SQLite throws, so does this, and `clear` must follow. */
  write(): void {
    for (const table of this.#tables) table.write();
    if (this.applied.added > 0) this.#queries.pruneApplied.run(appliedMax);
  }

  /** The batch is stored. */
  settle(): void {
    for (const table of this.#tables) table.settle();
  }

  /** Discards the rows in memory, because a batch was not stored. */
  clear(): void {
    for (const table of this.#tables) table.clear();
    for (const scopes of Object.values(this.joint)) scopes.clear();
    this.#nextExpiryMs = undefined;
    this.#nextKeyExpiryMs = undefined;
    this.#nextEndMs = undefined;
  }
}

/** Prepares the queries on the file other than rows by their keys. */
function prepareQueries(sql: Sql) {
  return {
    findHash: sql.prepare<[Uint8Array, Uint8Array, Uint8Array, Uint8Array], unknown>(hashSelect),
    findKey: sql.prepare<[number], unknown>("SELECT 1 FROM api_key WHERE group_id = ? AND state <> 'revoked' LIMIT 1"),
    pruneApplied: sql.prepare<[number], unknown>(
      'DELETE FROM applied WHERE number <= (SELECT max(number) FROM applied) - ?',
    ),
    nextExpiry: sql.prepare<[], { at: bigint | null }>(
      'SELECT min(expires_at_ms) AS at FROM hold WHERE expires_at_ms IS NOT NULL',
    ),
    expired: sql.prepare<[number], { id: bigint }>('SELECT id FROM hold WHERE expires_at_ms <= ?'),
    own: sql.prepare<[], { id: bigint }>('SELECT id FROM hold WHERE expires_at_ms IS NULL ORDER BY id'),
    nextKeyExpiry: sql.prepare<[], { at: bigint | null }>(
      'SELECT min(expires_at_ms) AS at FROM api_key WHERE expires_at_ms IS NOT NULL AND balance > held',
    ),
    expiredKeys: sql.prepare<[number], { id: bigint }>(
      'SELECT id FROM api_key WHERE expires_at_ms <= ? AND balance > held',
    ),
    ofAccount: sql.prepare<[number], { id: bigint }>(
      "SELECT id FROM api_key WHERE account_id = ? AND state <> 'revoked' ORDER BY id",
    ),
    managementOfAccount: sql.prepare<[number], { id: bigint }>(
      "SELECT id FROM management_key WHERE account_id = ? AND state <> 'revoked' ORDER BY id",
    ),
    expiring: sql.prepare<[number, number], { id: bigint }>(
      'SELECT id FROM api_key WHERE expires_at_ms > ? AND expires_at_ms <= ? ORDER BY id',
    ),
    nextEnd: sql.prepare<[], { at: bigint | null }>('SELECT min(end_ms) AS at FROM plan_period WHERE live = 1'),
    ended: sql.prepare<[number], { account_id: bigint; number: bigint }>(
      'SELECT account_id, number FROM plan_period WHERE live = 1 AND end_ms <= ?',
    ),
  };
}

const never = Number.POSITIVE_INFINITY;
const expiryMs = ({ expiresAtMs }: Hold): number => expiresAtMs ?? never;
/** Returns when the money of a key moves back to its account. */
const keyExpiryMs = ({ expiresAtMs, balance, held }: Key): number =>
  balance !== null && balance > held ? (expiresAtMs ?? never) : never;
/** Returns when a live period ends. */
const endMs = (period: PlanPeriod): number => (period.live ? period.endMs : never);

function existing<R>(rows: readonly (R | undefined)[]): R[] {
  return rows.filter(row => row !== undefined);
}

/** Returns the table wrapped so that it reports when each stored row ends. */
function watched<R, K extends readonly number[]>(
  table: CachedTable<R>,
  onPut: (row: R) => void,
): Table<R, K> & { remove(id: number): void } {
  return {
    get: (...key: K) => table.get(key[0] ?? 0, key[1]),
    put(row) {
      onPut(row);
      table.put(row);
    },
    remove: id => table.remove(id),
  };
}
