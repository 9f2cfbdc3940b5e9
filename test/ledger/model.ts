import { isDeepStrictEqual } from 'node:util';
import type { WindowState } from '../../src/errors/gateway-error.ts';
import type {
  AdmitCommand,
  Admitted,
  Denied,
  ExtendCommand,
  Extended,
  FundsEstimate,
  KeySettings,
  PlanName,
  PlanPeriodName,
  Plans,
  SettleCommand,
  Settled,
  SubscriptionRow,
} from '../../src/ledger/ledger.ts';
import {
  day,
  minuteWindow,
  month,
  nextDay,
  nextMonth,
  type Pool,
  poolDenial,
  smallest,
  windowDenial,
} from './model-limits.ts';
import {
  billOf,
  boundaries,
  type Left,
  mostTokens,
  type Order,
  shareMore,
  shareOf,
  tokenCost,
} from './model-payers.ts';
import type { ModelAccount, ModelKey, ModelPeriod, ModelPlan, ModelRequest, Paying } from './model-types.ts';

/**
 * What the ledger should do, said as plainly as can be: lists that are never cleaned, every question answered by looking at all of
 * them, limits found by trying. Slow and obvious; the engine must answer the same.
 */

export class Model {
  readonly unit: 'dollars' | 'requests';
  readonly plans: Plans;
  readonly accounts = new Map<number, ModelAccount>();
  readonly keys: ModelKey[] = [];
  readonly requests: ModelRequest[] = [];

  constructor(unit: 'dollars' | 'requests', plans: Plans) {
    this.unit = unit;
    this.plans = plans;
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
  used(key: ModelKey, period: (ms: number) => string | number, at: number): bigint {
    return this.#sum(
      request => request.key === key && period(request.admittedAtMs) === period(at),
      request => (request.state === 'live' ? request.held : request.cost),
    );
  }

  /** Tokens of a period that are used, and those that are held. */
  planUse(period: ModelPeriod): { used: number; held: number } {
    const own = this.requests.filter(request => request.period === period);
    const sum = (numbers: number[]): number => numbers.reduce((all, each) => all + each, 0);
    return {
      used: sum(own.map(request => request.planPaid)),
      held: sum(own.filter(request => request.state === 'live').map(request => request.planHeld)),
    };
  }

  freeLeft(accountId: number, name: PlanName, at: number): number {
    const taken = this.requests.filter(
      ({ key, order, admittedAtMs, state, settle }) =>
        key.accountId === accountId &&
        order === 'free_request' &&
        day(admittedAtMs) === day(at) &&
        (state === 'live' || (state === 'settled' && settle?.state !== 'upstream_failed')),
    );
    const count = taken.reduce((sum, { answers }) => sum + answers, 0);
    return Math.max(0, this.plans[name].freeDailyRequests - count);
  }

  subscription(accountId: number, now: number): SubscriptionRow | undefined {
    const plan = this.accounts.get(accountId)?.plan;
    if (plan === undefined) return undefined;
    const { name, length, startedAtMs, cancelled, period } = plan;
    const { used, held } = this.planUse(period);
    return {
      accountId,
      plan: name,
      period: length,
      startedAtMs,
      cancelled,
      periodStartMs: period.startMs,
      periodEndMs: period.endMs,
      tokens: period.tokens,
      tokensUsed: used,
      tokensHeld: held,
      freeLeftToday: this.freeLeft(accountId, name, now),
    };
  }

  startSubscription(
    accountId: number,
    name: PlanName,
    length: PlanPeriodName,
    now: number,
  ): 'ok' | 'not_found' | 'conflict' | 'insufficient' {
    const account = this.accounts.get(accountId);
    if (account === undefined) return 'not_found';
    if (account.plan !== undefined) return 'conflict';
    return this.#buy(accountId, { name, length, startedAtMs: now }, now) ? 'ok' : 'insufficient';
  }

  cancelSubscription(accountId: number): 'ok' | 'not_found' {
    const plan = this.accounts.get(accountId)?.plan;
    if (plan === undefined) return 'not_found';
    plan.cancelled = true;
    return 'ok';
  }

  /** Gives back what has expired, then renews or ends plans. */
  sweep(now: number): void {
    this.#expire(now);
    this.#renew(now);
  }

  #renew(now: number): void {
    for (const [accountId, account] of this.accounts) {
      const { plan } = account;
      if (plan === undefined || now < plan.period.endMs) continue;
      account.plan = undefined;
      if (!plan.cancelled) this.#buy(accountId, plan, now);
    }
  }

  /** Pays the period that is now, where what no hold covers can. */
  #buy(
    accountId: number,
    { name, length, startedAtMs }: Pick<ModelPlan, 'name' | 'length' | 'startedAtMs'>,
    now: number,
  ): boolean {
    const account = this.accounts.get(accountId);
    const { priceNanoUsd, tokens } = this.plans[name][length];
    if (account === undefined || account.balance - this.held({ account: accountId }) < priceNanoUsd) return false;
    account.balance -= priceNanoUsd;
    let startMs = startedAtMs;
    for (const endMs of boundaries(startedAtMs, length)) {
      if (endMs > now) {
        account.plan = { name, length, startedAtMs, cancelled: false, period: { startMs, endMs, tokens } };
        return true;
      }
      startMs = endMs;
    }
    return false;
  }

  #expire(now: number): void {
    const due = this.requests
      .filter(request => request.state === 'live' && request.expiresAtMs !== undefined && request.expiresAtMs <= now)
      .sort((a, b) => (a.expiresAtMs ?? 0) - (b.expiresAtMs ?? 0));
    for (const request of due) this.#void(request, 'expired');
  }

  /** A new process: the gateway's own holds are given back. Answers how many. */
  restart(now: number): number {
    this.#expire(now);
    const own = this.requests.filter(request => request.state === 'live' && request.expiresAtMs === undefined);
    for (const request of own) this.#void(request, 'restarted');
    this.#renew(now);
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
    const { answers = 1 } = command;
    const full = this.#windows(key, command.free, now).find(
      ({ limit, remaining }) => remaining < (limit.startsWith('free') ? answers : 1),
    );
    if (full !== undefined) {
      const count = full.limit.startsWith('free') ? answers : 1;
      return windowDenial({ window: full, count, times: this.#freeTimes(key) }, windows, now);
    }
    const { funds } = command;
    const paying = this.#payingOf(key, command, now);
    if (paying === undefined) return { kind: 'denied', code: 'subscription_exhausted', windows };
    if (funds === undefined || paying.order === 'free_request') {
      return this.#admitted(command, key, { paying, held: 0n, tokens: Infinity }, now);
    }
    const asked = discounted(funds, paying.discount);
    const left = this.#left(key, paying, now);
    for (let tokens = asked.outputTokensWanted; tokens >= asked.outputTokensMin; tokens--) {
      const share = shareOf(paying.order, left, asked, tokens);
      if (share === undefined) continue;
      const { planInput, planOutput, money: held } = share;
      const firstSpent =
        (paying.order === 'plan_money' && (left.plan === 0 || planInput < asked.inputTokens)) ||
        (paying.order === 'money_plan' && (left.money === 0n || left.money < asked.inputNanoUsd));
      const grant = { paying, held, tokens, planHeld: planInput + planOutput, planOutput, firstSpent };
      return this.#admitted(command, key, grant, now);
    }
    return this.#refused(key, paying, { asked, left, windows }, now);
  }

  #payingOf(key: ModelKey, { model, funds, answers = 1 }: AdmitCommand, now: number): Paying | undefined {
    const paidBy = key.balance === null ? 'account' : 'key';
    const none = { order: 'money', paidBy, period: undefined, discount: 0 } as const;
    if (funds === undefined) return none;
    const plan = funds.plan ? this.#account(key).plan : undefined;
    const terms = plan === undefined ? undefined : this.plans[plan.name];
    const discount = terms?.discountPermille ?? 0;
    const covers = terms !== undefined && (terms.models === null || terms.models.includes(model));
    if (plan === undefined || !covers) return key.fallbackToPayg ? { ...none, discount } : undefined;
    const { period } = plan;
    if (funds.freeDaily === true && this.freeLeft(key.accountId, plan.name, now) >= answers) {
      return { order: 'free_request', paidBy, period, discount: 0 };
    }
    const order = key.useSubsFirst ? 'plan_money' : 'money_plan';
    return { order: key.fallbackToPayg ? order : 'plan', paidBy, period, discount };
  }

  /** What the payers have left, in the periods of the admission. */
  #left(key: ModelKey, { order, paidBy, period }: Omit<Paying, 'discount'>, at: number): Left {
    const plan = order === 'money' || order === 'free_request' || period === undefined ? 0 : this.#planLeft(period);
    const money = order === 'plan' || order === 'free_request' ? 0n : smallest(this.#pools(key, paidBy, at));
    return { plan, money };
  }

  #planLeft(period: ModelPeriod): number {
    const { used, held } = this.planUse(period);
    return period.tokens - used - held;
  }

  #refused(
    key: ModelKey,
    { order, paidBy, period }: Paying,
    { asked, left, windows }: { asked: FundsEstimate; left: Left; windows: WindowState[] },
    now: number,
  ): Denied {
    if (order === 'plan') {
      const plan = this.#account(key).plan;
      const max = period?.tokens ?? 0;
      const denial = { limit: 'subscription', unit: 'tokens', used: max - left.plan, max } as const;
      if (plan?.cancelled !== false) return { kind: 'denied', code: 'subscription_exhausted', denial, windows };
      const resetAtMs = plan.period.endMs;
      const reset = { denial: { ...denial, resetAtMs }, retryAfterMs: resetAtMs - now };
      return { kind: 'denied', code: 'subscription_exhausted', ...reset, windows };
    }
    const rich = { ...left, money: 10n ** 30n };
    const need = shareOf(order, rich, asked, asked.outputTokensMin)?.money ?? 0n;
    const short = this.#pools(key, paidBy, now).find(pool => pool.max - pool.used < (need > 0n ? need : 1n));
    if (short === undefined) throw new Error('nothing is short');
    return poolDenial(short, windows, now);
  }

  extend(command: ExtendCommand, now: number): Extended {
    this.sweep(now);
    const request = this.#live(command.id);
    if (request === undefined) return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
    const before = this.#left(request.key, request, request.admittedAtMs);
    let granted = 0;
    let ok: boolean;
    if ('outputTokens' in command) {
      granted = command.outputTokens;
      if (request.tokens !== Infinity) {
        const moneyTokens = request.tokens - request.planOutput;
        const more = shareMore(orderNow(request), before, granted, { moneyTokens, price: request.price });
        granted = more.plan + more.money;
        request.held += more.nanoUsd;
        request.planHeld += more.plan;
        request.planOutput += more.plan;
        request.tokens += granted;
      }
      ok = granted > 0 || request.tokens === Infinity;
    } else {
      ok = command.nanoUsd <= before.money;
      if (ok) {
        request.held += command.nanoUsd;
        if (request.expiresAtMs !== undefined) request.expiresAtMs = command.expiresAtMs ?? request.expiresAtMs;
      }
    }
    const shown = ok && 'nanoUsd' in command && request.expiresAtMs !== undefined;
    return {
      kind: ok ? 'extended' : 'denied',
      outputTokens: granted,
      heldNanoUsd: request.held,
      outputTokensAvailable: this.#available(request, request.tokens - request.planOutput),
      ...(shown && request.expiresAtMs !== undefined ? { expiresAtMs: request.expiresAtMs } : {}),
    };
  }

  /** Output tokens that the payers could still pay beside that many that money holds. */
  #available(request: ModelRequest, moneyTokens: number): number {
    if (request.tokens === Infinity) return Infinity;
    const left = this.#left(request.key, request, request.admittedAtMs);
    const order = orderNow(request);
    const byMoney = order === 'plan' ? 0 : mostTokens(left.money, moneyTokens, request.price);
    return byMoney + (order === 'money' ? 0 : left.plan);
  }

  settle(command: SettleCommand, now: number): Settled {
    this.sweep(now);
    const request = this.#live(command.id);
    if (request === undefined) {
      const done = this.requests.find(each => each.id === command.id && each.state === 'settled');
      if (done === undefined) return { kind: 'not_held', costNanoUsd: 0n, writtenOffNanoUsd: 0n };
      const same =
        done.cost + done.writtenOff === totalAgain(command, done) &&
        done.settle?.state === command.state &&
        isDeepStrictEqual(done.settle.usage, command.usage);
      return { kind: same ? 'settled' : 'conflict', costNanoUsd: done.cost, writtenOffNanoUsd: done.writtenOff };
    }
    const left = this.#left(request.key, request, request.admittedAtMs);
    const covered = request.order === 'plan' || request.order === 'free_request' ? 0n : request.held + left.money;
    const there = { plan: request.planHeld + left.plan, money: covered };
    const { total, planTokens } = billOf(command, request.order, request.discount, there);
    const cost = total < covered ? total : covered;
    Object.assign(request, { state: 'settled', settle: command, cost, writtenOff: total - cost, planPaid: planTokens });
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
    key.useSubsFirst = settings.useSubsFirst ?? key.useSubsFirst;
    key.fallbackToPayg = settings.fallbackToPayg ?? key.fallbackToPayg;
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

  #admitted(command: AdmitCommand, key: ModelKey, grant: Grant, now: number): Admitted {
    const { paying, held, tokens, planHeld = 0, planOutput = 0, firstSpent = false } = grant;
    const { funds } = command;
    const request: ModelRequest = {
      id: command.id,
      key,
      model: command.model,
      free: command.free,
      answers: command.answers ?? 1,
      ...paying,
      planHeld,
      planOutput,
      firstSpent,
      planPaid: 0,
      admittedAtMs: now,
      asked: askedOf(command),
      admitted: held,
      price: funds === undefined ? 0n : discounted(funds, paying.discount).outputPicoUsd,
      held,
      tokens,
      admittedTokens: tokens,
      expiresAtMs: command.expiresAtMs,
      state: 'live',
      voidedFor: '',
      settle: undefined,
      cost: 0n,
      writtenOff: 0n,
    };
    this.requests.push(request);
    return this.#answer(request, tokens - planOutput, now);
  }

  /** `moneyTokens`: output tokens that money holds. */
  #answer(request: ModelRequest, moneyTokens: number, now: number): Admitted {
    const { key, expiresAtMs, admittedTokens } = request;
    return {
      kind: 'admitted',
      id: request.id,
      accountId: key.accountId,
      keyId: key.id,
      heldNanoUsd: request.admitted,
      outputTokens: admittedTokens,
      outputTokensAvailable: this.#available(request, moneyTokens),
      availableNanoUsd: this.#left(key, request, request.admittedAtMs).money,
      windows: this.windows(key, request.free, now),
      ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    };
  }

  #again(known: ModelRequest, command: AdmitCommand, key: ModelKey | undefined, now: number): Admitted | Denied {
    const same =
      known.key === key &&
      known.model === command.model &&
      known.free === command.free &&
      known.answers === (command.answers ?? 1) &&
      known.asked === askedOf(command);
    return same ? this.#answer(known, known.admittedTokens, now) : { kind: 'denied', code: 'conflict', windows: [] };
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
    if (key.minuteLimit > 0) windows.push(minuteWindow('minute_limit', timesOf(own), key.minuteLimit, now));
    if (free) {
      windows.push(minuteWindow('free_minute', this.#freeTimes(key), 20, now));
      const remaining = Math.max(0, 200 - this.#freeTimes(key).filter(at => day(at) === day(now)).length);
      windows.push({ limit: 'free_day', max: 200, remaining, resetAtMs });
    }
    if (this.unit === 'requests' && key.dailyLimit > 0) {
      const remaining = Math.max(0, key.dailyLimit - own.filter(today).length);
      windows.push({ limit: 'daily_limit', max: key.dailyLimit, remaining, resetAtMs });
    }
    return windows;
  }

  /** When free models answered the key's account, each answer by itself. */
  #freeTimes({ accountId }: ModelKey): number[] {
    const all = this.requests.filter(request => request.key.accountId === accountId && request.free);
    return all.flatMap(({ answers, admittedAtMs }) => Array.from({ length: answers }, () => admittedAtMs));
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

  #account(key: ModelKey): ModelAccount {
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

/** A request that is about to be stored; without plan tokens where nothing says how many. */
interface Grant {
  readonly paying: Paying;
  readonly held: bigint;
  readonly tokens: number;
  readonly planHeld?: number;
  readonly planOutput?: number;
  readonly firstSpent?: boolean;
}

function timesOf(requests: readonly ModelRequest[]): number[] {
  return requests.map(request => request.admittedAtMs);
}

/** Who pays more output: a first payer that could not pay the input alone is spent. A record has forgotten that. */
function orderNow({ order, firstSpent, state }: ModelRequest): Order {
  if (!firstSpent || state === 'settled') return order;
  return order === 'plan_money' ? 'money' : 'plan';
}

/** Rounded up, so that a hold is never too small. */
function discounted(funds: FundsEstimate, permille: number): FundsEstimate {
  const less = (value: bigint): bigint => (value * BigInt(1000 - permille) + 999n) / 1000n;
  return { ...funds, inputNanoUsd: less(funds.inputNanoUsd), outputPicoUsd: less(funds.outputPicoUsd) };
}

/** What a settled request would have cost with that usage, had the plan paid as many tokens as it did. */
function totalAgain(command: SettleCommand, done: ModelRequest): bigint {
  const { order, discount, planPaid } = done;
  // With money first the plan's tokens are the last ones: no money leaves them all to it.
  return billOf(command, order, discount, { plan: planPaid, money: 0n }).total;
}

/** undefined: costs nothing. */
function askedOf(command: AdmitCommand): bigint | undefined {
  const { funds } = command;
  return funds === undefined
    ? undefined
    : funds.inputNanoUsd + tokenCost(funds.outputTokensWanted, funds.outputPicoUsd);
}
