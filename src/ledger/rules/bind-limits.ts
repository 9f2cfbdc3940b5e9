import type { LimitScope } from '../ledger.ts';
import type { Limit, Request, Rows } from '../rows.ts';
import { type Window, windowAt } from './calendar.ts';
import { isWatched } from './events.ts';
import { findJoint, joinLimits, type ScopeLimits } from './joint-limits.ts';
import { type BoundLimit, countedUser, coversModel, currentMax, readUse, type Windows } from './limits.ts';

/** The fields of a request that decide which limits apply to it, and in which windows. */
export interface Bindable extends Pick<Request, 'accountId' | 'keyId' | 'endUserId' | 'groups' | 'admittedAtMs'> {
  /** The listed id. */
  readonly model: string;
}

/**
 * Returns the limits that apply to a request: those of its key, of its groups from the nearest on, and of its account. Of limits that are
 * counted together, it returns only the tightest; `listEach` lists them all.
 */
export function bindLimits(rows: Rows, request: Bindable, nowMs: number): BoundLimit[] {
  const binding = { request, nowMs, isWatched: isWatched(rows, request.accountId), bound: [] };
  bindScope(rows, ['key', request.keyId], binding);
  for (const group of request.groups) bindScope(rows, ['group', group], binding);
  bindScope(rows, ['account', request.accountId], binding);
  return binding.bound;
}

/** Returns the limits that apply to an admitted request. */
export function bindRequest(rows: Rows, request: Request, nowMs: number): BoundLimit[] {
  const { accountId, keyId, modelId, endUserId, groups, admittedAtMs } = request;
  return bindLimits(rows, { accountId, keyId, model: rows.modelName(modelId), endUserId, groups, admittedAtMs }, nowMs);
}

/** A request, and the limits that have been found for it so far. */
interface Binding {
  readonly request: Bindable;
  readonly nowMs: number;
  readonly isWatched: boolean;
  readonly bound: BoundLimit[];
}

function bindScope(rows: Rows, [scope, scopeId]: readonly [LimitScope, number], binding: Binding): void {
  const { request, nowMs, bound } = binding;
  const limits = rows.listLimits(scope, scopeId);
  if (limits.length === 0) return;
  const windows = findWindows(limits, request.admittedAtMs);
  const scoped: ScopeLimits = { limits, windows, nowMs, isWatched: binding.isWatched };
  const known = findJoint(rows, scope, scopeId, scoped);
  if (known !== undefined) {
    for (const lead of known.leads) bound.push(lead);
    for (const index of known.separateIndexes) bindOne(rows, limits[index], windows.each[index], binding);
    return;
  }
  // Nothing to count together.
  if (limits.length === 1) return bindOne(rows, limits[0], windows.each[0], binding);
  const all: BoundLimit[] = [];
  for (const [index, limit] of limits.entries()) bindOne(rows, limit, windows.each[index], { ...binding, bound: all });
  bound.push(...joinLimits(rows, all, scoped));
}

function bindOne(
  rows: Rows,
  limit: Limit | undefined,
  window: Window | undefined,
  { request, nowMs, bound }: Binding,
): void {
  if (limit === undefined || window === undefined) return;
  if (!coversModel(limit, request.model)) return;
  const use = readUse(rows, { limit, window, endUser: countedUser(limit, request.endUserId) }, nowMs);
  bound.push({ limit, max: currentMax(limit, nowMs), window, use });
}

/** The last windows of each list of limits: the next request is nearly always in the same ones. */
const lastWindows = new WeakMap<readonly Limit[], Windows>();

function findWindows(limits: readonly Limit[], atMs: number): Windows {
  const last = lastWindows.get(limits);
  if (last !== undefined && atMs >= last.startMs && atMs < last.endMs) return last;
  const each = limits.map(({ per, timeZone }) => windowAt(per, timeZone, atMs));
  const startMs = Math.max(...each.map(window => window.startMs));
  const endMs = Math.min(...each.map(window => window.endMs));
  const found = { each, startMs, endMs };
  lastWindows.set(limits, found);
  return found;
}
