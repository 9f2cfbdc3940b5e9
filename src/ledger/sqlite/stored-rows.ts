import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { LimitFilter, LimitScope, Tags } from '../ledger.ts';
import type {
  Entry,
  Group,
  Hold,
  Key,
  Limit,
  OldSecret,
  PlanPeriod,
  Rows,
  SumChange,
  Table,
  Tally,
  TallySpan,
} from '../rows.ts';
import { countPresent } from '../rules/limits.ts';
import { AddedTable } from './added-table.ts';
import { CachedTable } from './cached-table.ts';
import { GroupTable } from './group-table.ts';
import { Labels } from './labels.ts';
import { LimitTable } from './limit-table.ts';
import type { Sql } from './sql.ts';
import { SumTable } from './sum-table.ts';
import { Tallies } from './tallies.ts';
import { UseTable } from './use-table.ts';
import {
  accountTable,
  appliedTable,
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
  /** What records name. */
  readonly labels: Labels;
  readonly limitUses: UseTable;
  readonly usage;
  readonly voided;
  readonly subscriptions;
  readonly counters;
  readonly applied;
  readonly keys: Rows['keys'];
  readonly holds: Rows['holds'];
  readonly periods: Rows['periods'];
  readonly #keys: CachedTable<Key>;
  readonly #holds: CachedTable<Hold>;
  readonly #periods: CachedTable<PlanPeriod>;
  readonly #entries: AddedTable<Entry>;
  readonly #sums: SumTable;
  readonly #secrets: AddedTable<OldSecret>;
  readonly #tallies: Tallies;
  readonly #db: Connection;
  readonly #tables: readonly { write(): void; settle(): void; clear(): void }[];
  readonly #findHash: Query<[Uint8Array, Uint8Array, Uint8Array, Uint8Array], unknown>;
  readonly #findKey: Query<[number], unknown>;
  readonly #pruneApplied: Query<[number], unknown>;
  readonly #nextExpiry: Query<[], { at: bigint | null }>;
  readonly #expired: Query<[number], { id: bigint }>;
  readonly #own: Query<[], { id: bigint }>;
  readonly #nextKeyExpiry: Query<[], { at: bigint | null }>;
  readonly #expiredKeys: Query<[number], { id: bigint }>;
  readonly #nextEnd: Query<[], { at: bigint | null }>;
  readonly #ended: Query<[number], { account_id: bigint; number: bigint }>;
  /** No hold expires, no key with money expires and no period ends before; undefined: not known. */
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
    // In an order in which each row finds the rows that it names.
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
      this.#sums,
      this.counters,
      this.applied,
    ];
    this.#findHash = sql.prepare(hashSelect);
    this.#findKey = sql.prepare("SELECT 1 FROM api_key WHERE group_id = ? AND state <> 'revoked' LIMIT 1");
    this.#pruneApplied = sql.prepare('DELETE FROM applied WHERE number <= (SELECT max(number) FROM applied) - ?');
    this.#nextExpiry = sql.prepare('SELECT min(expires_at_ms) AS at FROM hold WHERE expires_at_ms IS NOT NULL');
    this.#expired = sql.prepare('SELECT id FROM hold WHERE expires_at_ms <= ?');
    this.#own = sql.prepare('SELECT id FROM hold WHERE expires_at_ms IS NULL ORDER BY id');
    this.#nextKeyExpiry = sql.prepare(
      'SELECT min(expires_at_ms) AS at FROM api_key WHERE expires_at_ms IS NOT NULL AND balance > held',
    );
    this.#expiredKeys = sql.prepare('SELECT id FROM api_key WHERE expires_at_ms <= ? AND balance > held');
    this.#nextEnd = sql.prepare('SELECT min(end_ms) AS at FROM plan_period WHERE live = 1');
    this.#ended = sql.prepare('SELECT account_id, number FROM plan_period WHERE live = 1 AND end_ms <= ?');
  }

  addEntry(entry: Entry): void {
    this.#entries.put(entry);
  }

  findEntry(reference: string): Entry | undefined {
    return this.#entries.findBy('reference', reference);
  }

  raiseSum(change: SumChange): void {
    this.#sums.add(change);
  }

  limitsOf(scope: LimitScope, scopeId: number): readonly Limit[] {
    return this.limits.of(scope, scopeId);
  }

  forgetUses(limitId: number): void {
    this.limitUses.forget(limitId);
  }

  /** Has the next `write` write uses of limits, with those of these limits as they stand now. */
  showUses(wanted: LimitFilter | number, nowMs: number): void {
    const limits = typeof wanted === 'number' ? existing([this.limits.get(wanted)]) : this.limits.list(wanted);
    for (const limit of limits) if (!limit.removed) countPresent(this, limit, nowMs);
    this.limitUses.want();
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
    return this.labels.tagsOf(tagsId);
  }

  groupsOf(accountId: number): readonly Group[] {
    return this.groups.of(accountId);
  }

  hasKeys(groupId: number): boolean {
    this.flush();
    return this.#findKey.get(groupId) !== undefined;
  }

  addSecret(secret: OldSecret): void {
    this.#secrets.put(secret);
  }

  hasHash(hash: Uint8Array): boolean {
    this.flush();
    return this.#findHash.get(hash, hash, hash, hash) !== undefined;
  }

  expiredHolds(nowMs: number): readonly Hold[] {
    this.#nextExpiryMs ??= Math.min(
      Number(this.#nextExpiry.get()?.at ?? Number.POSITIVE_INFINITY),
      ...this.#holds.changed().map(expiryMs),
    );
    if (nowMs < this.#nextExpiryMs) return none;
    this.#nextExpiryMs = undefined;
    const stored = this.#expired.all(nowMs).map(({ id }) => this.#holds.get(Number(id)));
    const all = new Set([...existing(stored), ...this.#holds.changed()]);
    const expired = [...all].filter(hold => expiryMs(hold) <= nowMs);
    return expired.sort((a, b) => expiryMs(a) - expiryMs(b) || a.id - b.id);
  }

  expiredKeys(nowMs: number): readonly Key[] {
    this.#nextKeyExpiryMs ??= Math.min(
      Number(this.#nextKeyExpiry.get()?.at ?? Number.POSITIVE_INFINITY),
      ...this.#keys.changed().map(keyExpiryMs),
    );
    if (nowMs < this.#nextKeyExpiryMs) return none;
    this.#nextKeyExpiryMs = undefined;
    const stored = this.#expiredKeys.all(nowMs).map(({ id }) => this.#keys.get(Number(id)));
    const all = new Set([...existing(stored), ...this.#keys.changed()]);
    return [...all].filter(key => keyExpiryMs(key) <= nowMs).sort((a, b) => a.id - b.id);
  }

  ownHolds(): readonly Hold[] {
    return existing(this.#own.all().map(({ id }) => this.#holds.get(Number(id))));
  }

  endedPeriods(nowMs: number): readonly PlanPeriod[] {
    this.#nextEndMs ??= Math.min(
      Number(this.#nextEnd.get()?.at ?? Number.POSITIVE_INFINITY),
      ...this.#periods.changed().map(endMs),
    );
    if (nowMs < this.#nextEndMs) return none;
    this.#nextEndMs = undefined;
    const stored = this.#ended.all(nowMs).map(row => this.#periods.get(Number(row.account_id), Number(row.number)));
    const all = new Set([...existing(stored), ...this.#periods.changed()]);
    const ended = [...all].filter(period => endMs(period) <= nowMs);
    return ended.sort((a, b) => a.endMs - b.endMs || a.accountId - b.accountId);
  }

  /** Writes what the batch has changed so far, in its transaction, which it begins where it has not begun. */
  flush(): void {
    this.#begin();
    this.write();
    this.settle();
  }

  #begin(): void {
    if (!this.#db.inTransaction) this.#db.exec('BEGIN IMMEDIATE');
  }

  /** Writes what the batch has changed, each row once. Throws what SQLite throws: then `clear` must follow. */
  write(): void {
    for (const table of this.#tables) table.write();
    if (this.applied.added > 0) this.#pruneApplied.run(appliedMax);
  }

  /** The batch is stored. */
  settle(): void {
    for (const table of this.#tables) table.settle();
  }

  /** Forgets what is in memory, because a batch was not stored. */
  clear(): void {
    for (const table of this.#tables) table.clear();
    this.#nextExpiryMs = undefined;
    this.#nextKeyExpiryMs = undefined;
    this.#nextEndMs = undefined;
  }
}

const never = Number.POSITIVE_INFINITY;
const expiryMs = ({ expiresAtMs }: Hold): number => expiresAtMs ?? never;
/** When money of a key moves back to its account. */
const keyExpiryMs = ({ expiresAtMs, balance, held }: Key): number =>
  balance !== null && balance > held ? (expiresAtMs ?? never) : never;
/** When a live period ends. */
const endMs = (period: PlanPeriod): number => (period.live ? period.endMs : never);

function existing<R>(rows: readonly (R | undefined)[]): R[] {
  return rows.filter(row => row !== undefined);
}

/** The table, which says of each row that is put when it ends. */
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
