import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import { type Sendable, toArray, toParameter } from '../../lib/postgres/values.ts';
import type { AuditRow, LimitFilter, LimitScope, Tags } from '../ledger.ts';
import type {
  Account,
  Counter,
  Entry,
  Group,
  Hold,
  Key,
  Limit,
  LimitUse,
  ManagementKey,
  OldSecret,
  PlanPeriod,
  Rows,
  SumChange,
  Table,
  Tally,
  TallySpan,
  Usage,
  Voided,
  Webhook,
  WebhookEvent,
} from '../rows.ts';
import { ensureCounted } from '../rules/limits.ts';
import { Sql } from '../sqlite/sql.ts';
import { sumKeyCount, sumUp } from '../sqlite/sum-raises.ts';
import { other } from '../sqlite/sum-table.ts';
import { Tallies } from '../sqlite/tallies.ts';
import { type AccountConfig, type AccountConfigs, configSteps } from './account-config.ts';
import { BatchTable, type BatchScope, toColumnArrays, type TableStatements } from './batch-table.ts';
import type { ColumnTypes } from './column-types.ts';
import type { Dictionary } from './dictionary.ts';
import { Deadlines, holdEndMs, keyEndMs, periodEndMs } from './deadlines.ts';
import { MissingRow, UnlockedAccount } from './missing-row.ts';
import { MissingResult, Results } from './replay.ts';
import { bootColumn, type LedgerStatements } from './statements.ts';
import { SumBounds } from './sum-bounds.ts';

/** The parts that all batches of one process share. */
export interface Shared {
  readonly types: ColumnTypes;
  readonly statements: LedgerStatements;
  readonly dictionary: Dictionary;
  readonly configs: AccountConfigs;
  /** Keys of committed sums of end users and tags, whose number per account and day is bounded: see `SumBounds`. */
  readonly countedSums: Set<string>;
  /** Keys of the sums of all kinds that this process has committed. Sums are never removed. */
  readonly committedSums: Set<string>;
  /** Makes the id of an event. */
  readonly nextEventId: (nowMs: number) => number;
  /** The number of this run of the gateway, as the table `instance` has it; 0 in tests that register none. */
  boot: number;
}

const appliedMax = 10_000;
const storedSumsMax = 100_000;
const emptyConfig: AccountConfig = { version: 0, limits: new Map(), webhooks: [], hasGroups: false };
const noLimits: readonly Limit[] = [];
const hashSelect =
  'SELECT 1 FROM api_key WHERE hash = @hash UNION ALL SELECT 1 FROM old_secret WHERE hash = @hash UNION ALL SELECT 1 FROM management_key WHERE hash = @hash UNION ALL SELECT 1 FROM session WHERE hash = @hash';

/** The rows that a batch of commands reads and changes, in one transaction that has locked their accounts. */
export class BatchRows implements Rows {
  readonly accounts: Rows['accounts'];
  readonly keys: Rows['keys'];
  readonly managementKeys: BatchTable<ManagementKey>;
  readonly sessions;
  readonly keyDays;
  readonly planDays;
  readonly groups: Rows['groups'];
  readonly limits: Rows['limits'];
  readonly limitUses: Rows['limitUses'];
  readonly holds: Rows['holds'];
  readonly usage: Rows['usage'];
  readonly voided: Rows['voided'];
  readonly subscriptions;
  readonly periods: Rows['periods'];
  readonly counters: Rows['counters'];
  readonly applied;
  readonly auditChains;
  readonly webhooks: Rows['webhooks'];
  readonly deliveries;
  readonly eventMarks;
  /** The tables, for the engine to load rows into. */
  readonly tables: ReturnType<typeof makeTables>;
  readonly sumBounds: SumBounds;
  readonly undo: (() => void)[] = [];
  readonly #shared: Shared;
  readonly #locked: Set<number>;
  readonly #results = new Results();
  readonly #tallies: Tallies;
  readonly #deadlines: Deadlines;
  readonly #versions = new Map<number, number>();
  readonly #configChanged = new Set<number>();
  readonly #forgotten = new Set<number>();
  readonly #sums: SumChange[] = [];
  /** Keys of the sums that this batch has written and that `committedSums` did not contain. */
  readonly #writtenSums: string[] = [];
  readonly #secrets: OldSecret[] = [];
  #nowMs = 0;

  constructor(shared: Shared, locked: ReadonlySet<number>) {
    this.#shared = shared;
    this.#locked = new Set(locked);
    const scope: BatchScope = { types: shared.types, locked: this.#locked, undo: this.undo };
    const { statements } = shared;
    this.tables = makeTables(shared, scope);
    const { hold: holds } = this.tables;
    const { tables } = this;
    const columns = listDeadlineColumns(statements);
    this.#deadlines = new Deadlines({ holds, keys: tables.key, periods: tables.period, columns });
    this.sumBounds = new SumBounds(shared.countedSums, this.undo);
    this.#tallies = new Tallies(new Sql(this.#results.asConnection()));
    this.accounts = { get: id => this.#account(id), put: row => tables.account.put(row) };
    this.managementKeys = tables.managementKey;
    this.sessions = tables.session;
    this.keyDays = tables.keyDay;
    this.planDays = tables.planDay;
    this.subscriptions = tables.subscription;
    this.applied = tables.applied;
    this.auditChains = tables.auditChain;
    this.deliveries = tables.delivery;
    this.eventMarks = tables.eventMark;
    this.keys = withPutListener<Key, [number]>(tables.key, key =>
      this.#deadlines.bringForward(key.accountId, keyEndMs(key)),
    );
    this.holds = {
      ...withPutListener<Hold, [number]>(holds, hold => this.#deadlines.bringForward(hold.accountId, holdEndMs(hold))),
      remove: id => holds.remove(id),
    };
    this.periods = withPutListener<PlanPeriod, [number, number]>(tables.period, period =>
      this.#deadlines.bringForward(period.accountId, periodEndMs(period)),
    );
    this.groups = withPutListener<Group, [number]>(tables.group, group => {
      if (group.removed || !tables.group.has(group.id)) this.#changeConfig(group.accountId);
    });
    this.limits = withPutListener<Limit, [number]>(tables.limit, limit => this.#changeLimit(limit));
    this.webhooks = withPutListener<Webhook, [number]>(tables.webhook, webhook =>
      this.#changeConfig(webhook.accountId),
    );
    this.limitUses = { get: (...key) => this.#use(key), put: row => tables.limitUse.put(row) };
    this.usage = { get: id => tables.usage.get(id), put: (row: Usage) => tables.usage.put(row) };
    this.voided = { get: id => this.#lastVoided(id), put: (row: Voided) => tables.voided.put(row) };
    this.counters = { get: name => this.#counter(name), put: row => this.#putCounter(row) };
  }

  /** The dictionary of the names of models, providers, tags and so on, and their ids. */
  get labels(): Dictionary {
    return this.#shared.dictionary;
  }

  /** Begins a command. The rules use `nowMs` as the current time. */
  begin(nowMs: number): void {
    this.#nowMs = nowMs;
    this.undo.length = 0;
    this.#results.clear();
  }

  /** Undoes the last steps until `length` are left. */
  undoTo(length: number): void {
    for (const step of this.undo.splice(length).reverse()) step();
  }

  /** Adds a locked account as the database has it. `config` and `dueAtMs` are columns that the rules do not use. */
  addLoadedAccount(account: Account, config: number, dueAtMs: number | null): void {
    this.tables.account.addLoaded(account);
    this.#versions.set(account.id, config);
    this.#deadlines.addLoaded(account.id, dueAtMs);
  }

  setOperatorConfigVersion(version: number): void {
    this.#versions.set(0, version);
  }

  /** Stores the result of a query that a rule needed. */
  addResult(missing: MissingResult, result: StepResult): void {
    this.#results.add(missing, result);
  }

  addEntry(entry: Entry): void {
    this.tables.entry.put(entry);
  }

  addAudit(row: AuditRow): void {
    this.tables.audit.put(row);
  }

  addEvent(event: WebhookEvent): void {
    this.tables.event.put(event);
  }

  addSecret(secret: OldSecret): void {
    this.#secrets.push(secret);
    this.undo.push(() => this.#secrets.pop());
  }

  listWebhooks(accountId: number): readonly Webhook[] {
    const all = this.listAllWebhooks(accountId);
    return all.length === 0 ? all : all.filter(({ disabled }) => !disabled);
  }

  listAllWebhooks(accountId: number): readonly Webhook[] {
    const { webhooks } = this.#config(accountId);
    const table = this.tables.webhook;
    if (!table.hasChangedInBatch) return webhooks;
    const changed = table.changedInBatch().filter(webhook => webhook.accountId === accountId);
    return overlay(webhooks, changed).filter(({ removed }) => !removed);
  }

  listKeys(accountId: number): readonly Key[] {
    const stored = this.#select(this.tables.key, this.#shared.statements.key, 'account_id = ?', [accountId]);
    const keys = overlay(stored, this.tables.key.changed());
    return keys.filter(key => key.accountId === accountId && key.state !== 'revoked');
  }

  listManagementKeys(accountId: number): readonly ManagementKey[] {
    const table = this.tables.managementKey;
    const stored = this.#select(table, this.#shared.statements.managementKey, 'account_id = ?', [accountId]);
    const keys = overlay(stored, table.changed());
    return keys.filter(key => key.accountId === accountId && key.state !== 'revoked');
  }

  /** Returns the keys that expire after `afterMs` and not after `byMs`. Throws `UnlockedAccount` if one of them belongs to an account that is not locked. */
  expiringKeys(afterMs: number, byMs: number): readonly Key[] {
    const where = 'expires_at_ms > ? AND expires_at_ms <= ?';
    return this.#select(this.tables.key, this.#shared.statements.key, where, [afterMs, byMs]);
  }

  findEntry(reference: string): Entry | undefined {
    const added = this.tables.entry.changed().find(entry => entry.reference === reference);
    if (added !== undefined) return added;
    return this.#select(this.tables.entry, this.#shared.statements.entry, 'reference = ?', [reference])[0];
  }

  /** Adds to a sum; to the sum `(other)` instead if the account has too many different sums of this kind on that day. */
  raiseSum(change: SumChange): void {
    this.#sums.push(this.#bounded(change));
    this.undo.push(() => this.#sums.pop());
  }

  listGroups(accountId: number): readonly Group[] {
    const table = this.tables.group;
    const stored = this.#select(table, this.#shared.statements.group, 'account_id = ? AND removed = 0', [accountId]);
    return overlay(stored, table.changed()).filter(group => group.accountId === accountId && !group.removed);
  }

  hasKeys(groupId: number): boolean {
    const table = this.tables.key;
    const stored = this.#select(table, this.#shared.statements.key, 'group_id = ?', [groupId]);
    return overlay(stored, table.changed()).some(key => key.groupId === groupId && key.state !== 'revoked');
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

  modelName(modelId: number): string {
    return this.labels.modelName(modelId);
  }

  listLimits(scope: LimitScope, scopeId: number): readonly Limit[] {
    const { limits } = this.#config(this.#findOwner(scope, scopeId));
    const stored = limits.get(`${scope} ${scopeId}`) ?? noLimits;
    const table = this.tables.limit;
    if (!table.hasChangedInBatch) return stored;
    const changed = table.changedInBatch().filter(limit => limit.scope === scope && limit.scopeId === scopeId);
    return overlay(stored, changed).filter(({ removed }) => !removed);
  }

  forgetUses(limitId: number): void {
    for (const { number, endUser, ...use } of this.tables.limitUse.rows()) {
      if (use.limitId === limitId) this.tables.limitUse.drop(limitId, number, endUser);
    }
    if (this.#forgotten.has(limitId)) return;
    this.#forgotten.add(limitId);
    this.undo.push(() => this.#forgotten.delete(limitId));
  }

  tally(span: TallySpan): readonly Tally[] {
    return this.#read(() => this.#tallies.read(span));
  }

  hasHash(hash: Uint8Array): boolean {
    const { key, managementKey, session } = this.tables;
    const added = [...key.changed(), ...managementKey.changed(), ...session.changed(), ...this.#secrets];
    if (added.some(row => Buffer.compare(row.hash, hash) === 0)) return true;
    return this.#read(() => this.#results.read(hashSelect, [{ hash }]).rows.length > 0);
  }

  expiredHolds(nowMs: number): readonly Hold[] {
    if (!this.#deadlines.hasEnded(nowMs)) return [];
    const ended = this.tables.hold.rows().filter(hold => holdEndMs(hold) <= nowMs);
    return ended.sort((a, b) => holdEndMs(a) - holdEndMs(b) || a.id - b.id);
  }

  expiredKeys(nowMs: number): readonly Key[] {
    if (!this.#deadlines.hasEnded(nowMs)) return [];
    return this.tables.key
      .rows()
      .filter(key => keyEndMs(key) <= nowMs)
      .sort((a, b) => a.id - b.id);
  }

  endedPeriods(nowMs: number): readonly PlanPeriod[] {
    if (!this.#deadlines.hasEnded(nowMs)) return [];
    const ended = this.tables.period.rows().filter(period => periodEndMs(period) <= nowMs);
    return ended.sort((a, b) => a.endMs - b.endMs || a.accountId - b.accountId);
  }

  /** Returns none: the holds that a stopped instance left are ended by commands, one for each hold. */
  ownHolds(): readonly Hold[] {
    return [];
  }

  /** Makes sure that the use of limits in their current windows is counted and stored. */
  showUses(wanted: LimitFilter | number, nowMs: number): void {
    const limits = typeof wanted === 'number' ? [this.limits.get(wanted)] : this.#listLimits(wanted);
    for (const limit of limits) if (limit?.removed === false) ensureCounted(this, limit, nowMs);
  }

  /** Whether there is anything to write. */
  get hasChanges(): boolean {
    return Object.values(this.tables).some(table => table.hasChanges) || this.#sums.length > 0;
  }

  /** Returns the statements that write all changes, one table after the other; rows come after the rows that they refer to. */
  writeSteps(): Step[] {
    const { limitUse, hold, ...tables } = this.tables;
    const { account, subscription, period, group, key, ...rest } = tables;
    return [
      ...[account, subscription, period, group, key].flatMap(table => table.writeSteps()),
      ...this.#secretSteps(),
      ...this.#forgetSteps(),
      ...limitUse.writeSteps(),
      ...hold.writeSteps(),
      ...Object.values(rest).flatMap(table => table.writeSteps()),
      ...this.#sumSteps(),
      ...this.#configSteps(),
      ...this.#deadlines.writeSteps(),
      ...(tables.applied.hasChanges ? [pruneApplied] : []),
    ];
  }

  /** Forgets the pending changes, because they have been written. The batch continues. */
  markWritten(): void {
    for (const table of Object.values(this.tables)) table.markWritten();
    this.#deadlines.markWritten();
    this.#sums.length = 0;
    this.#secrets.length = 0;
    this.#forgotten.clear();
    this.undo.length = 0;
  }

  /** Called if the batch is rolled back: configurations that it has loaded may contain its changes. */
  abandon(): void {
    for (const accountId of this.#configChanged) this.#shared.configs.forget(accountId);
  }

  /** Called when the batch has been committed. */
  finish(): void {
    for (const accountId of this.#configChanged) this.#shared.configs.forget(accountId);
    this.sumBounds.finish();
    const { committedSums } = this.#shared;
    if (committedSums.size > storedSumsMax) committedSums.clear();
    for (const name of this.#writtenSums) committedSums.add(name);
  }

  #account(id: number): Account | undefined {
    if (!this.tables.account.has(id) && !this.#locked.has(id)) throw new UnlockedAccount(id);
    return this.tables.account.get(id);
  }

  #findOwner(scope: LimitScope, scopeId: number): number {
    if (scope === 'account') return scopeId;
    return (scope === 'key' ? this.keys : this.groups).get(scopeId)?.accountId ?? 0;
  }

  /** Returns the configuration of a locked account; an empty one for an account that this batch creates. */
  #config(accountId: number): AccountConfig {
    const version = this.#versions.get(accountId);
    if (version === undefined) return emptyConfig;
    const { configs } = this.#shared;
    const known = configs.find(accountId, version);
    if (known !== undefined) return known;
    const wanted = new Map([...this.#versions].filter(([id, own]) => configs.find(id, own) === undefined));
    throw new MissingRow({
      steps: configSteps(wanted.keys()),
      onResults: results => configs.addLoaded(wanted, results),
    });
  }

  /** Called before a limit is put. If the rule got it from `listLimits`, adds its stored row to the table first, so that it is updated, not inserted. */
  #changeLimit({ id, accountId, scope, scopeId }: Limit): void {
    this.#changeConfig(accountId);
    if (this.tables.limit.has(id)) return;
    const stored = this.#config(accountId)
      .limits.get(`${scope} ${scopeId}`)
      ?.find(limit => limit.id === id);
    if (stored !== undefined) this.tables.limit.addLoaded(stored);
  }

  #changeConfig(accountId: number): void {
    this.#configChanged.add(accountId);
  }

  #use([limitId, number, endUser]: readonly [number, number, number]): LimitUse | undefined {
    const table = this.tables.limitUse;
    if (this.#forgotten.has(limitId) && !table.has(limitId, number, endUser)) return undefined;
    return table.get(limitId, number, endUser);
  }

  #lastVoided(id: number): Voided | undefined {
    const added = this.tables.voided.changed().findLast(row => row.id === id);
    if (added !== undefined) return added;
    const { statements } = this.#shared;
    return this.#select(this.tables.voided, statements.voided, 'id = ?', [id]).toSorted(
      (a, b) => b.number - a.number,
    )[0];
  }

  /**
   * These two counters have no row here, because all accounts would wait for its lock: ids of events come from `nextEventId`, and the highest id
   * of requests is looked up when a gateway starts. `last_id` is the highest number, so that no rule raises it.
   */
  #counter(name: Counter['name']): Counter | undefined {
    if (name === 'event') return { name, value: this.#shared.nextEventId(this.#nowMs) - 1 };
    if (name === 'last_id') return { name, value: Number.MAX_SAFE_INTEGER };
    return this.tables.counter.get(name);
  }

  #putCounter(row: Counter): void {
    if (row.name !== 'event' && row.name !== 'last_id') this.tables.counter.put(row);
  }

  #bounded(change: SumChange): SumChange {
    const { accountId, grouped, valueId, usage } = change;
    if (grouped !== 'end_user' && grouped !== 'tag') return change;
    if (this.sumBounds.hasRoom({ accountId, grouped, valueId }, usage.admittedAtMs)) return change;
    return { ...change, valueId: this.labels.other(grouped, valueId, other) };
  }

  #listLimits({ accountId, scope, scopeId }: LimitFilter): readonly Limit[] {
    if (!this.#locked.has(accountId)) throw new UnlockedAccount(accountId);
    const stored = [...this.#config(accountId).limits.values()].flat();
    const limits = overlay(stored, this.tables.limit.changedInBatch());
    return limits.filter(
      limit =>
        limit.accountId === accountId &&
        (scope ?? limit.scope) === limit.scope &&
        (scopeId ?? limit.scopeId) === limit.scopeId,
    );
  }

  /** Returns stored rows that fulfil a condition. Rows that this batch has changed are returned as changed. */
  #select<R>(
    table: BatchTable<R>,
    { spec, codec }: TableStatements<R>,
    where: string,
    values: readonly Sendable[],
  ): R[] {
    const text = `SELECT ${codec.names.join(', ')} FROM ${spec.table} WHERE ${where} ORDER BY 1`;
    return table.addAllLoaded(this.#read(() => this.#results.read(text, values)));
  }

  /** Returns the result of a query. Throws `MissingRow` if it has not been run yet: it is run after the changes of earlier commands are written. */
  #read<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof MissingResult)) throw error;
      throw new MissingRow({
        when: 'changes',
        steps: [error.step],
        onResults: ([result]) => {
          if (result !== undefined) this.addResult(error, result);
        },
      });
    }
  }

  #secretSteps(): Step[] {
    if (this.#secrets.length === 0) return [];
    const { insert, codec } = this.#shared.statements.secret;
    return [{ text: insert, values: toColumnArrays(this.#secrets.map(secret => codec.write(secret))) }];
  }

  #forgetSteps(): Step[] {
    if (this.#forgotten.size === 0) return [];
    return [{ text: 'DELETE FROM limit_use WHERE limit_id = ANY($1::bigint[])', values: [toArray(this.#forgotten)] }];
  }

  #sumSteps(): Step[] {
    if (this.#sums.length === 0) return [];
    const { committedSums, statements } = this.#shared;
    const steps: Step[] = [];
    const named = sumUp(this.#sums).map(sum => ({ sum, name: sum.slice(0, sumKeyCount).join(' ') }));
    const stored = named.filter(({ name }) => committedSums.has(name)).map(({ sum }) => sum);
    const others = named.filter(({ name }) => !committedSums.has(name));
    for (const { name } of others) this.#writtenSums.push(name);
    if (stored.length > 0) {
      steps.push({ text: statements.raiseSums, values: [...toColumnArrays(stored), String(stored.length)] });
    }
    if (others.length > 0)
      steps.push({ text: statements.addSums, values: toColumnArrays(others.map(({ sum }) => sum)) });
    return steps;
  }

  #configSteps(): Step[] {
    const accounts = [...this.#configChanged].filter(id => id !== 0);
    const steps: Step[] = [];
    if (accounts.length > 0) {
      steps.push({
        text: 'UPDATE account SET config = config + 1 WHERE id = ANY($1::bigint[])',
        values: [toArray(accounts)],
      });
    }
    if (this.#configChanged.has(0)) {
      steps.push({ text: "UPDATE meta SET value = value + 1 WHERE name = 'operator_config'", values: [] });
    }
    return steps;
  }
}

/** Makes the tables of a batch. */
function makeTables({ statements, boot }: Shared, scope: BatchScope) {
  const table = <R>(each: TableStatements<R>): BatchTable<R> => new BatchTable(each, scope);
  return {
    account: table(statements.account),
    subscription: table(statements.subscription),
    period: table(statements.period),
    group: table(statements.group),
    key: table(statements.key),
    managementKey: table(statements.managementKey),
    session: table(statements.session),
    keyDay: table(statements.keyDay),
    planDay: table(statements.planDay),
    limit: table(statements.limit),
    limitUse: table(statements.limitUse),
    hold: new BatchTable(statements.hold, scope, [bootColumn(boot)]),
    usage: table(statements.usage),
    voided: table(statements.voided),
    entry: table(statements.entry),
    audit: table(statements.audit),
    auditChain: table(statements.auditChain),
    webhook: table(statements.webhook),
    event: table(statements.event),
    delivery: table(statements.delivery),
    eventMark: table(statements.eventMark),
    counter: table(statements.counter),
    applied: table(statements.applied),
  };
}

const pruneApplied: Step = {
  text: 'DELETE FROM applied WHERE number <= (SELECT max(number) FROM applied) - $1::bigint',
  values: [toParameter(appliedMax)],
};

/** Returns the table with `onPut` called before each row is put. */
function withPutListener<R, K extends readonly (number | string)[]>(
  table: BatchTable<R>,
  onPut: (row: R) => void,
): Table<R, K> {
  return {
    get: (...key: K) => table.get(...key),
    put(row) {
      onPut(row);
      table.put(row);
    },
  };
}

/** Returns the stored rows with the changed ones replaced or added, sorted by id. */
function overlay<R extends { readonly id: number }>(stored: readonly R[], changed: readonly R[]): R[] {
  const rows = new Map(stored.map(row => [row.id, row]));
  for (const row of changed) rows.set(row.id, row);
  return [...rows.values()].sort((a, b) => a.id - b.id);
}

/** Returns the columns of the rows that have deadlines, as SQL. */
function listDeadlineColumns({ hold, key, period }: Shared['statements']) {
  return {
    hold: hold.codec.names.join(', '),
    key: key.codec.names.join(', '),
    period: period.codec.names.join(', '),
  };
}
