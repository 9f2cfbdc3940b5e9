import { randomUUID } from 'node:crypto';
import type {
  AccountRow,
  ActivityFilter,
  AnalyticsQuery,
  AnalyticsRefusal,
  AnalyticsRow,
  AuditFilter,
  AuditRow,
  Bootstrap,
  EntryFilter,
  EntryRow,
  GroupRefusal,
  GroupRow,
  KeyFilter,
  KeyRefusal,
  KeyRow,
  Ledger,
  LimitFilter,
  LimitRefusal,
  LimitRow,
  ManagementKeyRow,
  MovementRow,
  NewSession,
  RecordedAction,
  SessionRow,
  UsageRow,
  VoidedHoldRow,
} from './ledger.ts';
import type { SubscriptionRow } from './plans.ts';
import type {
  DeliveryFilter,
  DeliveryReport,
  DeliveryRow,
  DueDelivery,
  NamedWebhook,
  NewWebhook,
  OutsideEvent,
  WebhookRow,
} from './webhooks.ts';
import type { RetentionLimits } from './history.ts';
import type { PaidLine } from './activity.ts';
import { currentActor } from './actor.ts';
import type { AdminCommands, AdminCall, AdminReply } from './rules/administration.ts';
import { found, ownHash, refusal } from './sqlite/replies.ts';
import type { WireCommand } from './sqlite/wire.ts';
import { type CredentialSource, type LedgerRequestTools, LedgerRequests } from './ledger-requests.ts';
import type { Reads } from './reader/reads.ts';

/** The writer of an engine, which runs the commands. */
export interface CommandWriter {
  /** Sends a command and resolves with the engine's reply. `isBounded`: true for a settle that is to fail, instead of waiting, if storage fails for long. */
  send<R>(request: WireCommand, decode: (value: unknown) => R, isBounded?: boolean): Promise<R>;
  /** True if a committed change may not be durable yet. */
  readonly isUnsynced: boolean;
}

/** Reads committed data. */
export interface LedgerReader {
  read<N extends keyof Reads>(name: N, ...args: Parameters<Reads[N]>): Promise<ReturnType<Reads[N]>>;
  /** Like `read`, after ending all holds, keys and plan periods that are over at `nowMs`. */
  readSwept<N extends keyof Reads>(
    nowMs: number,
    name: N,
    ...args: Parameters<Reads[N]>
  ): Promise<ReturnType<Reads[N]>>;
  close(): Promise<void>;
}

/** The parts of a `CommandLedger`. */
export interface CommandParts {
  readonly writer: CommandWriter;
  readonly startReader: () => LedgerReader;
  /** Returns whether there are webhooks; absent: the reader is asked. */
  readonly hasWebhooks?: () => boolean;
  readonly credentials: CredentialSource;
  readonly now: () => number;
  readonly lastId: () => number;
  /** Called with the part of a request's cost that no funds covered. */
  readonly wroteOff: (id: number, nanoUsd: bigint) => void;
  readonly close: (reader: LedgerReader) => Promise<void>;
}

/** A ledger: its methods send commands to the engine's writer, or read. */
export class CommandLedger extends LedgerRequests implements Ledger {
  readonly #parts: CommandParts;
  readonly #reader: LedgerReader;

  constructor(parts: CommandParts) {
    const { writer, now, lastId, credentials, wroteOff } = parts;
    const send: LedgerRequestTools['send'] = (command, decode, isBounded) => writer.send(command, decode, isBounded);
    super({ send, now, lastId, credentials, wroteOff });
    this.#parts = parts;
    this.#reader = parts.startReader();
  }

  async createAccount(command: AdminCommands['createAccount']): Promise<AccountRow> {
    return found(await this.#reader.read('account', Number(await this.#admin('createAccount', command))));
  }

  listAccounts(): Promise<AccountRow[]> {
    return this.#whenDurable(this.#reader.readSwept(this.#now(), 'accounts'));
  }

  findAccount(accountId: number): Promise<AccountRow | undefined> {
    return this.#whenDurable(this.#reader.readSwept(this.#now(), 'account', accountId));
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
    return this.#whenDurable(this.#reader.readSwept(nowMs, 'keys', { accountId, ...filter }, nowMs));
  }

  findKey(keyId: number, accountId: number | undefined): Promise<KeyRow | undefined> {
    const nowMs = this.#now();
    return this.#whenDurable(this.#reader.readSwept(nowMs, 'key', keyId, accountId, nowMs));
  }

  async updateKey(command: AdminCommands['updateKey']): Promise<KeyRow | KeyRefusal> {
    return this.#keyAfter(await this.#admin('updateKey', command));
  }

  async setKeyState(command: AdminCommands['setKeyState']): Promise<KeyRow | 'not_found'> {
    return this.#existingKeyAfter(await this.#admin('setKeyState', command));
  }

  async setMonthlyLimit(command: AdminCommands['setMonthlyLimit']): Promise<KeyRow | 'not_found'> {
    return this.#existingKeyAfter(await this.#admin('setMonthlyLimit', command));
  }

  async rotateKey(command: AdminCommands['rotateKey']): Promise<KeyRow | 'not_found'> {
    return this.#existingKeyAfter(await this.#admin('rotateKey', ownHash(command)));
  }

  async createGroup(command: AdminCommands['createGroup']): Promise<GroupRow | GroupRefusal> {
    return this.#groupAfter(await this.#admin('createGroup', command));
  }

  listGroups(accountId: number): Promise<GroupRow[]> {
    return this.#whenDurable(this.#reader.readSwept(this.#now(), 'groups', accountId));
  }

  findGroup(groupId: number, accountId: number | undefined): Promise<GroupRow | undefined> {
    return this.#whenDurable(this.#reader.readSwept(this.#now(), 'group', groupId, accountId));
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
    await this.#storeUses(nowMs, filter);
    return this.#whenDurable(this.#reader.readSwept(nowMs, 'limits', filter, nowMs));
  }

  async findLimit(limitId: number, accountId: number | undefined): Promise<LimitRow | undefined> {
    const nowMs = this.#now();
    await this.#storeUses(nowMs, limitId);
    return this.#whenDurable(this.#reader.readSwept(nowMs, 'limit', limitId, accountId, nowMs));
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
    return this.#whenDurable(this.#reader.read('managementKeys', accountId));
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
    return this.#whenDurable(this.#reader.read('lastEntry', accountId, this.#now()));
  }

  async createSession(command: NewSession): Promise<SessionRow | 'not_found'> {
    const { keyHash } = command;
    const copied = { ...ownHash(command), keyHash: keyHash === null ? null : Uint8Array.from(keyHash) };
    return this.#sessionAfter(await this.#admin('createSession', copied));
  }

  listSessions(accountId: number | undefined): Promise<SessionRow[]> {
    return this.#whenDurable(this.#reader.read('sessions', accountId ?? 0, this.#now()));
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
    return this.#whenDurable(this.#reader.readSwept(nowMs, 'subscription', accountId, nowMs));
  }

  async cancelSubscription(accountId: number): Promise<SubscriptionRow | 'not_found'> {
    const reply = await this.#admin('cancelSubscription', { accountId });
    return typeof reply === 'number' ? found(await this.#reader.read('subscription', reply, this.#now())) : 'not_found';
  }

  async bootstrap(command: Bootstrap): Promise<boolean> {
    const { apiKey, managementKey } = command;
    const copied = { ...command, apiKey: ownHash(apiKey), managementKey: ownHash(managementKey) };
    return (await this.#admin('bootstrap', copied)) !== 'nothing_to_do';
  }

  listActivity(filter: ActivityFilter): Promise<UsageRow[]> {
    return this.#whenDurable(this.#reader.read('activity', filter));
  }

  findActivity(accountId: number, requestId: string): Promise<{ row: UsageRow; lines: PaidLine[] } | undefined> {
    return this.#whenDurable(this.#reader.read('record', accountId, requestId));
  }

  isHeld(id: number): Promise<boolean> {
    return this.#reader.read('isHeld', id);
  }

  analytics(query: AnalyticsQuery): Promise<AnalyticsRow[] | AnalyticsRefusal> {
    return this.#whenDurable(this.#reader.read('analytics', query));
  }

  listVoidedHolds(limit: number): Promise<VoidedHoldRow[]> {
    return this.#whenDurable(this.#reader.readSwept(this.#now(), 'voidedHolds', limit));
  }

  listEntries(filter: EntryFilter): Promise<EntryRow[]> {
    return this.#whenDurable(this.#reader.readSwept(this.#now(), 'entries', filter));
  }

  listMovements(filter: EntryFilter): Promise<MovementRow[]> {
    return this.#whenDurable(this.#reader.readSwept(this.#now(), 'movements', filter));
  }

  listAudit(filter: AuditFilter): Promise<AuditRow[]> {
    return this.#whenDurable(this.#reader.read('audit', filter));
  }

  async createWebhook(command: NewWebhook): Promise<WebhookRow | 'not_found' | 'too_many'> {
    const reply = await this.#admin('createWebhook', command);
    if (typeof reply === 'number') {
      return found(await this.#reader.read('webhook', { webhookId: reply, accountId: command.accountId }));
    }
    return reply === 'too_many' ? reply : 'not_found';
  }

  listWebhooks(accountId: number): Promise<WebhookRow[]> {
    return this.#whenDurable(this.#reader.read('webhooks', accountId));
  }

  findWebhook(named: NamedWebhook): Promise<WebhookRow | undefined> {
    return this.#whenDurable(this.#reader.read('webhook', named));
  }

  async updateWebhook(command: AdminCommands['updateWebhook']): Promise<WebhookRow | 'not_found'> {
    const reply = await this.#admin('updateWebhook', command);
    return typeof reply === 'number' ? found(await this.#reader.read('webhook', command)) : 'not_found';
  }

  async deleteWebhook(command: NamedWebhook): Promise<'deleted' | 'not_found'> {
    return typeof (await this.#admin('deleteWebhook', command)) === 'number' ? 'deleted' : 'not_found';
  }

  listDeliveries(filter: DeliveryFilter): Promise<DeliveryRow[]> {
    return this.#whenDurable(this.#reader.read('deliveries', filter));
  }

  async replayDelivery(command: AdminCommands['replayDelivery']): Promise<DeliveryRow | 'not_found'> {
    const reply = await this.#admin('replayDelivery', command);
    return typeof reply === 'number'
      ? found(await this.#reader.read('delivery', command.webhookId, reply))
      : 'not_found';
  }

  async hasWebhooks(): Promise<boolean> {
    return this.#parts.hasWebhooks?.() ?? this.#reader.read('hasWebhooks');
  }

  listDueDeliveries(limit: number, resting: readonly number[] = []): Promise<DueDelivery[]> {
    const nowMs = this.#now();
    return this.#whenDurable(this.#reader.readSwept(nowMs, 'dueDeliveries', nowMs, limit, resting));
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
    // Has a reader of its own, so that other reads do not wait for it: it reads everything, which takes seconds if there are millions of records.
    const reader = this.#parts.startReader();
    try {
      return await reader.readSwept(this.#now(), 'verify');
    } finally {
      await reader.close();
    }
  }

  close(): Promise<void> {
    return this.#parts.close(this.#reader);
  }

  #now(): number {
    return this.#parts.now();
  }

  /** Sends a command. The kind of the command determines the type of the reply. */
  #send<R>(command: WireCommand): Promise<R> {
    return this.#parts.writer.send(command, value => value as R);
  }

  async #admin<K extends keyof AdminCommands>(name: K, command: AdminCommands[K]): Promise<AdminReply> {
    try {
      return await this.#send([
        'admin',
        this.#now(),
        { id: randomUUID(), name, command, by: currentActor() } as AdminCall,
      ]);
    } finally {
      // The cached credentials are forgotten before the caller gets the reply, and also after a failure, because the change may have been made.
      this.forget();
    }
  }

  /** Waits until everything that was read is durable, and returns it. A read can see commands that are committed but not synced. */
  async #whenDurable<T>(reading: Promise<T>): Promise<T> {
    const read = await reading;
    if (this.#parts.writer.isUnsynced) await this.#send(['sync', this.#now()]);
    return read;
  }

  /** Has the engine store the current uses of limits, so that a reader sees them: the engine of SQLite counts them in memory. `limits`: a filter, or the id of one limit. */
  #storeUses(nowMs: number, limits: LimitFilter | number): Promise<void> {
    return this.#send(['uses', nowMs, limits]);
  }

  async #limitAfter(limitId: number): Promise<LimitRow> {
    const nowMs = this.#now();
    await this.#storeUses(nowMs, limitId);
    return found(await this.#reader.read('limit', limitId, undefined, nowMs));
  }

  async #groupAfter(reply: AdminReply): Promise<GroupRow | GroupRefusal> {
    if (typeof reply === 'number') return found(await this.#reader.read('group', reply, undefined));
    return reply === 'conflict' ? reply : keyRefusal(reply);
  }

  /** Returns the key after a command that can also be refused because of its settings. */
  async #keyAfter(reply: AdminReply): Promise<KeyRow | KeyRefusal> {
    return typeof reply === 'number'
      ? found(await this.#reader.read('storedKey', reply, this.#now()))
      : keyRefusal(reply);
  }

  /** Returns the key after a command that can be refused only because there is no such key. */
  async #existingKeyAfter(reply: AdminReply): Promise<KeyRow | 'not_found'> {
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
