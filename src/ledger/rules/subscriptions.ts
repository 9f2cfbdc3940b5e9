import { isoTime } from '../../lib/clock.ts';
import type { PlanName, PlanPeriodName } from '../plans.ts';
import type { Account, PlanPeriod, Rows, Subscription } from '../rows.ts';
import { findPlanPeriod } from './calendar.ts';
import { type Context, findOwner, present } from './context.ts';
import { emit } from './events.ts';
import { changeBalance } from './holds.ts';

/**
 * Starts, renews and ends plans. No timer runs when a period ends: the next command renews the plan first, so that no command sees a period
 * that is over. Periods that passed in between are skipped and not paid.
 */

/** Starts a plan and pays for its first period. `conflict`: the account already has a plan; `insufficient`: the account can't pay. */
export function startSubscription(
  context: Context,
  { accountId, plan, period }: { accountId: number; plan: PlanName; period: PlanPeriodName },
  nowMs: number,
): number | 'not_found' | 'insufficient' | 'conflict' | 'closed' {
  const account = context.rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  if (account.closedAtMs !== null) return 'closed';
  if (account.period !== null) return 'conflict';
  if (!canPay(account, context.plans[plan][period].priceNanoUsd)) return 'insufficient';
  const number = account.plans + 1;
  const subscription: Subscription = { accountId, number, plan, period, startedAtMs: nowMs, state: 'active' };
  context.rows.subscriptions.put(subscription);
  buyPeriod(context, { ...account, plans: number }, subscription, nowMs);
  return accountId;
}

/** Lets a plan end with its period. */
export function cancelSubscription({ rows }: Context, accountId: number): number | 'not_found' {
  const number = rows.accounts.get(accountId)?.period ?? null;
  if (number === null) return 'not_found';
  const { subscription } = present(rows.periods.get(accountId, number));
  rows.subscriptions.put({ ...present(rows.subscriptions.get(accountId, subscription)), state: 'cancelled' });
  return accountId;
}

/** Renews a plan whose period is over. Ends it instead if it was cancelled, or if its account can't pay. */
export function renewSubscription(context: Context, over: PlanPeriod, nowMs: number): void {
  const { rows, plans } = context;
  const subscription = present(rows.subscriptions.get(over.accountId, over.subscription));
  const account = findOwner(rows, over);
  rows.periods.put({ ...over, live: false });
  const { priceNanoUsd } = plans[subscription.plan][subscription.period];
  if (subscription.state === 'active' && canPay(account, priceNanoUsd)) {
    buyPeriod(context, account, subscription, nowMs);
    emitPlanEvent(rows, subscription, 'subscription.renewed', nowMs);
    return;
  }
  rows.subscriptions.put({ ...subscription, state: 'ended' });
  rows.accounts.put({ ...account, period: null });
  emitPlanEvent(rows, subscription, 'subscription.ended', nowMs);
}

function emitPlanEvent(
  rows: Rows,
  { accountId, plan, period }: Subscription,
  type: 'subscription.renewed' | 'subscription.ended',
  nowMs: number,
): void {
  const number = rows.accounts.get(accountId)?.period ?? null;
  const paid = number === null ? undefined : rows.periods.get(accountId, number);
  const renews_at = paid === undefined ? null : isoTime(paid.endMs);
  emit(rows, { accountId, type, scope: `account ${accountId}`, data: { plan, period, renews_at } }, nowMs);
}

/** Returns whether the account can pay a price from money that is not held. */
function canPay({ balance, held }: Account, price: bigint): boolean {
  return balance - held >= price;
}

function buyPeriod({ rows, plans }: Context, account: Account, subscription: Subscription, nowMs: number): void {
  const { plan, period, startedAtMs, number: of } = subscription;
  const { priceNanoUsd: price, tokens } = plans[plan][period];
  const { number: nth, startMs, endMs } = findPlanPeriod(startedAtMs, period, nowMs);
  const number = account.plans + 1;
  const bought = { number, subscription: of, plan, nth, startMs, endMs, price, tokens, used: 0, held: 0, live: true };
  rows.periods.put({ accountId: account.id, ...bought });
  const owner: Account = { ...account, period: number, plans: number };
  if (price === 0n) rows.accounts.put(owner);
  else changeBalance(rows, owner, -price, { kind: 'plan_price', period: number, atMs: nowMs });
}
