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
  SettleCommand,
  Settled,
} from '../../src/ledger/ledger.ts';
import type { PlanName, PlanPeriodName, Plans, SubscriptionRow } from '../../src/ledger/plans.ts';
import { GroupBook } from './model-groups.ts';
import { type Binding, LimitBook } from './model-limit-book.ts';
import { day, type Pool, poolDenial, measurePool, smallest } from './model-limits.ts';
import {
  makeBill,
  boundaries,
  type Left,
  most,
  mostTokens,
  type Order,
  shareMore,
  computeShare,
  tokenCost,
} from './model-payers.ts';
import type { ModelAccount, ModelKey, ModelPeriod, ModelPlan, ModelRequest, Paying } from './model-types.ts';

/**
 * A simple reference model of the ledger: lists that are never shortened, every result computed from all
 * of them, limits found by trying. It is slow and obvious, and the engine must return the same results.
 */
export class Model {
  readonly unit: 'dollars' | 'requests';
  readonly plans: Plans;
  readonly accounts = new Map<number, ModelAccount>();
  readonly keys: ModelKey[] = [];
  readonly requests: ModelRequest[] = [];
  readonly limits: LimitBook;
  readonly groups: GroupBook;

  constructor(unit: 'dollars' | 'requests', plans: Plans) {
    this.unit = unit;
    this.plans = plans;
    this.groups = new GroupBook(this);
    this.limits = new LimitBook(unit, this);
  }

  /** Returns how much of the balance of an account, a key or a group live requests hold. */
  held(of: { account: number } | { key: number } | { group: number }): bigint {
    return this.#sum(
      request =>
        request.state === 'live' &&
        ('key' in of
          ? request.paidBy === 'key' && request.key.id === of.key
          : 'group' in of
            ? request.paidBy === of.group
            : request.paidBy === 'account' && request.key.accountId === of.account),
      request => request.held,
    );
  }

  /** Returns the used and the held tokens of a plan's period. */
  planUse(period: ModelPeriod): { used: number; held: number } {
    const own = this.requests.filter(request => request.period === period);
    const sum = (numbers: number[]): number => numbers.reduce((all, each) => all + each, 0);
    return {
      used: sum(own.map(request => request.planPaid)),
      held: sum(own.filter(request => request.state === 'live').map(request => request.planHeld)),
    };
  }

  freeLeft(accountId: number, name: PlanName, at: number): number {
    const takers = this.requests.filter(
      ({ key, order, admittedAtMs, state, settle }) =>
        key.accountId === accountId &&
        order === 'free_request' &&
        day(admittedAtMs) === day(at) &&
        (state === 'live' || (state === 'settled' && settle?.state !== 'upstream_failed')),
    );
    const taken = takers.reduce((sum, { requests }) => sum + requests, 0);
    return Math.max(0, this.plans[name].freeDailyRequests - taken);
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

  /** Voids expired holds, returns the balances of revoked and expired keys, then renews or ends plans. */
  sweep(now: number): void {
    this.#expire(now);
    for (const key of this.keys) this.#sendBack(key, now);
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

  /** Buys the current period of a plan. Returns false if the part of the balance that is not held is too small. */
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
    for (const request of due) this.#void(request, 'expired', now);
  }

  /** Voids the holds without an expiry, as a restart does. Returns their number. */
  restart(now: number): number {
    this.#expire(now);
    const own = this.requests.filter(request => request.state === 'live' && request.expiresAtMs === undefined);
    for (const request of own) this.#void(request, 'restarted', now);
    this.sweep(now);
    return own.length;
  }

  /** Returns the states of a key's limits, for free models or for other models. */
  windows(key: ModelKey, free: boolean, now: number): WindowState[] {
    const groups = this.groups.findPath(key.groupId);
    return this.limits.states({ key, model: free ? ':free' : '', endUser: undefined, groups }, now);
  }

  admit(command: AdmitCommand, key: ModelKey | undefined, now: number): Admitted | Denied {
    this.sweep(now);
    const known = this.requests.find(request => request.id === command.id && request.state !== 'voided');
    if (known !== undefined) return this.#again(known, command, key, now);
    if (key === undefined || key.state === 'revoked' || isOver(key, now))
      return { kind: 'denied', code: 'invalid_api_key', windows: [] };
    const { funds, model, endUser, text } = command;
    const binding: Binding = { key, model, endUser, groups: this.groups.findPath(key.groupId) };
    const windows = this.limits.states(binding, now);
    if (key.state === 'disabled') return { kind: 'denied', code: 'key_disabled', windows };
    if (key.allowedModels !== null && !key.allowedModels.includes(model)) {
      return { kind: 'denied', code: 'model_not_allowed', windows };
    }
    const refused = this.limits.refusal(command, binding, { windows, now });
    if (refused !== undefined) return refused;
    const paying = this.#choosePaying(key, command, now);
    if (paying === undefined) return { kind: 'denied', code: 'subscription_exhausted', windows };
    const room = text === undefined ? Infinity : this.limits.room(binding, now, now) - text.inputTokens;
    const running = this.#running(key, paying.paidBy);
    if (funds === undefined || paying.order === 'free_request') {
      const slice = text && chooseSlice(text.outputTokensWanted, { most: room, input: text.inputTokens, running });
      const tokens = text === undefined || room === Infinity ? Infinity : Math.max(slice ?? 0, text.outputTokensMin);
      return this.#admitted(command, binding, { paying, held: 0n, tokens }, now);
    }
    const quote = discounted(funds, paying.discount);
    const left = this.#left({ ...binding, ...paying, admittedAtMs: now }, now);
    const pays = (tokens: number): boolean => computeShare(paying.order, left, quote, tokens) !== undefined;
    if (!pays(quote.outputTokensMin)) return this.#refused(key, paying, { quote, left, windows, binding }, now);
    const payable = pays(2 ** 53) ? Infinity : quote.outputTokensMin + most(more => pays(quote.outputTokensMin + more));
    const byFunds = { most: payable, input: inputAsOutput(quote, paying.order), running };
    const byRoom = { most: room, input: text?.inputTokens ?? 0, running };
    const wanted = Math.min(quote.outputTokensWanted, Math.max(Math.min(payable, room), quote.outputTokensMin));
    const shared = Math.min(chooseSlice(wanted, byFunds), chooseSlice(wanted, byRoom));
    const tokens = Math.max(shared, quote.outputTokensMin);
    const share = computeShare(paying.order, left, quote, tokens);
    if (share === undefined) throw new Error('the payers cannot pay a payable amount');
    const { planInput, planOutput, money: held } = share;
    const firstSpent =
      (paying.order === 'plan_money' && (left.plan === 0 || planInput < quote.inputTokens)) ||
      (paying.order === 'money_plan' && (left.money === 0n || left.money < quote.inputNanoUsd));
    const grant = { paying, held, tokens, planHeld: planInput + planOutput, planOutput, firstSpent };
    return this.#admitted(command, binding, grant, now);
  }

  /** Returns how many live requests with a token limit have this payer. */
  #running(key: ModelKey, paidBy: ModelRequest['paidBy']): number {
    return this.requests.filter(
      request =>
        request.state === 'live' &&
        request.tokens !== Infinity &&
        request.paidBy === paidBy &&
        (paidBy === 'account' ? request.key.accountId === key.accountId : paidBy !== 'key' || request.key === key),
    ).length;
  }

  #choosePaying(key: ModelKey, { model, funds, requests = 1 }: AdmitCommand, now: number): Paying | undefined {
    const paidBy = key.balance === null ? (this.groups.findPayer(key.groupId) ?? 'account') : 'key';
    const none = { order: 'money', paidBy, period: undefined, discount: 0 } as const;
    if (funds === undefined) return none;
    const plan = funds.plan ? this.#account(key).plan : undefined;
    const terms = plan === undefined ? undefined : this.plans[plan.name];
    const discount = terms?.discountPermille ?? 0;
    const covers = terms !== undefined && (terms.models === null || terms.models.includes(model));
    if (plan === undefined || !covers) return key.fallbackToPayg ? { ...none, discount } : undefined;
    const { period } = plan;
    if (funds.freeDaily === true && this.freeLeft(key.accountId, plan.name, now) >= requests) {
      return { order: 'free_request', paidBy, period, discount: 0 };
    }
    const order = key.useSubsFirst ? 'plan_money' : 'money_plan';
    return { order: key.fallbackToPayg ? order : 'plan', paidBy, period, discount };
  }

  /** Returns what the payers of a request have left, in the periods in which it was admitted. */
  #left(request: Drawing, now: number): Left {
    const { order, period } = request;
    const plan = order === 'money' || order === 'free_request' || period === undefined ? 0 : this.#planLeft(period);
    const money = order === 'plan' || order === 'free_request' ? 0n : smallest(this.#pools(request, now));
    return { plan, money };
  }

  #planLeft(period: ModelPeriod): number {
    const { used, held } = this.planUse(period);
    return period.tokens - used - held;
  }

  #refused(
    key: ModelKey,
    { order, paidBy, period }: Paying,
    { quote, left, windows, binding }: { quote: FundsEstimate; left: Left; windows: WindowState[]; binding: Binding },
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
    const need = computeShare(order, rich, quote, quote.outputTokensMin)?.money ?? 0n;
    const neededNanoUsd = need > 0n ? need : 1n;
    const short = this.#pools({ ...binding, paidBy, admittedAtMs: now }, now).find(
      pool => pool.max - pool.used < neededNanoUsd,
    );
    if (short === undefined) throw new Error('no pool is short');
    const denied = poolDenial(short, windows, now);
    return short.limit === 'balance' ? { ...denied, neededNanoUsd } : denied;
  }

  extend(command: ExtendCommand, now: number): Extended {
    this.sweep(now);
    const request = this.#live(command.id);
    if (request === undefined) return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
    const before = this.#left(request, now);
    let granted = 0;
    let ok: boolean;
    if ('outputTokens' in command) {
      granted = command.outputTokens;
      if (request.tokens !== Infinity) {
        const available = this.#available(request, request.tokens - request.planOutput, now);
        const others = this.#running(request.key, request.paidBy);
        granted = Math.min(granted, available, Math.max(Math.floor(available / others), 64));
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
      outputTokensAvailable: this.#available(request, request.tokens - request.planOutput, now),
      ...(shown && request.expiresAtMs !== undefined ? { expiresAtMs: request.expiresAtMs } : {}),
    };
  }

  /** Returns how many output tokens the payers could still pay for, in addition to the `moneyTokens` that are held. */
  #available(request: ModelRequest, moneyTokens: number, now: number): number {
    if (request.tokens === Infinity) return Infinity;
    const left = this.#left(request, now);
    const order = orderNow(request);
    const byMoney = order === 'plan' ? 0 : mostTokens(left.money, moneyTokens, request.price);
    const room = request.text === undefined ? Infinity : this.limits.room(request, request.admittedAtMs, now);
    return Math.min(byMoney + (order === 'money' ? 0 : left.plan), room);
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
    const left = this.#left(request, now);
    const covered = request.order === 'plan' || request.order === 'free_request' ? 0n : request.held + left.money;
    const available = { plan: request.planHeld + left.plan, money: covered };
    const { total, planTokens } = makeBill(command, request.order, request.discount, available);
    const cost = total < covered ? total : covered;
    Object.assign(request, { state: 'settled', settle: command, cost, writtenOff: total - cost, planPaid: planTokens });
    const group = this.groups.all.find(({ id }) => id === request.paidBy);
    if (request.paidBy === 'account') this.#account(request.key).balance -= cost;
    else if (typeof group?.balance === 'bigint') group.balance -= cost;
    else if (request.key.balance !== null) request.key.balance -= cost;
    this.groups.sendBack();
    this.#sendBack(request.key, now);
    return { kind: 'settled', costNanoUsd: cost, writtenOffNanoUsd: total - cost };
  }

  void(id: number, reason: string, now: number): 'voided' | 'not_held' {
    this.sweep(now);
    const request = this.#live(id);
    if (request !== undefined) {
      this.#void(request, reason, now);
      return 'voided';
    }
    const all = this.requests.filter(each => each.id === id);
    const voids = all.filter(each => each.state === 'voided');
    return voids.length === all.length && voids.at(-1)?.voidedFor === reason ? 'voided' : 'not_held';
  }

  updateKey(key: ModelKey, settings: KeySettings): 'ok' | 'not_found' | 'no_group' | 'insufficient' {
    if (key.state === 'revoked') return 'not_found';
    const { balance, groupId } = settings;
    if (typeof groupId === 'number' && this.groups.find(groupId, key.accountId) === undefined) return 'no_group';
    if (balance !== undefined) {
      const account = this.#account(key);
      const before = key.balance ?? 0n;
      const keyHeld = this.held({ key: key.id });
      const wanted = balance ?? 0n;
      if (balance === null ? keyHeld > 0n : wanted < before && wanted < keyHeld) return 'insufficient';
      if (wanted - before > account.balance - this.held({ account: key.accountId })) return 'insufficient';
      account.balance -= wanted - before;
      key.balance = balance;
    }
    const { minuteLimit, dailyLimit } = settings;
    if (minuteLimit !== undefined) this.limits.setField(key, 'minute_limit', BigInt(minuteLimit));
    if (dailyLimit !== undefined) this.limits.setField(key, 'daily_limit', BigInt(dailyLimit));
    if (settings.allowedModels !== undefined) key.allowedModels = settings.allowedModels;
    key.useSubsFirst = settings.useSubsFirst ?? key.useSubsFirst;
    key.fallbackToPayg = settings.fallbackToPayg ?? key.fallbackToPayg;
    if (groupId !== undefined) key.groupId = groupId;
    if (settings.expiresAtMs !== undefined) key.expiresAtMs = settings.expiresAtMs;
    return 'ok';
  }

  /** Adds an account, with the limit windows of free models. */
  addAccount(accountId: number, balance: bigint): void {
    this.accounts.set(accountId, { balance });
    this.limits.addFreeWindows(accountId);
  }

  setKeyState(key: ModelKey, state: ModelKey['state'], now: number): 'ok' | 'not_found' {
    if (key.state === 'revoked') return 'not_found';
    key.state = state;
    this.#sendBack(key, now);
    return 'ok';
  }

  addCredit(accountId: number, amount: bigint): 'ok' | 'not_found' | 'insufficient' {
    const account = this.accounts.get(accountId);
    if (account === undefined) return 'not_found';
    if (amount < 0n && -amount > account.balance - this.held({ account: accountId })) return 'insufficient';
    account.balance += amount;
    return 'ok';
  }

  #admitted(command: AdmitCommand, { key, groups }: Binding, grant: Grant, now: number): Admitted {
    const { paying, held, tokens, planHeld = 0, planOutput = 0, firstSpent = false } = grant;
    const { requests = 1 } = command;
    const isFree = command.free || paying.order === 'free_request';
    const request: ModelRequest = {
      id: command.id,
      key,
      model: command.model,
      free: command.free,
      text: command.text,
      requests: isFree ? requests : 1,
      endUser: command.endUser,
      groups,
      ...paying,
      planHeld,
      planOutput,
      firstSpent,
      planPaid: 0,
      admittedAtMs: now,
      requested: requestedAmount(command),
      admitted: held,
      price: outputPrice(command, paying),
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

  /** Returns the reply to an admission. `moneyTokens`: output tokens that are held with money. */
  #answer(request: ModelRequest, moneyTokens: number, now: number): Admitted {
    const { key, expiresAtMs, admittedTokens } = request;
    return {
      kind: 'admitted',
      id: request.id,
      accountId: key.accountId,
      keyId: key.id,
      heldNanoUsd: request.admitted,
      outputTokens: admittedTokens,
      outputTokensAvailable: this.#available(request, moneyTokens, now),
      availableNanoUsd: this.#left(request, now).money,
      windows: this.limits.states(request, now),
      ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    };
  }

  #again(known: ModelRequest, command: AdmitCommand, key: ModelKey | undefined, now: number): Admitted | Denied {
    const same =
      known.key === key &&
      known.model === command.model &&
      known.free === command.free &&
      known.requested === requestedAmount(command);
    if (!same) return { kind: 'denied', code: 'conflict', windows: [] };
    // What is left is told at the price of the repeat: the ledger keeps the whole amount of the first, not its price.
    return this.#answer({ ...known, price: outputPrice(command, known) }, known.admittedTokens, now);
  }

  #void(request: ModelRequest, reason: string, now: number): void {
    request.state = 'voided';
    request.voidedFor = reason;
    this.groups.sendBack();
    this.#sendBack(request.key, now);
  }

  /** Moves the balance of a revoked or expired key to its account, except what is held. */
  #sendBack(key: ModelKey, now: number): void {
    if ((key.state !== 'revoked' && !isOver(key, now)) || key.balance === null) return;
    const kept = this.held({ key: key.id });
    this.#account(key).balance += key.balance - kept;
    key.balance = kept;
  }

  /** Returns the dollar limits and the balance that a request draws on, in the order in which they refuse. */
  #pools(request: Omit<Drawing, 'order' | 'period'>, now: number): Pool[] {
    const { key, paidBy, admittedAtMs } = request;
    const pools = this.limits
      .bound(request)
      .filter(({ unit, action }) => unit === 'usd' && action === 'refuse')
      .map(limit => measurePool(limit, this.limits.counted(limit, request.endUser), admittedAtMs, now));
    const group = this.groups.all.find(({ id }) => id === paidBy);
    const own = group === undefined ? key.balance : group.balance;
    const balance = paidBy === 'account' ? this.#account(key).balance : (own ?? 0n);
    const ofOwn = group === undefined ? { key: key.id } : { group: group.id };
    const used = this.held(paidBy === 'account' ? { account: key.accountId } : ofOwn);
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

/** What an admitted request is granted. Absent plan tokens mean 0. */
interface Grant {
  readonly paying: Paying;
  readonly held: bigint;
  readonly tokens: number;
  readonly planHeld?: number;
  readonly planOutput?: number;
  readonly firstSpent?: boolean;
}

/** The properties of a request that determine who pays and which limits apply. */
type Drawing = Binding & Pick<ModelRequest, 'order' | 'paidBy' | 'period' | 'admittedAtMs'>;

/** Returns the size of the first slice: an equal share for this request, the running ones and one more, but at least 64 tokens if available. */
function chooseSlice(
  wanted: number,
  { most: available, input, running }: { most: number; input: number; running: number },
): number {
  const shared = Math.floor((available + input) / (running + 2) - input);
  return Math.min(wanted, available, Math.max(64, shared));
}

/** Returns how many output tokens cost as much as the input. */
function inputAsOutput({ inputTokens, inputNanoUsd, outputPicoUsd }: FundsEstimate, order: Order): number {
  if (order !== 'money') return inputTokens;
  return outputPicoUsd === 0n ? 0 : Number((inputNanoUsd * 1000n) / outputPicoUsd);
}

function isOver({ expiresAtMs }: ModelKey, now: number): boolean {
  return expiresAtMs !== null && expiresAtMs <= now;
}

/** Returns the order in which more output is paid. If the first payer could not pay for the input alone, it has nothing left (this is not known for a settled request). */
function orderNow({ order, firstSpent, state }: ModelRequest): Order {
  if (!firstSpent || state === 'settled') return order;
  return order === 'plan_money' ? 'money' : 'plan';
}

/** Applies a plan's discount to an estimate. Rounds up, so that a hold is never too small. */
function discounted(funds: FundsEstimate, permille: number): FundsEstimate {
  const less = (value: bigint): bigint => (value * BigInt(1000 - permille) + 999n) / 1000n;
  return { ...funds, inputNanoUsd: less(funds.inputNanoUsd), outputPicoUsd: less(funds.outputPicoUsd) };
}

/** Returns the price of an output token; 0 if nobody pays for it. */
function outputPrice({ funds }: AdmitCommand, { order, discount }: Pick<ModelRequest, 'order' | 'discount'>): bigint {
  return funds === undefined || order === 'free_request' ? 0n : discounted(funds, discount).outputPicoUsd;
}

/** Returns what a settled request would have cost with the command's usage if the plan had paid the same number of tokens. */
function totalAgain(command: SettleCommand, done: ModelRequest): bigint {
  const { order, discount, planPaid } = done;
  // If money pays first, the plan pays for the last tokens; without money, for as many as it did.
  return makeBill(command, order, discount, { plan: planPaid, money: 0n }).total;
}

/** Returns the estimated cost of the command with all wanted output; 0 if it is free. */
function requestedAmount(command: AdmitCommand): bigint {
  const { funds } = command;
  return funds === undefined ? 0n : funds.inputNanoUsd + tokenCost(funds.outputTokensWanted, funds.outputPicoUsd);
}
