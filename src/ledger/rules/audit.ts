import { dollarsText } from '../../lib/dollars.ts';
import { isoTime } from '../../lib/clock.ts';
import type { Actor, RecordedAction } from '../history.ts';
import type { Account, Group, Key, Limit, ManagementKey, Rows } from '../rows.ts';
import type { AdminCall, AdminCommands } from './administration.ts';
import { hashAudit } from './audit-hash.ts';
import { fieldValue } from './limit-commands.ts';

/** The audit log: each administrative command that changes something adds a row to the chain of the account that it changes. */

/** Types of resources that commands change. */
type ResourceType =
  | 'account'
  | 'api_key'
  | 'group'
  | 'limit'
  | 'management_key'
  | 'subscription'
  | 'webhook'
  | 'session';

/** A resource that a command changes: its type and its id (for a subscription, the id of its account). */
interface Resource {
  readonly type: ResourceType;
  readonly id: number;
}

const unknownActor: Actor = { type: 'gateway', id: null, address: null, requestId: null };

/** The action of a command, and its resource. `id` undefined: the command creates the resource. */
interface AuditedAction {
  readonly action: string;
  readonly type: ResourceType;
  readonly id?: number;
}

function describeAction({ name, command }: AdminCall): AuditedAction | undefined {
  switch (name) {
    case 'createAccount':
    case 'bootstrap':
      return { action: 'account.create', type: 'account' };
    case 'addCredit':
      return { action: 'credit.add', type: 'account', id: command.accountId };
    case 'resumeAccount':
      return { action: 'account.resume', type: 'account', id: command.accountId };
    case 'updateAccount':
      return { action: 'account.update', type: 'account', id: command.accountId };
    case 'closeAccount':
      return { action: 'account.close', type: 'account', id: command.accountId };
    case 'createKey':
      return { action: 'key.create', type: 'api_key' };
    case 'updateKey':
    case 'setMonthlyLimit':
      return { action: 'key.update', type: 'api_key', id: command.keyId };
    case 'setKeyState':
      return { action: `key.${stateActions[command.state]}`, type: 'api_key', id: command.keyId };
    case 'rotateKey':
      return { action: 'key.rotate', type: 'api_key', id: command.keyId };
    case 'createGroup':
      return { action: 'group.create', type: 'group' };
    case 'updateGroup':
      return { action: 'group.update', type: 'group', id: command.groupId };
    case 'deleteGroup':
      return { action: 'group.delete', type: 'group', id: command.groupId };
    case 'createLimit':
      return { action: 'limit.create', type: 'limit' };
    case 'updateLimit':
      return { action: 'limit.update', type: 'limit', id: command.limitId };
    case 'deleteLimit':
      return { action: 'limit.delete', type: 'limit', id: command.limitId };
    case 'createManagementKey':
      return { action: 'management_key.create', type: 'management_key' };
    case 'setManagementKeyScopes':
      return { action: 'management_key.update', type: 'management_key', id: command.keyId };
    case 'setManagementKeyState':
      return { action: `management_key.${stateActions[command.state]}`, type: 'management_key', id: command.keyId };
    case 'startSubscription':
      return { action: 'subscription.start', type: 'subscription', id: command.accountId };
    case 'cancelSubscription':
      return { action: 'subscription.cancel', type: 'subscription', id: command.accountId };
    case 'createWebhook':
      return { action: 'webhook.create', type: 'webhook' };
    case 'updateWebhook':
      return { action: 'webhook.update', type: 'webhook', id: command.webhookId };
    case 'deleteWebhook':
      return { action: 'webhook.delete', type: 'webhook', id: command.webhookId };
    case 'createSession':
      return { action: 'session.create', type: 'session' };
    case 'endSession':
      return { action: 'session.end', type: 'session', id: command.sessionId };
    case 'replayDelivery':
    case 'emitEvent':
    case 'recordAction':
      return undefined;
  }
}

const stateActions = { enabled: 'enable', disabled: 'disable', revoked: 'revoke' } as const;

/** Runs a command and adds its changes to the audit log. A command that is refused or changes nothing adds no row. */
export function audited<Reply>(rows: Rows, call: AdminCall, nowMs: number, work: () => Reply): Reply {
  const described = describeAction(call);
  const { by = unknownActor } = call;
  if (described === undefined) {
    if (call.name === 'recordAction') addAudit(rows, call.command, by, nowMs);
    return work();
  }
  const before = described.id === undefined ? null : describe(rows, { type: described.type, id: described.id });
  const reply = work();
  if (typeof reply !== 'number') return reply;
  const made: Resource[] = [{ type: described.type, id: described.id ?? reply }];
  if (call.name === 'bootstrap') made.push({ type: 'api_key', id: 1 }, { type: 'management_key', id: 1 });
  for (const resource of made) {
    const after = call.name === 'rotateKey' ? describeRotation(rows, call.command, nowMs) : describe(rows, resource);
    if (before === after) continue;
    const action =
      resource.type === described.type ? described.action : (bootstrapActions[resource.type] ?? described.action);
    const accountId = findOwnerId(rows, resource);
    const row = { accountId, action, resourceType: resource.type, resourceId: String(resource.id), before, after };
    addAudit(rows, row, by, nowMs);
  }
  return reply;
}

const bootstrapActions: Partial<Record<ResourceType, string>> = {
  api_key: 'key.create',
  management_key: 'management_key.create',
};

/** Returns a key after its rotation, as JSON, with the time until which its old secret stays valid; null: it has ended. */
function describeRotation(rows: Rows, { keyId, overlapMs }: AdminCommands['rotateKey'], nowMs: number): string | null {
  const overlap_ends_at = toTime(overlapMs > 0 ? nowMs + overlapMs : null);
  return toJson(rows.keys.get(keyId), key => ({ ...describeKey(rows, key), overlap_ends_at }));
}

/** Adds a row to the end of a chain. */
function addAudit(rows: Rows, done: RecordedAction, by: Actor, nowMs: number): void {
  const { accountId, action, resourceType, resourceId, before, after } = done;
  const chain = rows.auditChains.get(accountId) ?? { accountId, startNumber: 0, startHash: '', number: 0, hash: '' };
  const row = {
    accountId,
    auditId: chain.number + 1,
    actorType: by.type,
    actorId: by.id,
    action,
    resourceType,
    resourceId,
    before,
    after,
    address: by.address,
    requestId: by.requestId,
    createdAtMs: nowMs,
    previousHash: chain.hash,
  };
  const hash = hashAudit(row);
  rows.addAudit({ ...row, hash });
  rows.auditChains.put({ ...chain, number: row.auditId, hash });
}

function findOwnerId(rows: Rows, { type, id }: Resource): number {
  switch (type) {
    case 'account':
    case 'subscription':
      return id;
    case 'api_key':
      return rows.keys.get(id)?.accountId ?? 0;
    case 'group':
      return rows.groups.get(id)?.accountId ?? 0;
    case 'limit':
      return rows.limits.get(id)?.accountId ?? 0;
    case 'management_key':
      return rows.managementKeys.get(id)?.accountId ?? 0;
    case 'webhook':
      return rows.webhooks.get(id)?.accountId ?? 0;
    case 'session':
      return rows.sessions.get(id)?.accountId ?? 0;
  }
}

/** Returns a resource as JSON, without secrets and without fields that requests change; null if it does not exist or was removed. */
function describe(rows: Rows, { type, id }: Resource): string | null {
  switch (type) {
    case 'account':
      return toJson(rows.accounts.get(id), describeAccount);
    case 'api_key':
      return toJson(rows.keys.get(id), key => describeKey(rows, key));
    case 'group':
      return toJson(rows.groups.get(id), group => (group.removed ? null : describeGroup(group)));
    case 'limit':
      return toJson(rows.limits.get(id), limit => (limit.removed ? null : describeLimit(limit)));
    case 'management_key':
      return toJson(rows.managementKeys.get(id), describeManagementKey);
    case 'subscription':
      return describePlan(rows, id);
    case 'session':
      return toJson(rows.sessions.get(id), ({ role, subject, endsAtMs }) => ({
        role,
        subject,
        ends_at: toTime(endsAtMs),
      }));
    case 'webhook':
      return toJson(rows.webhooks.get(id), ({ url, events, disabled, removed }) =>
        removed ? null : { url, events, disabled },
      );
  }
}

function toJson<Row>(row: Row | undefined, view: (row: Row) => object | null): string | null {
  const shown = row === undefined ? null : view(row);
  return shown === null ? null : JSON.stringify(shown);
}

const toDollars = (amount: bigint | null): unknown => (amount === null ? null : JSON.rawJSON(dollarsText(amount)));
const toTime = (ms: number | null): string | null => (ms === null ? null : isoTime(ms));

function describeAccount({ name, balance, suspended, lowBalance, closedAtMs }: Account): object {
  const money = { balance: toDollars(balance), low_balance: toDollars(lowBalance) };
  return { name, ...money, suspended, closed_at: toTime(closedAtMs) };
}

function describeKey(rows: Rows, key: Key): object {
  const limits = rows.listLimits('key', key.id).flatMap(limit => {
    const value = limit.field === null ? undefined : fieldValue(limit);
    if (value === undefined) return [];
    return [[limit.field, limit.field === 'monthly_limit' ? toDollars(value) : Number(value)]];
  });
  return {
    key: key.masked,
    label: key.label,
    state: key.state,
    allowed_models: key.allowedModels,
    balance: toDollars(key.balance),
    low_balance: toDollars(key.lowBalance),
    use_subs_first: key.useSubsFirst,
    fallback_to_payg: key.fallbackToPayg,
    expires_at: toTime(key.expiresAtMs),
    group_id: key.groupId,
    tags: key.tags,
    metadata: JSON.parse(key.metadata) as unknown,
    keep_bodies: key.keepBodies,
    paused: key.paused,
    ...(Object.fromEntries(limits) as Readonly<Record<string, unknown>>),
  };
}

function describeGroup({ name, parentId, tags, balance, lowBalance }: Group): object {
  const money = { balance: toDollars(balance), low_balance: toDollars(lowBalance) };
  return { name, parent_group_id: parentId, tags, ...money };
}

function describeLimit(limit: Limit): object {
  const amount = (value: bigint | null): unknown =>
    limit.unit === 'usd' || value === null ? toDollars(value) : Number(value);
  return {
    scope: { type: limit.scope, id: limit.scopeId },
    unit: limit.unit,
    window: limit.per,
    time_zone: limit.timeZone,
    max: amount(limit.max),
    models: limit.models,
    end_users: limit.endUsers,
    action: limit.action,
    raised: limit.raisedMax === null ? null : { max: amount(limit.raisedMax), until: toTime(limit.raisedUntilMs) },
    locked: limit.locked,
  };
}

function describeManagementKey({ masked, scopes, state }: ManagementKey): object {
  return { key: masked, scopes, state };
}

function describePlan(rows: Rows, accountId: number): string | null {
  const period = rows.periods.get(accountId, rows.accounts.get(accountId)?.period ?? 0);
  const subscription = period && rows.subscriptions.get(accountId, period.subscription);
  return toJson(subscription, ({ plan, period: length, state }) => ({ plan, period: length, state }));
}
