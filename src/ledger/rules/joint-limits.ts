import type { Limit, LimitUse, Rows } from '../rows.ts';
import { type BoundLimit, inOrder, addToUse, sumUse, type Windows } from './limits.ts';

/**
 * Limits of one scope that count the same requests in the same unit are counted together: each request changes only the use of the tightest
 * one. That one decides for all: every other limit that refuses has at least as much left, and the difference stays the same. So the work for a request grows with the
 * number of units, not with the number of limits. The others are updated when a window ends, a limit changes, or someone reads them.
 */

/** The tightest of several limits that are counted together. Its current use is in memory only, until they are separated. */
interface Lead extends BoundLimit {
  /** Its use when the uses in `others` were current. */
  readonly base: LimitUse;
  readonly others: readonly BoundLimit[];
}

/** The limits of a scope while they are counted together. */
export interface JointLimits {
  readonly leads: readonly Lead[];
  /** The indexes, in the list of the scope's limits, of the limits that are counted separately. */
  readonly separateIndexes: readonly number[];
  /** The limits are counted together for requests admitted in these windows. */
  readonly windows: Windows;
  /** The interval in which no temporary raise of a limit ends. */
  readonly fromMs: number;
  readonly untilMs: number;
}

/** The most scopes whose limits are counted together at a time. */
const scopesMax = 50_000;

/** Passed where a time matters only for a rolling minute, which is never counted together with others. */
const anyTimeMs = 0;

/** All limits of a scope, and when a request is checked against them. */
export interface ScopeLimits {
  readonly limits: readonly Limit[];
  readonly windows: Windows;
  readonly nowMs: number;
  /** True if a webhook receives threshold events, which needs each limit counted separately. */
  readonly isWatched: boolean;
}

/** Returns the limits of a scope that are counted together; undefined if none are, or if they could not stay together and were separated by this call. */
export function findJoint(
  rows: Rows,
  scope: Limit['scope'],
  scopeId: number,
  { windows, nowMs, isWatched }: ScopeLimits,
): JointLimits | undefined {
  const known = rows.joint?.[scope].get(scopeId);
  if (known === undefined) return undefined;
  // `windows` is another object as soon as a window has ended or the list of limits has changed.
  const isSame = known.windows === windows && !isWatched;
  if (isSame && nowMs >= known.fromMs && nowMs < known.untilMs && known.leads.every(isOpen)) return known;
  separate(rows, scope, scopeId);
  return undefined;
}

/**
 * Starts to count limits of a scope together, if several count the same. `bound`: those that apply to the request. Returns the limits to check in
 * place of `bound`.
 */
export function joinLimits(
  rows: Rows,
  bound: readonly BoundLimit[],
  { limits, windows, nowMs, isWatched }: ScopeLimits,
): readonly BoundLimit[] {
  const [first] = limits;
  if (first === undefined || rows.joint === undefined || isWatched) return bound;
  const plain = bound.filter(({ limit }) => isPlain(limit));
  if (plain.length < 2) return bound;
  const leads = [...Map.groupBy(plain, ({ limit }) => limit.unit).values()].map(toLead);
  if (leads.length === plain.length || !leads.every(isOpen)) return bound;
  const separateIndexes = [...limits.keys()].filter(index => !isPlain(limits[index]));
  const ends = limits.flatMap(({ raisedUntilMs }) => raisedUntilMs ?? []);
  const fromMs = Math.max(Number.NEGATIVE_INFINITY, ...ends.filter(end => end <= nowMs));
  const untilMs = Math.min(Number.POSITIVE_INFINITY, ...ends.filter(end => end > nowMs));
  // From now on the stored uses are not up to date. A put makes SQLite's engine mark them so: it then counts them again after a crash.
  for (const { use } of leads) rows.limitUses.put(use);
  const places = rows.joint[first.scope];
  if (places.size >= scopesMax) separateAll(rows);
  places.set(first.scopeId, { leads, separateIndexes, windows, fromMs, untilMs });
  return [...leads, ...bound.filter(({ limit }) => !isPlain(limit))];
}

/**
 * Returns true if a limit can be counted together with others: it counts all requests of its scope, its window is not a rolling minute, and
 * `listWindows` does not show it separately, as it shows the request and token limits that come from fields of keys.
 */
function isPlain(limit: Limit | undefined): boolean {
  if (limit === undefined) return false;
  const { models, endUsers, per, field, unit } = limit;
  return models === null && endUsers === 'all' && per !== 'minute' && (field === null || unit === 'usd');
}

/**
 * Returns true if something is left of the limit, or if it only alerts. Once nothing is left of several limits, the gateway names the one that is
 * checked first (`chooseTighter` in `windows.ts`), not the tightest.
 */
function isOpen({ limit, max, use }: BoundLimit): boolean {
  return limit.action === 'alert' || sumUse(use, anyTimeMs) < max;
}

function toLead(bound: readonly BoundLimit[]): Lead {
  // Without groups, because the limits all have the same scope.
  const order = inOrder([]);
  const refusing = bound.filter(({ limit }) => limit.action === 'refuse');
  const tightest = (refusing.length > 0 ? refusing : bound).reduce((one, other) => {
    const difference = readLeft(one) - readLeft(other);
    return difference < 0n || (difference === 0n && order(one.limit, other.limit) < 0) ? one : other;
  });
  const others = bound.filter(each => each !== tightest);
  return { ...tightest, base: tightest.use, others };
}

function readLeft({ max, use }: BoundLimit): bigint {
  return max - sumUse(use, anyTimeMs);
}

/** Returns all limits that apply, each with its current use. */
export function listEach(bound: readonly BoundLimit[]): BoundLimit[] {
  return bound.flatMap(each => (isLead(each) ? listOfLead(each) : each));
}

/** Returns true if other limits are counted together with this one. */
export function isLead(bound: BoundLimit): bound is Lead {
  return 'others' in bound;
}

function listOfLead(lead: Lead): readonly BoundLimit[] {
  const { base, use, others } = lead;
  const more = { used: use.used - base.used, held: use.held - base.held };
  const at = { admittedAtMs: anyTimeMs, isNew: false, nowMs: anyTimeMs };
  return [lead, ...others.map(other => ({ ...other, use: addToUse(other.use, more, at) }))];
}

/** Stops counting the limits of a scope together, and updates the use of each. */
export function separate(rows: Rows, scope: Limit['scope'], scopeId: number): void {
  const joint = rows.joint?.[scope].get(scopeId);
  if (joint === undefined) return;
  rows.joint?.[scope].delete(scopeId);
  for (const lead of joint.leads) {
    if (lead.use !== lead.base) for (const { use } of listOfLead(lead)) rows.limitUses.put(use);
  }
}

/** Calls `separate` for all scopes. */
export function separateAll(rows: Rows): void {
  for (const scope of ['key', 'group', 'account'] as const) {
    for (const scopeId of rows.joint?.[scope].keys() ?? []) separate(rows, scope, scopeId);
  }
}
