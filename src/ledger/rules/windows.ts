import type { DenialFacts, WindowState } from '../../errors/gateway-error.ts';
import type { Denied } from '../ledger.ts';
import type { Key, Limit, Rows } from '../rows.ts';
import { pathFrom } from './groups.ts';
import { bindLimits } from './bind-limits.ts';
import { listEach } from './joint-limits.ts';
import { amountAgainst, type BoundLimit, inOrder, sumUse } from './limits.ts';
import { opensAtMs } from './rolling.ts';

/** The state of request, token and concurrency limits, whether they refuse a request, and how much they still allow. */

const minuteWaitMs = { min: 1000, max: 61_000 };
const concurrentWaitMs = 1000;

/**
 * Returns the current state of request and token limits: those of fields of the key, and of the others the tightest for each unit. The tightest
 * comes first; equally tight ones are in the order in which they are checked.
 */
export function listWindows(bound: readonly BoundLimit[], groups: readonly number[], nowMs: number): WindowState[] {
  const shown = chooseShown(bound, groups, nowMs);
  if (shown.length === 0) return [];
  if (shown.length > 1) sortByOrder(shown, groups);
  const states = shown.map(each => windowState(each, nowMs));
  return states.length < 2 ? states : states.sort((one, other) => one.remaining - other.remaining);
}

function chooseShown(bound: readonly BoundLimit[], groups: readonly number[], nowMs: number): BoundLimit[] {
  const shown: BoundLimit[] = [];
  let requests: Tightest | undefined;
  let tokens: Tightest | undefined;
  for (const each of bound) {
    const { unit, action, field } = each.limit;
    if (action === 'alert' || (unit !== 'requests' && unit !== 'tokens')) continue;
    if (field !== null) shown.push(each);
    else if (unit === 'requests') requests = chooseTighter(requests, each, groups, nowMs);
    else tokens = chooseTighter(tokens, each, groups, nowMs);
  }
  if (requests !== undefined) shown.push(requests.bound);
  if (tokens !== undefined) shown.push(tokens.bound);
  return shown;
}

/** A limit, and the amount that is left of it; negative if the limit was lowered below its use. */
interface Tightest {
  readonly bound: BoundLimit;
  readonly left: bigint;
}

function chooseTighter(
  one: Tightest | undefined,
  other: BoundLimit,
  groups: readonly number[],
  nowMs: number,
): Tightest {
  const left = other.max - sumUse(other.use, nowMs);
  if (one === undefined) return { bound: other, left };
  const isOther =
    left !== one.left && (left > 0n || one.left > 0n)
      ? left < one.left
      : inOrder(groups)(other.limit, one.bound.limit) < 0;
  return isOther ? { bound: other, left } : one;
}

/** Sorts limits in the order in which they are checked. */
export function sortByOrder(bound: BoundLimit[], groups: readonly number[]): BoundLimit[] {
  const order = inOrder(groups);
  return bound.sort((one, other) => order(one.limit, other.limit));
}

function windowState(bound: BoundLimit, nowMs: number): WindowState {
  const { limit, max } = bound;
  const left = max - sumUse(bound.use, nowMs);
  return {
    limit: limit.field === null || limit.field === 'monthly_limit' ? 'limit' : limit.field,
    unit: limit.unit === 'tokens' ? 'tokens' : 'requests',
    max: Number(max),
    remaining: left > 0n ? Number(left) : 0,
    resetAtMs: computeReset(bound, 1n, nowMs),
  };
}

/** Returns when a limit may have room for `need` more; Infinity: never by itself. */
export function computeReset({ use, max, window }: BoundLimit, need: bigint, nowMs: number): number {
  return use.rolling === null ? window.endMs : opensAtMs(use.rolling, Number(max - need), nowMs);
}

/** The amounts that a request adds to limits at admission. */
export interface Need {
  readonly requests: bigint;
  /** The least number of tokens that it needs. */
  readonly tokens: bigint;
}

/** Returns the denial of the first limit that the request does not fit; undefined if it fits all. Does not check money. */
export function findRefusal(
  bound: readonly BoundLimit[],
  { need, groups }: { readonly need: Need; readonly groups: readonly number[] },
  nowMs: number,
): Pick<Denied, 'code' | 'denial' | 'retryAfterMs'> | undefined {
  if (bound.every(each => fits(each, need, nowMs))) return undefined;
  const refusing = listEach(bound).filter(each => !fits(each, need, nowMs));
  const [first] = sortByOrder(refusing, groups);
  return first && refusal(first, need, nowMs);
}

function fits(bound: BoundLimit, need: Need, nowMs: number): boolean {
  const { limit, max } = bound;
  if (limit.unit === 'usd' || limit.action === 'alert') return true;
  const needed = readNeed(limit, need);
  // Requests without tokens are not counted in tokens.
  if (needed === 0n) return true;
  return sumUse(bound.use, nowMs) + needed <= max;
}

function readNeed({ unit }: Limit, { requests, tokens }: Need): bigint {
  if (unit === 'concurrent') return 1n;
  return unit === 'tokens' ? tokens : requests;
}

function refusal(bound: BoundLimit, need: Need, nowMs: number): Pick<Denied, 'code' | 'denial' | 'retryAfterMs'> {
  const { limit, max } = bound;
  const unit = limit.unit === 'usd' ? 'nano_usd' : limit.unit;
  const at = computeReset(bound, readNeed(limit, need), nowMs);
  const denial: DenialFacts = {
    ...describeLimit(limit),
    unit,
    used: Number(sumUse(bound.use, nowMs)),
    max: Number(max),
  };
  if (limit.unit === 'concurrent') return { code: 'rate_limit', denial, retryAfterMs: concurrentWaitMs };
  if (at === Number.POSITIVE_INFINITY) return { code: 'rate_limit', denial };
  const waitMs = at - nowMs;
  const retryAfterMs = limit.per === 'minute' ? Math.min(Math.max(waitMs, minuteWaitMs.min), minuteWaitMs.max) : waitMs;
  return { code: 'rate_limit', denial: { ...denial, resetAtMs: at }, retryAfterMs };
}

/** Returns the fields of a denial that identify the limit. */
export function describeLimit({ id, scope, scopeId, per, field }: Limit): Pick<DenialFacts, 'limit' | 'row'> {
  return { limit: field ?? 'limit', row: { id, scope, scopeId, window: per } };
}

/** Returns how many more tokens the limits allow a request that was admitted at `admittedAtMs`; Infinity if no limit applies. */
export function tokenRoom(bound: readonly BoundLimit[], admittedAtMs: number, nowMs: number): number {
  let room = Number.POSITIVE_INFINITY;
  for (const { limit, max, use } of bound) {
    if (limit.unit !== 'tokens' || limit.action === 'alert') continue;
    room = Math.min(room, Number(max - amountAgainst(use, admittedAtMs, nowMs)));
  }
  return Math.max(0, room);
}

/**
 * Returns the state of the request and token limits that apply to a key now, like `listWindows`. With `free`, includes those of free models.
 */
export function readWindows(rows: Rows, key: Key, free: boolean, nowMs: number): WindowState[] {
  const groups = pathFrom(rows, key.groupId);
  const request = { accountId: key.accountId, keyId: key.id, model: free ? ':free' : '', endUserId: null, groups };
  return listWindows(bindLimits(rows, { ...request, admittedAtMs: nowMs }, nowMs), groups, nowMs);
}

/**
 * Returns the denial that every request of a key would get now: of a full limit of requests or concurrent requests over all models and end
 * users. If no such limit is full, returns how many more requests they allow: at least 1, possibly Infinity.
 */
export function readRefusal(rows: Rows, key: Key, nowMs: number): Denied | number {
  const groups = pathFrom(rows, key.groupId);
  const request = { accountId: key.accountId, keyId: key.id, model: '', endUserId: null, groups };
  const all = bindLimits(rows, { ...request, admittedAtMs: nowMs }, nowMs);
  const bound = all.filter(({ limit }) => limit.endUsers === 'all');
  const refusal = findRefusal(bound, { need: { requests: 1n, tokens: 0n }, groups }, nowMs);
  if (refusal === undefined) return countRoom(bound, nowMs);
  return { kind: 'denied', ...refusal, windows: listWindows(bound, groups, nowMs) };
}

function countRoom(bound: readonly BoundLimit[], nowMs: number): number {
  let room = Number.POSITIVE_INFINITY;
  for (const { limit, max, use } of bound) {
    if (limit.action === 'alert' || (limit.unit !== 'requests' && limit.unit !== 'concurrent')) continue;
    room = Math.min(room, Number(max - sumUse(use, nowMs)));
  }
  return room;
}
