import { isDeepStrictEqual } from 'node:util';
import type { DenialFacts, WindowState } from '../../src/errors/gateway-error.ts';
import type {
  AdmitCommand,
  Admitted,
  Denied,
  ExtendCommand,
  Extended,
  KeySettings,
  SettleCommand,
  Settled,
} from '../../src/store/ledger.ts';

/**
 * What the ledger should do, said as plainly as can be: lists that are never cleaned, every question answered by looking at all of
 * them, limits found by trying. Slow and obvious; the engine must answer the same.
 */

export interface ModelKey {
  readonly id: number;
  readonly accountId: number;
  readonly name: string;
  state: 'enabled' | 'disabled' | 'revoked';
  minuteLimit: number;
  dailyLimit: number;
  monthlyLimit: bigint | undefined;
  allowedModels: readonly string[] | null;
  balance: bigint | null;
}

/** One admission; an id that was voided may be admitted again. */
export interface ModelRequest {
  readonly id: number;
  readonly key: ModelKey;
  readonly model: string;
  readonly free: boolean;
  readonly paidBy: 'account' | 'key';
  readonly admittedAtMs: number;
  readonly asked: bigint | undefined;
  readonly admitted: bigint;
  readonly price: bigint;
  held: bigint;
  tokens: number;
  readonly admittedTokens: number;
  expiresAtMs: number | undefined;
  state: 'live' | 'settled' | 'voided';
  voidedFor: string;
  settle: SettleCommand | undefined;
  cost: bigint;
  writtenOff: bigint;
}

const dayMs = 86_400_000;
const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
const month = (ms: number): string => new Date(ms).toISOString().slice(0, 7);

function nextDay(ms: number): number {
  return Date.parse(`${day(ms)}T00:00:00Z`) + dayMs;
}

function nextMonth(ms: number): number {
  let at = nextDay(ms);
  while (month(at) === month(ms)) at += dayMs;
  return at;
}

/** Rounded up to the nano-dollar. */
function tokenCost(tokens: number, price: bigint): bigint {
  const pico = BigInt(tokens) * price;
  return pico % 1000n === 0n ? pico / 1000n : pico / 1000n + 1n;
}

/** The most tokens beside `held` ones whose cost beside theirs is within `money`, found by trying. */
function mostTokens(money: bigint, held: number, price: bigint): number {
  if (price === 0n) return Infinity;
  const fits = (tokens: number): boolean => tokenCost(held + tokens, price) - tokenCost(held, price) <= money;
  let low = 0;
  let high = 1;
  while (fits(high)) high *= 2;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}

interface Pool {
  readonly limit: 'daily_limit' | 'monthly_limit' | 'balance';
  readonly used: bigint;
  readonly max: bigint;
  readonly resetAtMs?: number;
}

export class Model {
  readonly unit: 'dollars' | 'requests';
  readonly accounts = new Map<number, { balance: bigint }>();
  readonly keys: ModelKey[] = [];
  readonly requests: ModelRequest[] = [];

  constructor(unit: 'dollars' | 'requests') {
    this.unit = unit;
  }

  /** What live requests hold of an account's or a key's balance. */
  held(of: { account: number } | { key: number }): bigint {
    return this.#sum(
      request =>
        request.state === 'live' &&
        ('key' in of
          ? request.paidBy === 'key' && request.key.id === of.key
          : request.paidBy === 'account' && request.key.accountId === of.account),
      request => request.held,
    );
  }

  /** Settled plus held of requests that the key was admitted in that period. */
  used(key: ModelKey, period: (ms: number) => string, at: number): bigint {
    return this.#sum(
      request => request.key === key && period(request.admittedAtMs) === period(at),
      request => (request.state === 'live' ? request.held : request.cost),
    );
  }

  /** Gives back what has expired. */
  sweep(now: number): void {
    const due = this.requests
      .filter(request => request.state === 'live' && request.expiresAtMs !== undefined && request.expiresAtMs <= now)
      .sort((a, b) => (a.expiresAtMs ?? 0) - (b.expiresAtMs ?? 0));
    for (const request of due) this.#void(request, 'expired');
  }

  /** A new process: the gateway's own holds are given back. Answers how many. */
  restart(now: number): number {
    this.sweep(now);
    const own = this.requests.filter(request => request.state === 'live' && request.expiresAtMs === undefined);
    for (const request of own) this.#void(request, 'restarted');
    return own.length;
  }

  windows(key: ModelKey, free: boolean, now: number): WindowState[] {
    return this.#windows(key, free, now).sort((a, b) => a.remaining - b.remaining);
  }

  admit(command: AdmitCommand, key: ModelKey | undefined, now: number): Admitted | Denied {
    this.sweep(now);
    const known = this.requests.find(request => request.id === command.id && request.state !== 'voided');
    if (known !== undefined) return this.#again(known, command, key, now);
    if (key === undefined || key.state === 'revoked') return { kind: 'denied', code: 'invalid_api_key', windows: [] };
    const windows = this.windows(key, command.free, now);
    if (key.state === 'disabled') return { kind: 'denied', code: 'key_disabled', windows };
    if (key.allowedModels !== null && !key.allowedModels.includes(command.model)) {
      return { kind: 'denied', code: 'model_not_allowed', windows };
    }
    const full = this.#windows(key, command.free, now).find(window => window.remaining === 0);
    if (full !== undefined) return windowDenial(full, windows, now);
    const pools = this.#pools(key, key.balance === null ? 'account' : 'key', now);
    const { funds } = command;
    if (funds === undefined) return this.#admitted(command, key, { held: 0n, tokens: Infinity }, now);
    const least = funds.inputNanoUsd + tokenCost(funds.outputTokensMin, funds.outputPicoUsd);
    const short = pools.find(pool => pool.max - pool.used < least || pool.max - pool.used <= 0n);
    if (short !== undefined) return poolDenial(short, windows, now);
    const most = mostTokens(smallest(pools) - funds.inputNanoUsd, 0, funds.outputPicoUsd);
    const tokens = Math.max(funds.outputTokensMin, Math.min(most, funds.outputTokensWanted));
    const held = funds.inputNanoUsd + tokenCost(tokens, funds.outputPicoUsd);
    return this.#admitted(command, key, { held, tokens }, now);
  }

  extend(command: ExtendCommand, now: number): Extended {
    this.sweep(now);
    const request = this.#live(command.id);
    if (request === undefined) return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
    const money = smallest(this.#pools(request.key, request.paidBy, request.admittedAtMs));
    let granted = 0;
    let ok: boolean;
    if ('outputTokens' in command) {
      const most = request.tokens === Infinity ? Infinity : mostTokens(money, request.tokens, request.price);
      granted = Math.min(command.outputTokens, most);
      ok = granted > 0 || request.tokens === Infinity;
      if (ok && request.tokens !== Infinity) {
        request.held += tokenCost(request.tokens + granted, request.price) - tokenCost(request.tokens, request.price);
        request.tokens += granted;
      }
    } else {
      ok = command.nanoUsd <= money;
      if (ok) {
        request.held += command.nanoUsd;
        if (request.expiresAtMs !== undefined) request.expiresAtMs = command.expiresAtMs ?? request.expiresAtMs;
      }
    }
    const left = smallest(this.#pools(request.key, request.paidBy, request.admittedAtMs));
    const shown = ok && 'nanoUsd' in command && request.expiresAtMs !== undefined;
    return {
      kind: ok ? 'extended' : 'denied',
      outputTokens: granted,
      heldNanoUsd: request.held,
      outputTokensAvailable: request.tokens === Infinity ? Infinity : mostTokens(left, request.tokens, request.price),
      ...(shown && request.expiresAtMs !== undefined ? { expiresAtMs: request.expiresAtMs } : {}),
    };
  }

  settle(command: SettleCommand, now: number): Settled {
    this.sweep(now);
    const total = totalOf(command);
    const request = this.#live(command.id);
    if (request === undefined) {
      const done = this.requests.find(each => each.id === command.id && each.state === 'settled');
      if (done === undefined) return { kind: 'not_held', costNanoUsd: 0n, writtenOffNanoUsd: 0n };
      const same =
        done.cost + done.writtenOff === total &&
        done.settle?.state === command.state &&
        isDeepStrictEqual(done.settle.usage, command.usage);
      return { kind: same ? 'settled' : 'conflict', costNanoUsd: done.cost, writtenOffNanoUsd: done.writtenOff };
    }
    const more = smallest(this.#pools(request.key, request.paidBy, request.admittedAtMs));
    const cost = total < request.held + more ? total : request.held + more;
    Object.assign(request, { state: 'settled', settle: command, cost, writtenOff: total - cost });
    if (request.paidBy === 'account') this.#account(request.key).balance -= cost;
    else if (request.key.balance !== null) request.key.balance -= cost;
    this.#sendBack(request.key);
    return { kind: 'settled', costNanoUsd: cost, writtenOffNanoUsd: total - cost };
  }

  void(id: number, reason: string, now: number): 'voided' | 'not_held' {
    this.sweep(now);
    const request = this.#live(id);
    if (request !== undefined) {
      this.#void(request, reason);
      return 'voided';
    }
    const all = this.requests.filter(each => each.id === id);
    const voids = all.filter(each => each.state === 'voided');
    return voids.length === all.length && voids.at(-1)?.voidedFor === reason ? 'voided' : 'not_held';
  }

  updateKey(key: ModelKey, settings: KeySettings): 'ok' | 'not_found' | 'insufficient' {
    if (key.state === 'revoked') return 'not_found';
    const { balance } = settings;
    if (balance !== undefined) {
      const account = this.#account(key);
      const before = key.balance ?? 0n;
      const heldOfKey = this.held({ key: key.id });
      const wanted = balance ?? 0n;
      if (balance === null ? heldOfKey > 0n : wanted < before && wanted < heldOfKey) return 'insufficient';
      if (wanted - before > account.balance - this.held({ account: key.accountId })) return 'insufficient';
      account.balance -= wanted - before;
      key.balance = balance;
    }
    key.minuteLimit = settings.minuteLimit ?? key.minuteLimit;
    key.dailyLimit = settings.dailyLimit ?? key.dailyLimit;
    if (settings.allowedModels !== undefined) key.allowedModels = settings.allowedModels;
    return 'ok';
  }

  setKeyState(key: ModelKey, state: ModelKey['state']): 'ok' | 'not_found' {
    if (key.state === 'revoked') return 'not_found';
    key.state = state;
    this.#sendBack(key);
    return 'ok';
  }

  addCredit(accountId: number, amount: bigint): 'ok' | 'not_found' | 'insufficient' {
    const account = this.accounts.get(accountId);
    if (account === undefined) return 'not_found';
    if (amount < 0n && -amount > account.balance - this.held({ account: accountId })) return 'insufficient';
    account.balance += amount;
    return 'ok';
  }

  #admitted(command: AdmitCommand, key: ModelKey, grant: { held: bigint; tokens: number }, now: number): Admitted {
    const request: ModelRequest = {
      id: command.id,
      key,
      model: command.model,
      free: command.free,
      paidBy: key.balance === null ? 'account' : 'key',
      admittedAtMs: now,
      asked: askedOf(command),
      admitted: grant.held,
      price: command.funds?.outputPicoUsd ?? 0n,
      ...grant,
      admittedTokens: grant.tokens,
      expiresAtMs: command.expiresAtMs,
      state: 'live',
      voidedFor: '',
      settle: undefined,
      cost: 0n,
      writtenOff: 0n,
    };
    this.requests.push(request);
    return this.#answer(request, request.price, now);
  }

  #answer(request: ModelRequest, price: bigint, now: number): Admitted {
    const { key, expiresAtMs } = request;
    const left = smallest(this.#pools(key, request.paidBy, request.admittedAtMs));
    const { admittedTokens } = request;
    return {
      kind: 'admitted',
      id: request.id,
      accountId: key.accountId,
      keyId: key.id,
      heldNanoUsd: request.admitted,
      outputTokens: admittedTokens,
      outputTokensAvailable: admittedTokens === Infinity ? Infinity : mostTokens(left, admittedTokens, price),
      availableNanoUsd: left,
      windows: this.windows(key, request.free, now),
      ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    };
  }

  #again(known: ModelRequest, command: AdmitCommand, key: ModelKey | undefined, now: number): Admitted | Denied {
    const same =
      known.key === key &&
      known.model === command.model &&
      known.free === command.free &&
      known.asked === askedOf(command);
    return same
      ? this.#answer(known, command.funds?.outputPicoUsd ?? 0n, now)
      : { kind: 'denied', code: 'conflict', windows: [] };
  }

  #void(request: ModelRequest, reason: string): void {
    request.state = 'voided';
    request.voidedFor = reason;
    this.#sendBack(request.key);
  }

  /** A revoked key keeps only what a hold covers. */
  #sendBack(key: ModelKey): void {
    if (key.state !== 'revoked' || key.balance === null) return;
    const kept = this.held({ key: key.id });
    this.#account(key).balance += key.balance - kept;
    key.balance = kept;
  }

  /** In the order in which they refuse. */
  #windows(key: ModelKey, free: boolean, now: number): WindowState[] {
    const windows: WindowState[] = [];
    const resetAtMs = nextDay(now);
    const today = (request: ModelRequest): boolean => day(request.admittedAtMs) === day(now);
    const own = this.requests.filter(request => request.key === key);
    if (key.minuteLimit > 0) windows.push(minuteWindow('minute_limit', own, key.minuteLimit, now));
    if (free) {
      const all = this.requests.filter(request => request.key.accountId === key.accountId && request.free);
      windows.push(minuteWindow('free_minute', all, 20, now));
      const remaining = Math.max(0, 200 - all.filter(today).length);
      windows.push({ limit: 'free_day', max: 200, remaining, resetAtMs });
    }
    if (this.unit === 'requests' && key.dailyLimit > 0) {
      const remaining = Math.max(0, key.dailyLimit - own.filter(today).length);
      windows.push({ limit: 'daily_limit', max: key.dailyLimit, remaining, resetAtMs });
    }
    return windows;
  }

  #pools(key: ModelKey, paidBy: ModelRequest['paidBy'], at: number): Pool[] {
    const pools: Pool[] = [];
    if (this.unit === 'dollars' && key.dailyLimit > 0) {
      const max = BigInt(key.dailyLimit) * 1_000_000_000n;
      pools.push({ limit: 'daily_limit', used: this.used(key, day, at), max, resetAtMs: nextDay(at) });
    }
    if (key.monthlyLimit !== undefined) {
      const max = key.monthlyLimit;
      pools.push({ limit: 'monthly_limit', used: this.used(key, month, at), max, resetAtMs: nextMonth(at) });
    }
    const balance = paidBy === 'account' ? this.#account(key).balance : (key.balance ?? 0n);
    const used = this.held(paidBy === 'account' ? { account: key.accountId } : { key: key.id });
    return [...pools, { limit: 'balance', used, max: balance }];
  }

  #account(key: ModelKey): { balance: bigint } {
    const account = this.accounts.get(key.accountId);
    if (account === undefined) throw new Error('no such account');
    return account;
  }

  #live(id: number): ModelRequest | undefined {
    return this.requests.find(request => request.id === id && request.state === 'live');
  }

  #sum(which: (request: ModelRequest) => boolean, what: (request: ModelRequest) => bigint): bigint {
    return this.requests.filter(which).reduce((sum, request) => sum + what(request), 0n);
  }
}

function smallest(pools: readonly Pool[]): bigint {
  const left = pools.map(pool => pool.max - pool.used).reduce((least, each) => (each < least ? each : least));
  return left < 0n ? 0n : left;
}

function minuteWindow(
  limit: 'minute_limit' | 'free_minute',
  requests: readonly ModelRequest[],
  max: number,
  now: number,
): WindowState {
  const times = requests.map(request => request.admittedAtMs).filter(at => at > now - 60_000);
  times.sort((a, b) => a - b);
  // One fewer than `max` are left when the first `count - max + 1` of them have gone; while there is room: the oldest.
  const last = times[Math.max(0, times.length - max)];
  const resetAtMs = last === undefined ? now : Math.min(last + 60_000, now + 61_000);
  return { limit, max, remaining: Math.max(0, max - times.length), resetAtMs };
}

function windowDenial(window: WindowState, windows: readonly WindowState[], now: number): Denied {
  const { limit, max, resetAtMs } = window;
  const denial: DenialFacts = { limit, unit: 'requests', used: max, max, resetAtMs };
  const wait = resetAtMs - now;
  const retryAfterMs = limit.endsWith('minute') || limit === 'minute_limit' ? Math.max(1000, wait) : wait;
  return { kind: 'denied', code: 'rate_limit', denial, retryAfterMs, windows };
}

function poolDenial(pool: Pool, windows: readonly WindowState[], now: number): Denied {
  const { limit, used, max, resetAtMs } = pool;
  if (resetAtMs === undefined) {
    return { kind: 'denied', code: 'insufficient_balance', denial: { limit, unit: 'nano_usd', used, max }, windows };
  }
  const denial: DenialFacts = { limit, unit: 'nano_usd', used, max, resetAtMs };
  return { kind: 'denied', code: 'spending_limit', denial, retryAfterMs: resetAtMs - now, windows };
}

/** undefined: costs nothing. */
function askedOf(command: AdmitCommand): bigint | undefined {
  const { funds } = command;
  return funds === undefined
    ? undefined
    : funds.inputNanoUsd + tokenCost(funds.outputTokensWanted, funds.outputPicoUsd);
}

/** In units of 10^-6 nano-dollars, then rounded half up. */
function totalOf(command: SettleCommand): bigint {
  if (command.costNanoUsd !== undefined) return command.costNanoUsd;
  const { usage, prices } = command;
  const input = prices.input ?? 0n;
  const exact =
    BigInt(command.multiplierPermille) *
    (BigInt(usage.input) * input +
      BigInt(usage.cacheRead) * (prices.cacheRead ?? input) +
      BigInt(usage.cacheWrite5m) * (prices.cacheWrite5m ?? input) +
      BigInt(usage.cacheWrite1h) * (prices.cacheWrite1h ?? input) +
      BigInt(usage.output) * (prices.output ?? 0n) +
      BigInt(usage.images) * (prices.image ?? 0n));
  const whole = exact / 1_000_000n;
  return exact % 1_000_000n >= 500_000n ? whole + 1n : whole;
}
