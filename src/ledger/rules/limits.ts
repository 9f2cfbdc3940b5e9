import type { Hold, Limit, LimitUse, Rows, Tally, TallySpan, Usage, Voided } from '../rows.ts';
import type { LimitUnit, LimitWindow } from '../ledger.ts';
import { minuteMs, type Window, windowAt } from './calendar.ts';
import { isWatched, emitThresholdEvents } from './events.ts';
import { matchesOne } from '../../lib/text-pattern.ts';
import { addToRolling, changeRolling, peakRolling, type Rolling, sumRolling } from './rolling.ts';

/**
 * The use of limits, and how requests change it. A use is the sum over the requests of a window. It is counted from them when the window is
 * first read, and updated with each request from then on.
 */

/** A limit that applies to a request, with its use in the window of the request's admission. */
export interface BoundLimit {
  readonly limit: Limit;
  /** The current maximum: `limit.max`, or its temporary raise. */
  readonly max: bigint;
  readonly window: Window;
  /** Replaced by `changeUses`. */
  use: LimitUse;
  /** The other limits that are counted together with this one: see `joint-limits.ts`. Absent: none. */
  readonly others?: readonly BoundLimit[];
}

/** The current window of each limit of a scope (in the limits' order), and the interval in which all of them stay current. */
export interface Windows {
  readonly each: readonly Window[];
  readonly startMs: number;
  readonly endMs: number;
}

const noTimes: Rolling = new Float64Array(0);
/** When a rolling minute is recounted, at least this many of the latest admissions are read, in case the clock was set back. */
export const latestTimes = 200;

/** Returns the current maximum: `max`, or its temporary raise. */
export function currentMax({ max, raisedMax, raisedUntilMs }: Limit, nowMs: number): bigint {
  return raisedMax !== null && raisedUntilMs !== null && nowMs < raisedUntilMs ? raisedMax : max;
}

/** Returns the used and held amounts of a limit now; for a rolling minute those of the last 60 s. */
export function readAmounts({ used, held, rolling }: LimitUse, nowMs: number): { used: bigint; held: bigint } {
  if (rolling === null) return { used, held };
  const sums = sumRolling(rolling, nowMs);
  return { used: BigInt(sums.used), held: BigInt(sums.held) };
}

/** Returns the sum of the used and held amounts of a limit now. */
export function sumUse(use: LimitUse, nowMs: number): bigint {
  if (use.rolling === null) return use.used + use.held;
  const { used, held } = sumRolling(use.rolling, nowMs);
  return BigInt(used + held);
}

/** Returns used plus held, as they count against a request admitted at `admittedAtMs`; for a rolling minute, the peak over all minutes that contain it. */
export function amountAgainst({ used, held, rolling }: LimitUse, admittedAtMs: number, nowMs: number): bigint {
  return rolling === null ? used + held : BigInt(peakRolling(rolling, admittedAtMs, nowMs));
}

/** Returns true if a limit counts requests of a model; `*` in a pattern matches any text. */
export function coversModel({ models }: Limit, model: string): boolean {
  return models === null || matchesOne(models, model);
}

/** Returns the end user that a request counts for; 0 if the limit counts all end users together, or the request names none. */
export function countedUser({ endUsers }: Limit, endUserId: number | null): number {
  return endUsers === 'each' ? (endUserId ?? 0) : 0;
}

/** Identifies the use of a limit in a window. `endUser`: see `LimitUse`. */
export interface UsePlace {
  readonly limit: Limit;
  readonly window: Window;
  readonly endUser: number;
}

/** Returns a use. Counts it from its requests if the window has not been read yet. */
export function readUse(rows: Rows, { limit, window, endUser }: UsePlace, nowMs: number): LimitUse {
  const first = rows.limitUses.get(limit.id, window.number, 0) ?? recountWindow(rows, limit, window, nowMs);
  if (endUser === 0) return first;
  return rows.limitUses.get(limit.id, window.number, endUser) ?? emptyUse({ limit, window, endUser });
}

function emptyUse({ limit, window, endUser }: UsePlace): LimitUse {
  const rolling = limit.per === 'minute' ? noTimes : null;
  return { limitId: limit.id, number: window.number, endUser, used: 0n, held: 0n, rolling };
}

/** Counts the current window from its requests, unless it was counted before. */
export function ensureCounted(rows: Rows, limit: Limit, nowMs: number): void {
  readUse(rows, { limit, window: windowAt(limit.per, limit.timeZone, nowMs), endUser: 0 }, nowMs);
}

/** Counts a window from its requests. Returns the use with `endUser` 0. */
export function recountWindow(rows: Rows, limit: Limit, window: Window, nowMs: number): LimitUse {
  const uses = sumRequests(limit, {
    window,
    nowMs,
    tally: span => rows.tally(span),
    modelName: id => rows.modelName(id),
  });
  for (const use of uses.values()) rows.limitUses.put(use);
  return uses.get(0) ?? emptyUse({ limit, window, endUser: 0 });
}

/** A window, and the functions that read its requests. */
export interface WindowSource {
  readonly window: Window;
  readonly nowMs: number;
  readonly tally: (span: TallySpan) => readonly Tally[];
  readonly modelName: (modelId: number) => string;
}

/** Returns the uses of a window by end user, summed from its requests. */
export function sumRequests(
  limit: Limit,
  { window, nowMs, tally: read, modelName }: WindowSource,
): Map<number, LimitUse> {
  const isRolling = limit.per === 'minute';
  const { accountId, scope, scopeId } = limit;
  const tallies = read({
    accountId,
    scope,
    scopeId,
    startMs: isRolling ? nowMs - minuteMs : window.startMs,
    endMs: window.endMs,
    live: limit.unit === 'concurrent',
    byTime: isRolling,
  });
  const uses = new Map([[0, emptyUse({ limit, window, endUser: 0 })]]);
  for (const tally of tallies) {
    if (!coversModel(limit, modelName(tally.modelId))) continue;
    const endUser = countedUser(limit, tally.endUserId);
    const use = uses.get(endUser) ?? emptyUse({ limit, window, endUser });
    uses.set(endUser, addToUse(use, measure(limit, tally), { admittedAtMs: tally.admittedAtMs, isNew: true, nowMs }));
  }
  return uses;
}

/** The amount added to a limit. */
export interface Measure {
  readonly used: bigint;
  readonly held: bigint;
}

/** Returns the amount that requests add to a limit. */
function measure({ unit }: Limit, tally: Tally): Measure {
  switch (unit) {
    case 'usd':
      return { used: tally.spent, held: tally.held };
    case 'requests':
      return { used: tally.requests, held: 0n };
    case 'tokens':
      return { used: tally.tokens, held: tally.tokensHeld };
    case 'concurrent':
      return { used: 0n, held: tally.running };
  }
}

/** Returns a use after adding an amount (which may be negative) of a request admitted at `admittedAtMs`. */
export function addToUse(
  use: LimitUse,
  { used, held }: Measure,
  { admittedAtMs, isNew, nowMs }: { readonly admittedAtMs: number; readonly isNew: boolean; readonly nowMs: number },
): LimitUse {
  const { limitId, number, endUser, rolling: before } = use;
  if (before === null) return { limitId, number, endUser, used: use.used + used, held: use.held + held, rolling: null };
  const change = { used: Number(used), held: Number(held) };
  const rolling = isNew
    ? addToRolling(before, admittedAtMs, change, nowMs)
    : changeRolling(before, admittedAtMs, change);
  return { limitId, number, endUser, used: use.used, held: use.held, rolling };
}

/** A change of a request: before (undefined if it is being admitted) and after. */
export interface Change {
  readonly before: Tally | undefined;
  readonly after: Tally;
}

/**
 * Changes the uses of the limits that bind a request. Must come before the request's rows are changed, because a use that is read for the
 * first time is counted from those. Also updates `use` of each element of `bound`.
 */
export function changeUses(rows: Rows, bound: readonly BoundLimit[], change: Change, nowMs: number): void {
  if (bound.length === 0) return;
  const { before, after } = change;
  const { admittedAtMs } = after;
  const at = { admittedAtMs, isNew: before === undefined, nowMs };
  const previous = isWatched(rows, bound[0]?.limit.accountId ?? 0) ? bound.map(each => ({ ...each })) : undefined;
  // Computed once per unit, because many limits count the same one.
  const changes: Partial<Record<LimitUnit, Measure>> = {};
  for (const each of bound) {
    const { limit } = each;
    const more = changes[limit.unit] ?? difference(limit, before, after);
    changes[limit.unit] = more;
    // A rolling minute must contain the admission even if its amount is 0, because amounts are added to that entry later.
    const needsNoEntry = before !== undefined || each.use.rolling === null;
    if (more.used === 0n && more.held === 0n && needsNoEntry) continue;
    each.use = addToUse(each.use, more, at);
    // Limits that are counted together are stored later, by `joint-limits.ts`.
    if (each.others === undefined) rows.limitUses.put(each.use);
  }
  if (previous === undefined) return;
  const used = ({ limit, use }: BoundLimit): bigint => {
    const amounts = readAmounts(use, nowMs);
    return limit.unit === 'concurrent' ? amounts.held : amounts.used;
  };
  emitThresholdEvents(rows, previous, bound, { used, nowMs });
}

function difference(limit: Limit, before: Tally | undefined, after: Tally): Measure {
  const current = measure(limit, after);
  if (before === undefined) return current;
  const earlier = measure(limit, before);
  return { used: current.used - earlier.used, held: current.held - earlier.held };
}

/** Returns the amounts that a running request adds to limits. */
export function tallyHold(hold: Hold): Tally {
  return {
    ...tallyAdmission(hold),
    held: hold.held,
    tokensHeld: hold.text ? BigInt(hold.inputTokens + (hold.tokens ?? 0)) : 0n,
    running: 1n,
  };
}

/** Returns the amounts that a settled request adds to limits. */
export function tallyUsage(usage: Usage): Tally {
  const { input, cacheRead, cacheWrite5m, cacheWrite1h, output } = usage;
  const tokens = usage.text ? BigInt(input + cacheRead + cacheWrite5m + cacheWrite1h + output) : 0n;
  return { ...tallyAdmission(usage), spent: usage.cost, tokens };
}

/** Returns the amounts that an admitted request adds to limits in any case, however it ends. */
export function tallyAdmission(
  request: Pick<Voided, 'modelId' | 'endUserId' | 'admittedAtMs' | 'requests' | 'free'>,
): Tally {
  const { modelId, endUserId, admittedAtMs, free } = request;
  const requests = free ? request.requests : 1;
  const nothing = { spent: 0n, held: 0n, tokens: 0n, tokensHeld: 0n, running: 0n };
  return { modelId, endUserId, admittedAtMs, requests: BigInt(requests), ...nothing };
}

const windowOrder: readonly (LimitWindow | null)[] = ['minute', 'hour', 'day', 'week', 'month', 'total', null];

/**
 * Returns a function that sorts limits in the order in which they are checked: those of the key, of its groups from the nearest on, of the
 * account; among these the one with the shorter window first, then the older one.
 */
export function inOrder(groups: readonly number[]): (one: Limit, other: Limit) => number {
  const place = ({ scope, scopeId }: Limit): number => {
    if (scope === 'key') return -1;
    return scope === 'account' ? groups.length : groups.indexOf(scopeId);
  };
  return (one, other) =>
    place(one) - place(other) || windowOrder.indexOf(one.per) - windowOrder.indexOf(other.per) || one.id - other.id;
}
