import type { DenialFacts, WindowState } from '../../src/errors/gateway-error.ts';
import type { Denied, LimitSettings, LimitUnit, LimitWindow } from '../../src/ledger/ledger.ts';
import type { ModelRequest } from './model-types.ts';

/** Limits in the ledger's reference model: a second, simple ledger for tests, which computes every result anew from all requests. "Model" in the names of types and files means this one; AI models are in the fields `model` and `models`. */

/** A limit of the reference model, with its current settings. */
export interface ModelLimit extends LimitSettings {
  readonly id: number;
  readonly accountId: number;
  readonly scope: 'account' | 'group' | 'key';
  readonly scopeId: number;
  readonly unit: LimitUnit;
  readonly window: LimitWindow | null;
  readonly locked: boolean;
  field: 'minute_limit' | 'daily_limit' | 'monthly_limit' | 'free_minute' | 'free_day' | undefined;
  removed: boolean;
}

const dayMs = 86_400_000;
/** The UTC day of a time. */
export const day = (ms: number): number => Math.floor(ms / dayMs);

const formats = new Map<string, Intl.DateTimeFormat>();
/** By the time, then by the zone; kept because the windows of all requests are found again for each command. */
const parts = new Map<number, Map<string, Record<string, string>>>();

/** Returns a time in a zone: year, month, day, hour, and the offset from UTC. */
function localParts(zone: string, ms: number): Record<string, string> {
  let atTime = parts.get(ms);
  if (atTime === undefined) {
    if (parts.size >= 10_000) parts.clear();
    atTime = new Map();
    parts.set(ms, atTime);
  }
  const known = atTime.get(zone) ?? formatParts(zone, ms);
  atTime.set(zone, known);
  return known;
}

function formatParts(zone: string, ms: number): Record<string, string> {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat('en-GB', {
      timeZone: zone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      hourCycle: 'h23',
      timeZoneName: 'longOffset',
    });
  formats.set(zone, format);
  return Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, value]));
}

/** Returns the name of the window that contains a time. No two windows of a limit have the same name. 'always' for a limit without fixed windows: a rolling minute, `total`, or running requests (null). */
export function windowName(per: LimitWindow | null, zone: string, ms: number): string {
  if (per === null || per === 'total' || per === 'minute') return 'always';
  const { year = '', month = '', day: date = '', hour = '', timeZoneName = '' } = localParts(zone, ms);
  if (per === 'month') return `${year}-${month}`;
  if (per === 'hour') return `${year}-${month}-${date} ${hour} ${timeZoneName}`;
  if (per === 'day') return `${year}-${month}-${date}`;
  const local = Date.parse(`${year}-${month}-${date}T00:00:00Z`);
  // A new window does not compile before it has a case above.
  const week: 'week' = per;
  return `${week} of ${day(local) - ((new Date(local).getUTCDay() + 6) % 7)}`;
}

const ends = new Map<string, number>();

/** Returns when the window that contains a time ends, which is the first moment of the next window. */
export function windowEnd(per: LimitWindow | null, zone: string, ms: number): number {
  const name = windowName(per, zone, ms);
  if (name === 'always') return Infinity;
  const known = ends.get(`${zone} ${per ?? ''} ${name}`);
  if (known !== undefined) return known;
  let [inside, outside] = [ms, ms];
  while (windowName(per, zone, outside) === name) outside += 1_800_000;
  while (outside - inside > 1) {
    const middle = Math.floor((inside + outside) / 2);
    if (windowName(per, zone, middle) === name) inside = middle;
    else outside = middle;
  }
  ends.set(`${zone} ${per ?? ''} ${name}`, outside);
  return outside;
}

/** Returns what a request adds to a limit: what it has used, and what it still holds. */
export function measureRequest(unit: LimitUnit, request: ModelRequest): { used: bigint; held: bigint } {
  const { state, settle, held, cost, tokens, free, requests, text } = request;
  const isLive = state === 'live';
  switch (unit) {
    case 'requests':
      return { used: BigInt(free ? requests : 1), held: 0n };
    case 'concurrent':
      return { used: 0n, held: isLive ? 1n : 0n };
    case 'usd':
      return { used: isLive ? 0n : cost, held: isLive ? held : 0n };
    case 'tokens': {
      if (text === undefined) return { used: 0n, held: 0n };
      if (isLive) return { used: 0n, held: BigInt(text.inputTokens + (tokens === Infinity ? 0 : tokens)) };
      if (settle === undefined) return { used: 0n, held: 0n };
      const { input, cacheRead, cacheWrite5m, cacheWrite1h, output } = settle.usage;
      return { used: BigInt(input + cacheRead + cacheWrite5m + cacheWrite1h + output), held: 0n };
    }
  }
}

/** Returns whether a limit counts requests of a model. */
export function coversModel({ models }: Pick<ModelLimit, 'models'>, model: string): boolean {
  if (models === null) return true;
  return models.some(each => {
    const [first = '', ...rest] = each.split('*');
    if (rest.length === 0) return each === model;
    if (!model.startsWith(first)) return false;
    let left = model.slice(first.length);
    for (const [index, part] of rest.entries()) {
      const at = index === rest.length - 1 ? left.length - part.length : left.indexOf(part);
      if (at < 0 || !left.startsWith(part, at)) return false;
      left = left.slice(at + part.length);
    }
    return true;
  });
}

/** Returns the sum of what requests have used and hold. */
export function sumRequests(unit: LimitUnit, requests: readonly ModelRequest[]): bigint {
  return requests.reduce((sum, request) => {
    const { used, held } = measureRequest(unit, request);
    return sum + used + held;
  }, 0n);
}

export const maxAt = ({ max, raised }: ModelLimit, now: number): bigint =>
  raised !== null && now < raised.untilMs ? raised.max : max;

/** Returns a predicate: whether a rolling minute still counts a request. */
const isYoung = (now: number) => (request: ModelRequest) => request.admittedAtMs > now - 60_000;

/** Returns the current use of a limit with what running requests hold, from the requests that it counts. */
export function usedNow(limit: ModelLimit, counted: readonly ModelRequest[], now: number): bigint {
  if (limit.window === 'minute') return sumRequests(limit.unit, counted.filter(isYoung(now)));
  const name = windowName(limit.window, limit.timeZone, now);
  return sumRequests(
    limit.unit,
    counted.filter(request => windowName(limit.window, limit.timeZone, request.admittedAtMs) === name),
  );
}

/**
 * Returns the use, with what running requests hold, that counts if a request that was admitted at `at` wants to use more. If the request was admitted already, it is included itself. This is the use of the
 * request's window or, for a rolling minute, the highest use of all minutes up to now that include the request.
 */
export function usedBeside(limit: ModelLimit, counted: readonly ModelRequest[], at: number, now: number): bigint {
  if (limit.window !== 'minute') return usedNow(limit, counted, at);
  const present = now < at + 60_000 ? usedNow(limit, counted, now) : 0n;
  const peaks = counted
    .map(request => request.admittedAtMs)
    .filter(end => end >= at && end <= now && end < at + 60_000)
    .map(end =>
      sumRequests(
        limit.unit,
        counted.filter(request => request.admittedAtMs > end - 60_000 && request.admittedAtMs <= end),
      ),
    );
  return [present, ...peaks].reduce((most, each) => (each > most ? each : most));
}

/** Returns when the window ends; for a rolling minute, when enough requests (at least the oldest) have left it for `need` to fit. */
export function resetAt(limit: ModelLimit, counted: readonly ModelRequest[], need: bigint, now: number): number {
  if (limit.window !== 'minute') return windowEnd(limit.window, limit.timeZone, now);
  const young = counted.filter(isYoung(now)).filter(request => sumRequests(limit.unit, [request]) !== 0n);
  young.sort((a, b) => a.admittedAtMs - b.admittedAtMs);
  const fits = maxAt(limit, now) - need;
  for (let left = 1; left <= young.length; left++) {
    // All requests of the same millisecond leave together.
    const last = young[left - 1]?.admittedAtMs ?? 0;
    if (young[left]?.admittedAtMs === last) continue;
    if (sumRequests(limit.unit, young.slice(left)) <= fits) return Math.min(last + 60_000, now + 61_000);
  }
  return now;
}

const windows = ['minute', 'hour', 'day', 'week', 'month', 'total', null];

/** Returns limits in the order in which they refuse. `groups`: nearest first. */
export function inOrder(limits: readonly ModelLimit[], groups: readonly number[]): ModelLimit[] {
  const place = ({ scope, scopeId }: ModelLimit): number =>
    ({ key: 0, group: 1 + groups.indexOf(scopeId), account: 1 + groups.length })[scope];
  const rank = (limit: ModelLimit): number => place(limit) * 10 + windows.indexOf(limit.window);
  return [...limits].sort((a, b) => rank(a) - rank(b) || a.id - b.id);
}

/** Returns the public state of a limit of requests or tokens. */
export function toState(limit: ModelLimit, counted: readonly ModelRequest[], now: number): WindowState {
  const max = Number(maxAt(limit, now));
  return {
    limit: limit.field === undefined || limit.field === 'monthly_limit' ? 'limit' : limit.field,
    unit: limit.unit === 'tokens' ? 'tokens' : 'requests',
    max,
    remaining: Math.max(0, max - Number(usedNow(limit, counted, now))),
    resetAtMs: resetAt(limit, counted, 1n, now),
  };
}

const toRow = ({ id, scope, scopeId, window }: ModelLimit): DenialFacts['row'] & object => ({
  id,
  scope,
  scopeId,
  window,
});

/** Returns the refusal of a limit that does not count money. */
export function limitDenial(
  limit: ModelLimit,
  counted: readonly ModelRequest[],
  { need, windows: states, now }: { need: bigint; windows: readonly WindowState[]; now: number },
): Denied {
  const unit = limit.unit === 'usd' ? 'nano_usd' : limit.unit;
  const used = Number(usedNow(limit, counted, now));
  const facts = {
    limit: limit.field ?? 'limit',
    row: toRow(limit),
    unit,
    used,
    max: Number(maxAt(limit, now)),
  } as const;
  const shown = { kind: 'denied', code: 'rate_limit', windows: states } as const;
  if (limit.unit === 'concurrent') return { ...shown, denial: facts, retryAfterMs: 1000 };
  const resetAtMs = resetAt(limit, counted, need, now);
  if (resetAtMs === Infinity) return { ...shown, denial: facts };
  const wait = resetAtMs - now;
  return {
    ...shown,
    denial: { ...facts, resetAtMs },
    retryAfterMs: limit.window === 'minute' ? Math.max(1000, wait) : wait,
  };
}

/** What limits the money that a request can spend: a balance or a limit of dollars. */
export interface Pool {
  readonly limit: DenialFacts['limit'];
  readonly row?: NonNullable<DenialFacts['row']>;
  readonly used: bigint;
  readonly max: bigint;
  readonly resetAtMs?: number;
}

/** Returns a limit of dollars as a pool. */
export function measurePool(limit: ModelLimit, counted: readonly ModelRequest[], at: number, now: number): Pool {
  const resetAtMs =
    limit.window === 'minute' ? resetAt(limit, counted, 1n, now) : windowEnd(limit.window, limit.timeZone, at);
  return {
    limit: limit.field ?? 'limit',
    row: toRow(limit),
    used: usedBeside(limit, counted, at, now),
    max: maxAt(limit, now),
    ...(resetAtMs === Infinity ? {} : { resetAtMs }),
  };
}

/** Returns the least that any of the pools has left, at least 0. */
export function smallest(pools: readonly Pool[]): bigint {
  const left = pools.map(pool => pool.max - pool.used).reduce((least, each) => (each < least ? each : least));
  return left < 0n ? 0n : left;
}

/** Returns the refusal of a pool. */
export function poolDenial(pool: Pool, states: readonly WindowState[], now: number): Denied {
  const { limit, row, used, max, resetAtMs } = pool;
  const denial: DenialFacts = { limit, unit: 'nano_usd', used, max, ...(row === undefined ? {} : { row }) };
  const code = limit === 'balance' ? 'insufficient_balance' : 'spending_limit';
  if (resetAtMs === undefined) return { kind: 'denied', code, denial, windows: states };
  return { kind: 'denied', code, denial: { ...denial, resetAtMs }, retryAfterMs: resetAtMs - now, windows: states };
}
