import assert from 'node:assert/strict';
import type {
  Bootstrap,
  GroupSettings,
  KeySettings,
  KeyState,
  LimitChange,
  NewKey,
  NewLimit,
  NewSession,
  PlanName,
  PlanPeriodName,
} from '../ledger.ts';

import type { Account, Key, Rows } from '../rows.ts';
import { type Context, findOwner, nextNumber } from './context.ts';
import { createGroup, deleteGroup, findGroup, updateGroup } from './groups.ts';
import { changeBalance, moveToKey, sendBack } from './holds.ts';
import { addFreeWindows, createLimit, deleteLimit, setField, updateLimit } from './limit-commands.ts';
import { createSession, endSession } from './sessions.ts';
import { cancelSubscription, startSubscription } from './subscriptions.ts';

/** The administrative commands by name, with what each takes. */
export interface AdminCommands {
  createAccount: { name: string; balance: bigint };
  addCredit: { accountId: number; amount: bigint; note: string; reference?: string };
  resumeAccount: { accountId: number };
  createKey: NewKey & { settings: KeySettings };
  updateKey: { keyId: number; accountId: number; settings: KeySettings };
  setKeyState: { keyId: number; accountId: number | undefined; state: KeyState };
  setMonthlyLimit: { keyId: number; limit: bigint | undefined };
  /** The old secret works until then; 0: no more. */
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
}

/**
 * The id of what was made or changed (of a plan its account's), or why nothing was. `conflict`: the account has a plan already, or the reference is another
 * command's; `nothing_to_do`: the ledger has an account already; `locked`, `fixed`: see `LimitRefusal`; `too_many`: the scope has as many limits as it can have.
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
  | 'too_many';

/** An administrative command; its id names it, so that it is done once, however often it comes. */
export type AdminOrder = {
  [K in keyof AdminCommands]: { readonly id: string; readonly name: K; readonly command: AdminCommands[K] };
}[keyof AdminCommands];

/** Does a command once; its repeat is answered as it was the first time. */
export function administer(context: Context, order: AdminOrder, nowMs: number): AdminReply {
  const { applied } = context.rows;
  const known = applied.get(order.id);
  if (known !== undefined) return JSON.parse(known.reply) as AdminReply;
  const reply = apply(context, order, nowMs);
  applied.put({ id: order.id, reply: JSON.stringify(reply) });
  return reply;
}

function apply(context: Context, { name, command }: AdminOrder, nowMs: number): AdminReply {
  const { rows } = context;
  switch (name) {
    case 'createAccount':
      return createAccount(rows, command, nowMs);
    case 'addCredit':
      return addCredit(rows, command, nowMs);
    case 'resumeAccount':
      return resumeAccount(rows, command.accountId);
    case 'createKey':
      return createKey(context, command, nowMs);
    case 'updateKey': {
      const key = findLiving(rows, command.keyId, command.accountId);
      return key === undefined ? 'not_found' : changeSettings(context, key, command.settings, nowMs);
    }
    case 'setKeyState':
      return setKeyState(rows, command, nowMs);
    case 'setMonthlyLimit': {
      const key = findLiving(rows, command.keyId, undefined);
      const { dailyLimitUnit: unit } = context;
      if (key !== undefined) setField(rows, key, { field: 'monthly_limit', value: command.limit ?? 0n, unit }, nowMs);
      return key?.id ?? 'not_found';
    }
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
  };
  if (balance === 0n) rows.accounts.put(account);
  else changeBalance(rows, account, balance, { kind: 'credit', amount: balance, note: 'first balance', atMs: nowMs });
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
  if (amount !== 0n) changeBalance(rows, account, amount, { kind: 'credit', amount, note, reference, atMs: nowMs });
  return accountId;
}

function resumeAccount(rows: Rows, accountId: number): AdminReply {
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  rows.accounts.put({ ...account, suspended: null, writtenOff: 0n });
  return accountId;
}

function createKey(context: Context, command: AdminCommands['createKey'], nowMs: number): AdminReply {
  const { rows } = context;
  const { accountId, settings } = command;
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  const own = settings.balance ?? 0n;
  if (own < 0n || own > account.balance - account.held) return 'insufficient';
  if (!hasGroup(rows, accountId, settings)) return 'no_group';
  return changeSettings(context, addKey(rows, command, nowMs), settings, nowMs);
}

/** A key with default settings; it is stored with the settings that it begins with. */
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

/** Whether the group that settings name is the account's. */
function hasGroup(rows: Rows, accountId: number, { groupId }: KeySettings): boolean {
  return groupId === undefined || groupId === null || findGroup(rows, groupId, accountId) !== undefined;
}

/** Gives a key another secret; the one before works as long as the overlap says. Those of earlier rotations keep their time. */
function rotateKey(rows: Rows, command: AdminCommands['rotateKey'], nowMs: number): AdminReply {
  const { keyId, accountId, hash, masked, overlapMs } = command;
  const key = findLiving(rows, keyId, accountId);
  if (key === undefined) return 'not_found';
  assert(!rows.hasHash(hash), 'two keys have one hash');
  if (overlapMs > 0) rows.addSecret({ hash: key.hash, keyId, endsAtMs: nowMs + overlapMs });
  rows.keys.put({ ...key, hash, masked });
  return keyId;
}

/** Gives a key that balance of its own, null: none; `insufficient` where that takes what a hold covers or nobody has. */
function setBalance(rows: Rows, key: Key, balance: bigint | null, nowMs: number): Key | 'insufficient' {
  const amount = (balance ?? 0n) - (key.balance ?? 0n);
  const account = findOwner(rows, key);
  const covered = amount > 0n ? account.balance - account.held : (key.balance ?? 0n) - key.held;
  if ((amount > 0n ? amount : -amount) > covered) return 'insufficient';
  return { ...moveToKey(rows, key, amount, nowMs), balance };
}

function setKeyState(rows: Rows, { keyId, accountId, state }: AdminCommands['setKeyState'], nowMs: number): AdminReply {
  const key = findLiving(rows, keyId, accountId);
  if (key === undefined) return 'not_found';
  const after = { ...key, state };
  rows.keys.put(after);
  // What a hold covers stays until that ends.
  sendBack(rows, after, nowMs);
  return key.id;
}

function createManagementKey(rows: Rows, command: AdminCommands['createManagementKey'], nowMs: number): AdminReply {
  const { accountId, hash, masked, scopes } = command;
  if (rows.accounts.get(accountId) === undefined) return 'not_found';
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

/** A key that is not revoked, of that account where one is named. */
function findLiving(rows: Rows, keyId: number, accountId: number | undefined): Key | undefined {
  const key = rows.keys.get(keyId);
  const other = accountId !== undefined && key?.accountId !== accountId;
  return key === undefined || key.state === 'revoked' || other ? undefined : key;
}
