import type { LimitChange, LimitField, LimitRefusal, LimitScope, NewLimit } from '../ledger.ts';
import type { DailyLimitUnit } from '../plans.ts';
import type { Key, Limit, Rows } from '../rows.ts';
import { windowAt } from './calendar.ts';
import { nextNumber } from './context.ts';
import { findGroup } from './groups.ts';
import { recountWindow } from './limits.ts';

/**
 * Creates, changes and removes limits, by commands for limits and by fields of keys: such a field shows the limit that it has created.
 */

/** The most limits that one account, group or key can have. */
const limitsMax = 100;
const nanoPerDollar = 1_000_000_000n;

/** The account whose limits a command may change; undefined: all accounts (the operator). */
type Owner = number | undefined;

/** Creates a limit. Returns its id. */
export function createLimit(rows: Rows, command: NewLimit, nowMs: number): number | 'not_found' | 'too_many' {
  const { accountId, scope, scopeId } = command;
  if (!hasScope(rows, accountId, scope, scopeId)) return 'not_found';
  if (rows.listLimits(scope, scopeId).length >= limitsMax) return 'too_many';
  const { window: per, raised, ...settings } = command;
  return addLimit(rows, { ...settings, per, ...raiseColumns(raised), field: null }, nowMs);
}

/** Returns true if the scope is the account, or one of its keys or groups. */
function hasScope(rows: Rows, accountId: number, scope: LimitScope, scopeId: number): boolean {
  if (rows.accounts.get(accountId) === undefined) return false;
  if (scope === 'account') return scopeId === accountId;
  if (scope === 'group') return findGroup(rows, scopeId, accountId) !== undefined;
  const key = rows.keys.get(scopeId);
  return key?.accountId === accountId && key.state !== 'revoked';
}

/** Changes a limit; recounts its use if it now counts something else. */
export function updateLimit(
  rows: Rows,
  { limitId, accountId, change }: { readonly limitId: number; readonly accountId: Owner; readonly change: LimitChange },
  nowMs: number,
): number | LimitRefusal {
  const limit = findLimit(rows, limitId, accountId);
  if (typeof limit === 'string') return limit;
  const { raised, ...settings } = change;
  const after: Limit = { ...limit, ...settings, ...(raised === undefined ? {} : raiseColumns(raised)) };
  rows.limits.put(after);
  const counted = ['timeZone', 'models', 'endUsers'] as const;
  if (counted.some(name => settings[name] !== undefined)) {
    rows.forgetUses(limitId);
    countNow(rows, after, nowMs);
  }
  return limitId;
}

/** Removes a limit. */
export function deleteLimit(
  rows: Rows,
  { limitId, accountId }: { readonly limitId: number; readonly accountId: Owner },
): number | LimitRefusal {
  const limit = findLimit(rows, limitId, accountId);
  if (typeof limit === 'string') return limit;
  removeLimit(rows, limit);
  return limitId;
}

function findLimit(rows: Rows, limitId: number, accountId: Owner): Limit | LimitRefusal {
  const limit = rows.limits.get(limitId);
  const isForeign = accountId !== undefined && limit?.accountId !== accountId;
  if (limit === undefined || limit.removed || isForeign) return 'not_found';
  if (limit.field === 'free_minute' || limit.field === 'free_day') return 'fixed';
  return limit.locked && accountId !== undefined ? 'locked' : limit;
}

function raiseColumns(raised: NewLimit['raised']): Pick<Limit, 'raisedMax' | 'raisedUntilMs'> {
  return { raisedMax: raised?.max ?? null, raisedUntilMs: raised?.untilMs ?? null };
}

type LimitParts = Omit<Limit, 'id' | 'removed' | 'createdAtMs'>;

function addLimit(rows: Rows, parts: LimitParts, nowMs: number): number {
  const limit = { ...parts, id: nextNumber(rows, 'limit'), removed: false, createdAtMs: nowMs };
  rows.limits.put(limit);
  countNow(rows, limit, nowMs);
  return limit.id;
}

/** Counts the current window, so that the limit is shown with its current use. */
function countNow(rows: Rows, limit: Limit, nowMs: number): void {
  recountWindow(rows, limit, windowAt(limit.per, limit.timeZone, nowMs), nowMs);
}

function removeLimit(rows: Rows, limit: Limit): void {
  rows.limits.put({ ...limit, removed: true });
  rows.forgetUses(limit.id);
}

/** The fields that all limits have that are created by fields of keys. */
const plain = {
  timeZone: 'UTC',
  models: null,
  endUsers: 'all',
  action: 'refuse',
  raisedMax: null,
  raisedUntilMs: null,
} as const;

/** Adds the windows of free models: hard limits, the same for every account. */
export function addFreeWindows(rows: Rows, accountId: number, nowMs: number): void {
  const free = {
    ...plain,
    accountId,
    scope: 'account',
    scopeId: accountId,
    unit: 'requests',
    models: ['*:free'],
    locked: true,
  } as const;
  addLimit(rows, { ...free, per: 'minute', max: 20n, field: 'free_minute' }, nowMs);
  addLimit(rows, { ...free, per: 'day', max: 200n, field: 'free_day' }, nowMs);
}

/** A field of keys that is a view of a limit. */
export type KeyLimitField = Extract<LimitField, 'minute_limit' | 'daily_limit' | 'monthly_limit'>;

/** Returns the unit and window of the limit that a field creates. */
export function fieldShape(field: KeyLimitField, unit: DailyLimitUnit): Pick<Limit, 'unit' | 'per'> {
  if (field === 'minute_limit') return { unit: 'requests', per: 'minute' };
  if (field === 'monthly_limit') return { unit: 'usd', per: 'month' };
  return { unit: unit === 'dollars' ? 'usd' : 'requests', per: 'day' };
}

/** Returns the value of a field, in the field's unit, for the limit that it created; undefined if the field can't express the limit. */
export function fieldValue(
  limit: Pick<Limit, 'timeZone' | 'models' | 'endUsers' | 'action' | 'max' | 'unit' | 'field'>,
): bigint | undefined {
  const { timeZone, models, endUsers, action, max, unit, field } = limit;
  const isPlain = timeZone === 'UTC' && models === null && endUsers === 'all' && action === 'refuse';
  if (!isPlain || max === 0n) return undefined;
  if (field !== 'daily_limit' || unit !== 'usd') return max;
  return max % nanoPerDollar === 0n ? max / nanoPerDollar : undefined;
}

/**
 * Sets a field of a key: creates or changes the field's limit, or removes it if the value is 0. A limit that the field can't express any
 * more is kept as an ordinary limit.
 */
export function setField(
  rows: Rows,
  key: Key,
  { field, value, unit }: { readonly field: KeyLimitField; readonly value: bigint; readonly unit: DailyLimitUnit },
  nowMs: number,
): void {
  const made = rows.listLimits('key', key.id).find(limit => limit.field === field);
  const limit = made !== undefined && fieldValue(made) !== undefined ? made : undefined;
  const shape = fieldShape(field, unit);
  const max = field === 'daily_limit' && shape.unit === 'usd' ? value * nanoPerDollar : value;
  if (value === 0n) {
    if (limit !== undefined) removeLimit(rows, limit);
    return;
  }
  if (limit !== undefined) {
    rows.limits.put({ ...limit, max });
    return;
  }
  if (made !== undefined) rows.limits.put({ ...made, field: null });
  const { id: scopeId, accountId } = key;
  // Only the operator can set this field.
  const locked = field === 'monthly_limit';
  addLimit(rows, { ...plain, ...shape, accountId, scope: 'key', scopeId, max, locked, field }, nowMs);
}
