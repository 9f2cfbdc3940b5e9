import { randomBytes, randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WindowState } from '../../errors/gateway-error.ts';
import type { Clock } from '../../lib/clock.ts';
import { Reader } from '../reader/reader.ts';
import type { ReaderData } from '../reader/reads.ts';
import { makeDirectory } from '../../lib/make-directory.ts';
import type {
  AccountRow,
  ActivityFilter,
  AdmitCommand,
  Admitted,
  AnalyticsQuery,
  AnalyticsRow,
  AuditFilter,
  AuditRow,
  Bootstrap,
  Credential,
  DailyLimitUnit,
  Denied,
  EntryFilter,
  EntryRow,
  ExtendCommand,
  Extended,
  GroupRefusal,
  GroupRow,
  KeyFilter,
  KeyOwner,
  KeyRefusal,
  KeyRow,
  Ledger,
  LimitFilter,
  LimitRefusal,
  LimitRow,
  ManagementKeyRow,
  MovementRow,
  NewSession,
  PaidLine,
  Plans,
  RecordedAction,
  SettleCommand,
  SessionRow,
  Settled,
  SubscriptionRow,
  UsageRow,
  VoidedHoldRow,
  VoidReason,
} from '../ledger.ts';
import type {
  DeliveryFilter,
  DeliveryReport,
  DeliveryRow,
  DueDelivery,
  NamedWebhook,
  NewWebhook,
  OutsideEvent,
  WebhookRow,
} from '../webhooks.ts';
import type { RetentionLimits } from '../history.ts';
import { currentActor } from '../actor.ts';
import type { AdminCommands, AdminOrder, AdminReply } from '../rules/administration.ts';
import { found, ownHash, refusal } from './answers.ts';
import { Checkpoints } from './checkpoints.ts';
import { Credentials } from './credentials.ts';
import { type Connection, openForReading } from '../../lib/sqlite/database.ts';
import { holdLog, logBytes, refuseShared } from '../../lib/sqlite/log-file.ts';
import { type LedgerWatch, unwatched } from './ledger-watch.ts';
import { LogState } from './log-state.ts';
import type { FaultPlan } from './fault.ts';
import { KnownCredentials } from './known-credentials.ts';
import { acquireNodeLock } from './node-lock.ts';
import { ledgerPath } from './verify.ts';
import {
  type AdmitReply,
  decodeAdmitReply,
  decodeSettleReply,
  encodeAdmit,
  encodeSettle,
  type SettleReply,
  type WireCommand,
} from './wire.ts';
import { type CommitFacts, Writer } from './writer.ts';

const settleMsDefault = 10_000;

/** How to open the ledger. */
export interface SqliteLedgerOptions {
  /** Made where it is missing. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** How keys' `daily_limit` is read. */
  readonly dailyLimitUnit: DailyLimitUnit;
  /** What plans cost and give, from this opening on. */
  readonly plans: Plans;
  /** An account of whose requests more is written off is suspended; absent: none is. */
  readonly writeOffMax?: bigint | undefined;
  /** How long a settle may wait for storage if its caller can't wait longer; absent: 10 s. */
  readonly settleMs?: number;
  /** Told of every batch of commands that became durable. */
  readonly observe?: (commit: CommitFacts) => void;
  /** Told of failures; absent: nobody is. */
  readonly watch?: LedgerWatch;
  /** Tests only: what fails in the first writer. */
  readonly fault?: FaultPlan;
}

/** The ledger on a SQLite file, and what was found when it was opened. */
export interface SqliteLedger extends Ledger {
  /** Holds of the gateway's own that a crash had left: given back, and listed for the operator. */
  readonly voidedHoldsAtStart: number;
  /** Invariants that do not hold, in words; normally none. */
  readonly violationsAtStart: readonly string[];
}

/**
 * Opens the ledger of a data directory, alone. Throws `LedgerStartError` where another process has it, it was written by a newer program, or it can't
 * be used.
 */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<SqliteLedger> {
  const { dataDir, clock, dailyLimitUnit, plans, writeOffMax, observe, fault } = options;
  const { settleMs = settleMsDefault, watch = unwatched } = options;
  makeDirectory(dataDir);
  const lock = acquireNodeLock(dataDir);
  let held: Connection | undefined;
  try {
    const path = ledgerPath(dataDir);
    // Before anything of it is moved.
    const checksFile = logBytes(path) > 0;
    refuseShared(path, `Another process uses the ledger ${path}. Stop it first.`);
    held = holdLog(path);
    const log = new LogState();
    const data = { path, dailyLimitUnit, plans, writeOffMax, log: log.memory, checksFile, fault };
    const tools = { now: () => clock.now(), observe, settleMs, watch };
    const { writer, voidedHolds, violations, suspended } = await Writer.start(data, tools);
    for (const account of suspended) watch.suspended(account);
    const checkpoints = new Checkpoints({ path, log: log.memory }, cause => writer.lose(cause));
    const db = openForReading(path);
    return new WorkerLedger(
      { read: { path, plans }, clock, writer, checkpoints, db, lock, watch },
      voidedHolds,
      violations,
    );
  } catch (error) {
    lock.release();
    throw error;
  } finally {
    held?.close();
  }
}

interface Parts {
  readonly read: ReaderData;
  readonly clock: Clock;
  readonly writer: Writer;
  readonly checkpoints: Checkpoints;
  /** Open longer than any other connection of the process: see `holdLog`. */
  readonly db: Connection;
  readonly lock: { release(): void };
  readonly watch: LedgerWatch;
}

class WorkerLedger implements SqliteLedger {
  readonly voidedHoldsAtStart: number;
  readonly violationsAtStart: readonly string[];
  readonly #parts: Parts;
  readonly #reader: Reader;
  readonly #credentials: KnownCredentials;
  readonly #storedCredentials: Credentials;
  /** Never used twice, not even by another process. */
  #nextExtension = randomBytes(6).readUIntBE(0, 6);

  constructor(parts: Parts, voidedHolds: number, violations: readonly string[]) {
    this.voidedHoldsAtStart = voidedHolds;
    this.violationsAtStart = violations;
    this.#parts = parts;
    this.#reader = this.#startReader();
    const credentials = new Credentials(parts.db);
    this.#credentials = new KnownCredentials(hash => credentials.find(hash));
    this.#storedCredentials = credentials;
  }

  get lastId(): number {
    const row = this.#parts.db.prepare<[], { value: bigint }>("SELECT value FROM meta WHERE name = 'last_id'").get();
    return Number(row?.value ?? 0n);
  }

  admit(command: AdmitCommand): Promise<Admitted | Denied> {
    const owner = 'hash' in command.key ? this.#findOwner(command.key.hash) : command.key;
    // A turn later, as every other answer: a caller that asks again and again must not keep the event loop from turning.
    if ('kind' in owner) return nextTurn(owner);
    return this.#parts.writer.send(encodeAdmit(command, owner, this.#now()), value =>
      decodeAdmitReply(value as AdmitReply),
    );
  }

  extend(command: ExtendCommand): Promise<Extended> {
    return this.#send(['extend', this.#now(), command, this.#nextExtension++]);
  }

  settle(command: SettleCommand, patience: 'bounded' | 'unbounded' = 'unbounded'): Promise<Settled> {
    const { writer, watch } = this.#parts;
    const decode = (value: unknown): Settled => {
      const settled = decodeSettleReply(value as SettleReply);
      if (settled.writtenOffNanoUsd > 0n) watch.wroteOff(command.id, settled.writtenOffNanoUsd);
      return settled;
    };
    return writer.send(encodeSettle(command, this.#now()), decode, patience === 'bounded');
  }

  void(id: number, reason: VoidReason): Promise<'voided' | 'not_held'> {
    return this.#send(['void', this.#now(), id, reason]);
  }

  windows(keyId: number, free: boolean): Promise<WindowState[]> {
    return this.#send(['windows', this.#now(), keyId, free]);
  }

  refusal(keyId: number): Promise<Denied | undefined> {
    return this.#send(['refusal', this.#now(), keyId]);
  }

  findCredential(hash: Uint8Array): Credential | undefined {
    const found = this.#credentials.find(hash);
    return found?.expiresAtMs !== undefined && found.expiresAtMs <= this.#now() ? { ...found, expired: true } : found;
  }

  findApiKey(keyId: number): Credential | undefined {
    return this.#storedCredentials.findApiKey(keyId);
  }

  async createAccount(command: AdminCommands['createAccount']): Promise<AccountRow> {
    return found(await this.#reader.read('account', Number(await this.#admin('createAccount', command))));
  }

  listAccounts(): Promise<AccountRow[]> {
    return this.#told(this.#reader.readSwept(this.#now(), 'accounts'));
  }

  findAccount(accountId: number): Promise<AccountRow | undefined> {
    return this.#told(this.#reader.readSwept(this.#now(), 'account', accountId));
  }

  async addCredit(
    command: AdminCommands['addCredit'],
  ): Promise<AccountRow | 'not_found' | 'insufficient' | 'conflict'> {
    const reply = await this.#admin('addCredit', command);
    if (typeof reply === 'number') return found(await this.#reader.read('account', reply));
    return reply === 'conflict' ? reply : refusal(reply);
  }

  async closeAccount(accountId: number): Promise<AccountRow | 'not_found'> {
    const reply = await this.#admin('closeAccount', { accountId });
    return typeof reply === 'number' ? found(await this.#reader.read('account', reply)) : 'not_found';
  }

  async updateAccount(command: AdminCommands['updateAccount']): Promise<AccountRow | 'not_found'> {
    const reply = await this.#admin('updateAccount', command);
    return typeof reply === 'number' ? found(await this.#reader.read('account', reply)) : 'not_found';
  }

  async resumeAccount(accountId: number): Promise<AccountRow | 'not_found'> {
    const reply = await this.#admin('resumeAccount', { accountId });
    return typeof reply === 'number' ? found(await this.#reader.read('account', reply)) : 'not_found';
  }

  async createKey(command: AdminCommands['createKey']): Promise<KeyRow | KeyRefusal | 'closed'> {
    const reply = await this.#admin('createKey', ownHash(command));
    return reply === 'closed' ? reply : this.#keyAfter(reply);
  }

  listKeys(accountId: number, filter: KeyFilter = {}): Promise<KeyRow[]> {
    const nowMs = this.#now();
    return this.#told(this.#reader.readSwept(nowMs, 'keys', { accountId, ...filter }, nowMs));
  }

  findKey(keyId: number, accountId: number | undefined): Promise<KeyRow | undefined> {
    const nowMs = this.#now();
    return this.#told(this.#reader.readSwept(nowMs, 'key', keyId, accountId, nowMs));
  }

  async updateKey(command: AdminCommands['updateKey']): Promise<KeyRow | KeyRefusal> {
    return this.#keyAfter(await this.#admin('updateKey', command));
  }

  async setKeyState(command: AdminCommands['setKeyState']): Promise<KeyRow | 'not_found'> {
    return this.#knownKeyAfter(await this.#admin('setKeyState', command));
  }

  async setMonthlyLimit(command: AdminCommands['setMonthlyLimit']): Promise<KeyRow | 'not_found'> {
    return this.#knownKeyAfter(await this.#admin('setMonthlyLimit', command));
  }

  async rotateKey(command: AdminCommands['rotateKey']): Promise<KeyRow | 'not_found'> {
    return this.#knownKeyAfter(await this.#admin('rotateKey', ownHash(command)));
  }

  async createGroup(command: AdminCommands['createGroup']): Promise<GroupRow | GroupRefusal> {
    return this.#groupAfter(await this.#admin('createGroup', command));
  }

  listGroups(accountId: number): Promise<GroupRow[]> {
    return this.#told(this.#reader.readSwept(this.#now(), 'groups', accountId));
  }

  findGroup(groupId: number, accountId: number | undefined): Promise<GroupRow | undefined> {
    return this.#told(this.#reader.readSwept(this.#now(), 'group', groupId, accountId));
  }

  async updateGroup(command: AdminCommands['updateGroup']): Promise<GroupRow | GroupRefusal> {
    return this.#groupAfter(await this.#admin('updateGroup', command));
  }

  async deleteGroup(command: AdminCommands['deleteGroup']): Promise<'deleted' | 'not_found' | 'conflict'> {
    const reply = await this.#admin('deleteGroup', command);
    if (typeof reply === 'number') return 'deleted';
    return reply === 'conflict' ? reply : 'not_found';
  }

  async createLimit(command: AdminCommands['createLimit']): Promise<LimitRow | 'not_found' | 'too_many'> {
    const reply = await this.#admin('createLimit', command);
    if (typeof reply === 'number') return this.#limitAfter(reply);
    return reply === 'too_many' ? reply : 'not_found';
  }

  async listLimits(filter: LimitFilter): Promise<LimitRow[]> {
    const nowMs = this.#now();
    await this.#send(['uses', nowMs, filter]);
    return this.#told(this.#reader.readSwept(nowMs, 'limits', filter, nowMs));
  }

  async findLimit(limitId: number, accountId: number | undefined): Promise<LimitRow | undefined> {
    const nowMs = this.#now();
    await this.#send(['uses', nowMs, limitId]);
    return this.#told(this.#reader.readSwept(nowMs, 'limit', limitId, accountId, nowMs));
  }

  async updateLimit(command: AdminCommands['updateLimit']): Promise<LimitRow | LimitRefusal> {
    const reply = await this.#admin('updateLimit', command);
    if (typeof reply === 'number') return this.#limitAfter(reply);
    return reply === 'locked' || reply === 'fixed' ? reply : 'not_found';
  }

  async deleteLimit(command: AdminCommands['deleteLimit']): Promise<'deleted' | LimitRefusal> {
    const reply = await this.#admin('deleteLimit', command);
    if (typeof reply === 'number') return 'deleted';
    return reply === 'locked' || reply === 'fixed' ? reply : 'not_found';
  }

  async createManagementKey(
    command: AdminCommands['createManagementKey'],
  ): Promise<ManagementKeyRow | 'not_found' | 'closed'> {
    const reply = await this.#admin('createManagementKey', ownHash(command));
    return reply === 'closed' ? reply : this.#managementKeyAfter(reply);
  }

  listManagementKeys(accountId: number): Promise<ManagementKeyRow[]> {
    return this.#told(this.#reader.read('managementKeys', accountId));
  }

  async setManagementKeyScopes(
    command: AdminCommands['setManagementKeyScopes'],
  ): Promise<ManagementKeyRow | 'not_found'> {
    return this.#managementKeyAfter(await this.#admin('setManagementKeyScopes', command));
  }

  async setManagementKeyState(
    command: AdminCommands['setManagementKeyState'],
  ): Promise<ManagementKeyRow | 'not_found'> {
    return this.#managementKeyAfter(await this.#admin('setManagementKeyState', command));
  }

  lastEntry(accountId: number): Promise<number | undefined> {
    return this.#told(this.#reader.read('lastEntry', accountId));
  }

  async createSession(command: NewSession): Promise<SessionRow | 'not_found'> {
    const { keyHash } = command;
    const owned = { ...ownHash(command), keyHash: keyHash === null ? null : Uint8Array.from(keyHash) };
    return this.#sessionAfter(await this.#admin('createSession', owned));
  }

  listSessions(accountId: number | undefined): Promise<SessionRow[]> {
    return this.#told(this.#reader.read('sessions', accountId ?? 0, this.#now()));
  }

  async endSession(command: AdminCommands['endSession']): Promise<SessionRow | 'not_found'> {
    return this.#sessionAfter(await this.#admin('endSession', command));
  }

  async startSubscription(
    command: AdminCommands['startSubscription'],
  ): Promise<SubscriptionRow | 'not_found' | 'insufficient' | 'conflict' | 'closed'> {
    const reply = await this.#admin('startSubscription', command);
    if (typeof reply === 'number') return found(await this.#reader.read('subscription', reply, this.#now()));
    return reply === 'conflict' || reply === 'closed' ? reply : refusal(reply);
  }

  findSubscription(accountId: number): Promise<SubscriptionRow | undefined> {
    const nowMs = this.#now();
    return this.#told(this.#reader.readSwept(nowMs, 'subscription', accountId, nowMs));
  }

  async cancelSubscription(accountId: number): Promise<SubscriptionRow | 'not_found'> {
    const reply = await this.#admin('cancelSubscription', { accountId });
    return typeof reply === 'number' ? found(await this.#reader.read('subscription', reply, this.#now())) : 'not_found';
  }

  async bootstrap(command: Bootstrap): Promise<boolean> {
    const { apiKey, managementKey } = command;
    const owned = { ...command, apiKey: ownHash(apiKey), managementKey: ownHash(managementKey) };
    return (await this.#admin('bootstrap', owned)) !== 'nothing_to_do';
  }

  listActivity(filter: ActivityFilter): Promise<UsageRow[]> {
    return this.#told(this.#reader.read('activity', filter));
  }

  findActivity(accountId: number, requestId: string): Promise<{ row: UsageRow; lines: PaidLine[] } | undefined> {
    return this.#told(this.#reader.read('record', accountId, requestId));
  }

  analytics(query: AnalyticsQuery): Promise<AnalyticsRow[] | 'too_many'> {
    return this.#told(this.#reader.read('analytics', query));
  }

  listVoidedHolds(limit: number): Promise<VoidedHoldRow[]> {
    return this.#told(this.#reader.readSwept(this.#now(), 'voidedHolds', limit));
  }

  listEntries(filter: EntryFilter): Promise<EntryRow[]> {
    return this.#told(this.#reader.readSwept(this.#now(), 'entries', filter));
  }

  listMovements(filter: EntryFilter): Promise<MovementRow[]> {
    return this.#told(this.#reader.readSwept(this.#now(), 'movements', filter));
  }

  listAudit(filter: AuditFilter): Promise<AuditRow[]> {
    return this.#told(this.#reader.read('audit', filter));
  }

  async createWebhook(command: NewWebhook): Promise<WebhookRow | 'not_found' | 'too_many'> {
    const reply = await this.#admin('createWebhook', command);
    if (typeof reply === 'number') {
      return found(await this.#reader.read('webhook', { webhookId: reply, accountId: command.accountId }));
    }
    return reply === 'too_many' ? reply : 'not_found';
  }

  listWebhooks(accountId: number): Promise<WebhookRow[]> {
    return this.#told(this.#reader.read('webhooks', accountId));
  }

  findWebhook(named: NamedWebhook): Promise<WebhookRow | undefined> {
    return this.#told(this.#reader.read('webhook', named));
  }

  async updateWebhook(command: AdminCommands['updateWebhook']): Promise<WebhookRow | 'not_found'> {
    const reply = await this.#admin('updateWebhook', command);
    return typeof reply === 'number' ? found(await this.#reader.read('webhook', command)) : 'not_found';
  }

  async deleteWebhook(command: NamedWebhook): Promise<'deleted' | 'not_found'> {
    return typeof (await this.#admin('deleteWebhook', command)) === 'number' ? 'deleted' : 'not_found';
  }

  listDeliveries(filter: DeliveryFilter): Promise<DeliveryRow[]> {
    return this.#told(this.#reader.read('deliveries', filter));
  }

  async replayDelivery(command: AdminCommands['replayDelivery']): Promise<DeliveryRow | 'not_found'> {
    const reply = await this.#admin('replayDelivery', command);
    return typeof reply === 'number'
      ? found(await this.#reader.read('delivery', command.webhookId, reply))
      : 'not_found';
  }

  hasWebhooks(): Promise<boolean> {
    return this.#reader.read('hasWebhooks');
  }

  listDueDeliveries(limit: number): Promise<DueDelivery[]> {
    const nowMs = this.#now();
    return this.#told(this.#reader.readSwept(nowMs, 'dueDeliveries', nowMs, limit));
  }

  reportDelivery(report: DeliveryReport): Promise<void> {
    return this.#send(['report', this.#now(), report]);
  }

  async emitEvent(event: OutsideEvent): Promise<void> {
    await this.#admin('emitEvent', event);
  }

  remindOfExpiry(): Promise<void> {
    return this.#send(['remind', this.#now()]);
  }

  removeOld(limits: RetentionLimits): Promise<number> {
    return this.#send(['prune', this.#now(), limits]);
  }

  async recordAction(action: RecordedAction): Promise<void> {
    await this.#admin('recordAction', action);
  }

  async verify(): Promise<string[]> {
    // A thread of its own: it reads everything, which takes seconds if there are millions of records.
    const reader = this.#startReader();
    try {
      return await reader.readSwept(this.#now(), 'verify');
    } finally {
      await reader.close();
    }
  }

  async close(): Promise<void> {
    const { checkpoints, writer, db, lock } = this.#parts;
    await writer.drain();
    await this.#reader.close();
    await checkpoints.end();
    await writer.close();
    db.close();
    lock.release();
  }

  #now(): number {
    return this.#parts.clock.now();
  }

  /** The engine's answer to a command, which its kind decides. */
  #send<R>(command: WireCommand): Promise<R> {
    return this.#parts.writer.send(command, value => value as R);
  }

  async #admin<K extends keyof AdminCommands>(name: K, command: AdminCommands[K]): Promise<AdminReply> {
    try {
      return await this.#send([
        'admin',
        this.#now(),
        { id: randomUUID(), name, command, by: currentActor() } as AdminOrder,
      ]);
    } finally {
      // Before the caller learns that it is done, and also where it may be done although it failed.
      this.#credentials.forget();
    }
  }

  /** Whose request it is, or why it is nobody's. */
  #findOwner(hash: Uint8Array): KeyOwner | Denied {
    const credential = this.#credentials.find(hash);
    if (credential?.kind === 'api_key') return { id: credential.keyId, accountId: credential.accountId };
    const refused = credential?.disabled === true ? 'key_disabled' : 'permission_denied';
    return { kind: 'denied', code: credential === undefined ? 'invalid_api_key' : refused, windows: [] };
  }

  /** What was read, once nothing of it can be lost any more: others may have been committed and not synced yet. */
  async #told<T>(reading: Promise<T>): Promise<T> {
    const read = await reading;
    if (this.#parts.writer.isUnsynced) await this.#send(['sync', this.#now()]);
    return read;
  }

  #startReader(): Reader {
    return new Reader(this.#parts.read, nowMs => this.#send(['sweep', nowMs]));
  }

  async #limitAfter(limitId: number): Promise<LimitRow> {
    const nowMs = this.#now();
    await this.#send(['uses', nowMs, limitId]);
    return found(await this.#reader.read('limit', limitId, undefined, nowMs));
  }

  async #groupAfter(reply: AdminReply): Promise<GroupRow | GroupRefusal> {
    if (typeof reply === 'number') return found(await this.#reader.read('group', reply, undefined));
    return reply === 'conflict' ? reply : keyRefusal(reply);
  }

  async #keyAfter(reply: AdminReply): Promise<KeyRow | KeyRefusal> {
    return typeof reply === 'number'
      ? found(await this.#reader.read('storedKey', reply, this.#now()))
      : keyRefusal(reply);
  }

  async #knownKeyAfter(reply: AdminReply): Promise<KeyRow | 'not_found'> {
    return typeof reply === 'number' ? found(await this.#reader.read('storedKey', reply, this.#now())) : 'not_found';
  }

  async #sessionAfter(reply: AdminReply): Promise<SessionRow | 'not_found'> {
    return typeof reply === 'number' ? found(await this.#reader.read('session', reply)) : 'not_found';
  }

  async #managementKeyAfter(reply: AdminReply): Promise<ManagementKeyRow | 'not_found'> {
    return typeof reply === 'number' ? found(await this.#reader.read('managementKey', reply)) : 'not_found';
  }
}

function keyRefusal(reply: Exclude<AdminReply, number>): KeyRefusal {
  return reply === 'no_group' ? reply : refusal(reply);
}
