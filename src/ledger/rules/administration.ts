import assert from 'node:assert/strict';
import { isoTime } from '../../lib/clock.ts';
import type {
  Bootstrap,
  GroupSettings,
  KeySettings,
  KeyState,
  LimitChange,
  NewKey,
  NewLimit,
  NewSession,
} from '../ledger.ts';
import type { PlanName, PlanPeriodName } from '../plans.ts';
import type { Actor, RecordedAction } from '../history.ts';
import type { NamedWebhook, NewWebhook, OutsideEvent, WebhookSettings } from '../webhooks.ts';
import type { Account, Key, Rows } from '../rows.ts';
import { audited } from './audit.ts';
import { closeAccount } from './closing.ts';
import { type Context, findOwner, nextNumber, present } from './context.ts';
import { emitKeyEvent } from './events.ts';
import { createGroup, deleteGroup, findGroup, updateGroup } from './groups.ts';
import { changeBalance, moveToKey, returnBalanceOfEndedKey } from './holds.ts';
import { addFreeWindows, createLimit, deleteLimit, setField, updateLimit } from './limit-commands.ts';
import { createWebhook, deleteWebhook, emitOutside, replayDelivery, updateWebhook } from './webhooks.ts';
import { createSession, endSession } from './sessions.ts';
import { cancelSubscription, startSubscription } from './subscriptions.ts';

/** The administrative commands by name, with their arguments. */
export interface AdminCommands {
  createAccount: { name: string; balance: bigint };
  addCredit: { accountId: number; amount: bigint; note: string; reference?: string };
  resumeAccount: { accountId: number };
  closeAccount: { accountId: number };
  updateAccount: { accountId: number; name?: string; lowBalance?: bigint | null };
  createKey: NewKey & { settings: KeySettings };
  updateKey: { keyId: number; accountId: number; settings: KeySettings };
  setKeyState: { keyId: number; accountId: number | undefined; state: KeyState };
  setMonthlyLimit: { keyId: number; limit: bigint | undefined };
  /** The old secret stays valid for `overlapMs`; 0: it ends at once. */
  rotateKey: { keyId: number; accountId: number | undefined; hash: Uint8Array; masked: string; overlapMs: number };
  createGroup: { accountId: number; settings: GroupSettings };
  /** `accountId` undefined: the operator. */
  updateGroup: { groupId: number; accountId: number | undefined; settings: GroupSettings };
  deleteGroup: { groupId: number; accountId: number | undefined };
  createLimit: NewLimit;
  /** `accountId` undefined: the operator. */
  updateLimit: { limitId: number; accountId: number | undefined; change: LimitChange };
  deleteLimit: { limitId: number; accountId: number | undefined };
  createManagementKey: NewKey & { scopes: readonly string[] };
  setManagementKeyScopes: { keyId: number; scopes: readonly string[] };
  setManagementKeyState: { keyId: number; state: KeyState };
  createSession: NewSession;
  endSession: { sessionId: number };
  startSubscription: { accountId: number; plan: PlanName; period: PlanPeriodName };
  cancelSubscription: { accountId: number };
  bootstrap: Bootstrap;
  createWebhook: NewWebhook;
  updateWebhook: NamedWebhook & { change: Partial<WebhookSettings> };
  deleteWebhook: NamedWebhook;
  replayDelivery: NamedWebhook & { eventId: number };
  /** An event from outside the ledger. */
  emitEvent: OutsideEvent;
  /** Adds a row to the audit log, and does nothing else. */
  recordAction: RecordedAction;
}

/**
 * The id of the created or changed row (for a plan, the id of its account), or why nothing was done. `conflict`: the account already has a
 * plan, or the reference belongs to another command; `nothing_to_do`: the ledger already has an account; `locked`, `fixed`: see
 * `LimitRefusal`; `too_many`: the maximum number of limits or webhooks is reached.
 */
export type AdminReply =
  | number
  | 'not_found'
  | 'no_group'
  | 'insufficient'
  | 'conflict'
  | 'nothing_to_do'
  | 'locked'
  | 'fixed'
  | 'too_many'
  | 'closed';

/**
 * An administrative command. Its id makes sure that it is executed once, however often it is sent. `by`: its sender; absent: the gateway itself.
 */
export type AdminCall = {
  [K in keyof AdminCommands]: {
    readonly id: string;
    readonly name: K;
    readonly command: AdminCommands[K];
    readonly by?: Actor;
  };
}[keyof AdminCommands];

/** Executes a command and returns its reply. A repeat of the command gets the first reply and does nothing. */
export function administer(context: Context, call: AdminCall, nowMs: number): AdminReply {
  const { applied } = context.rows;
  const known = applied.get(call.id);
  if (known !== undefined) return JSON.parse(known.reply) as AdminReply;
  const reply = audited(context.rows, call, nowMs, () => apply(context, call, nowMs));
  applied.put({ id: call.id, reply: JSON.stringify(reply) });
  return reply;
}

function apply(context: Context, { name, command }: AdminCall, nowMs: number): AdminReply {
  const { rows } = context;
  switch (name) {
    case 'createAccount':
      return createAccount(rows, command, nowMs);
    case 'addCredit':
      return addCredit(rows, command, nowMs);
    case 'resumeAccount':
      return resumeAccount(rows, command.accountId);
    case 'updateAccount':
      return updateAccount(rows, command);
    case 'closeAccount':
      return closeAccount(context, command.accountId, nowMs);
    case 'createKey':
      return createKey(context, command, nowMs);
    case 'updateKey': {
      const key = findUnrevokedKey(rows, command.keyId, command.accountId);
      return key === undefined ? 'not_found' : changeSettings(context, key, command.settings, nowMs);
    }
    case 'setKeyState':
      return setKeyState(rows, command, nowMs);
    case 'setMonthlyLimit':
      return setMonthlyLimit(context, command, nowMs);
    case 'rotateKey':
      return rotateKey(rows, command, nowMs);
    case 'createGroup':
      return createGroup(rows, command, nowMs);
    case 'updateGroup':
      return updateGroup(rows, command, nowMs);
    case 'deleteGroup':
      return deleteGroup(rows, command, nowMs);
    case 'createLimit':
      return createLimit(rows, command, nowMs);
    case 'updateLimit':
      return updateLimit(rows, command, nowMs);
    case 'deleteLimit':
      return deleteLimit(rows, command);
    case 'createManagementKey':
      return createManagementKey(rows, command, nowMs);
    case 'setManagementKeyScopes':
      return changeManagementKey(rows, command.keyId, { scopes: command.scopes });
    case 'setManagementKeyState':
      return changeManagementKey(rows, command.keyId, { state: command.state });
    case 'createSession':
      return createSession(rows, command, nowMs);
    case 'endSession':
      return endSession(rows, command.sessionId, nowMs);
    case 'startSubscription':
      return startSubscription(context, command, nowMs);
    case 'cancelSubscription':
      return cancelSubscription(context, command.accountId);
    case 'bootstrap':
      return bootstrap(rows, command, nowMs);
    case 'createWebhook':
      return createWebhook(rows, command, nowMs);
    case 'updateWebhook':
      return updateWebhook(rows, command);
    case 'deleteWebhook':
      return deleteWebhook(rows, command);
    case 'replayDelivery':
      return replayDelivery(rows, command, nowMs);
    case 'emitEvent':
      return emitOutside(rows, command, nowMs);
    case 'recordAction':
      return command.accountId;
  }
}

function createAccount(rows: Rows, { name, balance }: AdminCommands['createAccount'], nowMs: number): number {
  const id = nextNumber(rows, 'account');
  const account: Account = {
    id,
    name,
    balance: 0n,
    held: 0n,
    running: 0,
    createdAtMs: nowMs,
    period: null,
    plans: 0,
    entries: 0,
    suspended: null,
    writtenOff: 0n,
    lowBalance: null,
    closedAtMs: null,
  };
  if (balance === 0n) rows.accounts.put(account);
  else changeBalance(rows, account, balance, { kind: 'opening', note: 'first balance', atMs: nowMs });
  addFreeWindows(rows, id, nowMs);
  return id;
}

function addCredit(rows: Rows, command: AdminCommands['addCredit'], nowMs: number): AdminReply {
  const { accountId, amount, note, reference = null } = command;
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  const known = reference === null ? undefined : rows.findEntry(reference);
  if (known !== undefined) return known.accountId === accountId && known.amount === amount ? accountId : 'conflict';
  if (account.balance - account.held + amount < 0n && amount < 0n) return 'insufficient';
  if (amount !== 0n) changeBalance(rows, account, amount, { kind: 'credit', note, reference, atMs: nowMs });
  return accountId;
}

function resumeAccount(rows: Rows, accountId: number): AdminReply {
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  rows.accounts.put({ ...account, suspended: null, writtenOff: 0n });
  return accountId;
}

function updateAccount(rows: Rows, { accountId, ...change }: AdminCommands['updateAccount']): AdminReply {
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  rows.accounts.put({ ...account, ...change });
  return accountId;
}

function createKey(context: Context, command: AdminCommands['createKey'], nowMs: number): AdminReply {
  const { rows } = context;
  const { accountId, settings } = command;
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  if (account.closedAtMs !== null) return 'closed';
  const own = settings.balance ?? 0n;
  if (own < 0n || own > account.balance - account.held) return 'insufficient';
  if (!hasGroup(rows, accountId, settings)) return 'no_group';
  const reply = changeSettings(context, addKey(rows, command, nowMs), settings, nowMs);
  if (typeof reply === 'number') emitKeyEvent(rows, present(rows.keys.get(reply)), 'key.created', { nowMs });
  return reply;
}

/** Adds and stores a key with default settings. */
function addKey(rows: Rows, { accountId, hash, masked }: NewKey, nowMs: number): Key {
  assert(!rows.hasHash(hash), 'two keys have one hash');
  const key: Key = {
    id: nextNumber(rows, 'api_key'),
    accountId,
    hash,
    masked,
    createdAtMs: nowMs,
    state: 'enabled',
    label: '',
    allowedModels: null,
    balance: null,
    held: 0n,
    running: 0,
    useSubsFirst: true,
    fallbackToPayg: true,
    expiresAtMs: null,
    groupId: null,
    tags: {},
    metadata: '{}',
    lowBalance: null,
    keepBodies: null,
    paused: false,
  };
  rows.keys.put(key);
  return key;
}

function changeSettings(context: Context, key: Key, settings: KeySettings, nowMs: number): AdminReply {
  const { rows, dailyLimitUnit: unit } = context;
  const { balance, dailyLimit, minuteLimit, ...others } = settings;
  if (!hasGroup(rows, key.accountId, settings)) return 'no_group';
  const moved = balance === undefined ? key : setBalance(rows, key, balance, nowMs);
  if (moved === 'insufficient') return moved;
  const changed = Object.entries(others).filter(([, value]) => value !== undefined);
  rows.keys.put({ ...moved, ...Object.fromEntries(changed) });
  for (const [field, value] of [['minute_limit', minuteLimit] as const, ['daily_limit', dailyLimit] as const]) {
    if (value !== undefined) setField(rows, key, { field, value: BigInt(value), unit }, nowMs);
  }
  return key.id;
}

/** Returns whether the settings name no group, or a group of the account. */
function hasGroup(rows: Rows, accountId: number, { groupId }: KeySettings): boolean {
  return groupId === undefined || groupId === null || findGroup(rows, groupId, accountId) !== undefined;
}

/** Gives a key a new secret. The previous one stays valid for `overlapMs`; those of earlier rotations keep their expiry. */
function rotateKey(rows: Rows, command: AdminCommands['rotateKey'], nowMs: number): AdminReply {
  const { keyId, accountId, hash, masked, overlapMs } = command;
  const key = findUnrevokedKey(rows, keyId, accountId);
  if (key === undefined) return 'not_found';
  assert(!rows.hasHash(hash), 'two keys have one hash');
  if (overlapMs > 0) rows.addSecret({ hash: key.hash, keyId, endsAtMs: nowMs + overlapMs });
  const after = { ...key, hash, masked };
  rows.keys.put(after);
  const overlap_ends_at = overlapMs > 0 ? isoTime(nowMs + overlapMs) : null;
  emitKeyEvent(rows, after, 'key.rotated', { overlap_ends_at, nowMs });
  return keyId;
}

/** Gives a key its own balance (null: none). Returns `insufficient` if that would take money that is held, or more than the account has available. */
function setBalance(rows: Rows, key: Key, balance: bigint | null, nowMs: number): Key | 'insufficient' {
  const amount = (balance ?? 0n) - (key.balance ?? 0n);
  const account = findOwner(rows, key);
  const covered = amount > 0n ? account.balance - account.held : (key.balance ?? 0n) - key.held;
  if ((amount > 0n ? amount : -amount) > covered) return 'insufficient';
  return { ...moveToKey(rows, key, amount, nowMs), balance };
}

function setMonthlyLimit(
  { rows, dailyLimitUnit: unit }: Context,
  { keyId, limit = 0n }: AdminCommands['setMonthlyLimit'],
  nowMs: number,
): AdminReply {
  const key = findUnrevokedKey(rows, keyId, undefined);
  if (key === undefined) return 'not_found';
  setField(rows, key, { field: 'monthly_limit', value: limit, unit }, nowMs);
  return key.id;
}

function setKeyState(rows: Rows, { keyId, accountId, state }: AdminCommands['setKeyState'], nowMs: number): AdminReply {
  const key = findUnrevokedKey(rows, keyId, accountId);
  if (key === undefined) return 'not_found';
  const after = { ...key, state };
  rows.keys.put(after);
  returnBalanceOfEndedKey(rows, after, nowMs);
  if (state === 'revoked') emitKeyEvent(rows, after, 'key.revoked', { nowMs });
  return key.id;
}

function createManagementKey(rows: Rows, command: AdminCommands['createManagementKey'], nowMs: number): AdminReply {
  const { accountId, hash, masked, scopes } = command;
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  if (account.closedAtMs !== null) return 'closed';
  assert(!rows.hasHash(hash), 'two keys have one hash');
  const id = nextNumber(rows, 'management_key');
  rows.managementKeys.put({ id, accountId, hash, masked, createdAtMs: nowMs, state: 'enabled', scopes });
  return id;
}

function changeManagementKey(
  rows: Rows,
  keyId: number,
  change: { readonly scopes: readonly string[] } | { readonly state: KeyState },
): AdminReply {
  const key = rows.managementKeys.get(keyId);
  if (key === undefined || key.state === 'revoked') return 'not_found';
  rows.managementKeys.put({ ...key, ...change });
  return keyId;
}

function bootstrap(rows: Rows, command: Bootstrap, nowMs: number): AdminReply {
  if ((rows.counters.get('account')?.value ?? 0) > 0) return 'nothing_to_do';
  const { accountName: name, balance, apiKey, managementKey } = command;
  const accountId = createAccount(rows, { name, balance }, nowMs);
  addKey(rows, { accountId, ...apiKey }, nowMs);
  createManagementKey(rows, { accountId, ...managementKey }, nowMs);
  return accountId;
}

/** Returns a key that is not revoked. `accountId`: only if the key belongs to this account; undefined: any account. */
function findUnrevokedKey(rows: Rows, keyId: number, accountId: number | undefined): Key | undefined {
  const key = rows.keys.get(keyId);
  const other = accountId !== undefined && key?.accountId !== accountId;
  return key === undefined || key.state === 'revoked' || other ? undefined : key;
}
