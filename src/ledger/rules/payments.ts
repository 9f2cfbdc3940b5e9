import type { DenialFacts } from '../../errors/gateway-error.ts';
import type { AdmitCommand } from '../ledger.ts';
import type { Key, Payers, PlanPeriod, Request } from '../rows.ts';
import { dayOf } from './calendar.ts';
import { type Context, findOwner, present } from './context.ts';
import { choosePayer, type Fund, leftOfAll, listFunds } from './funds.ts';
import { drawsOnMoney, drawsOnPlan, type Sources } from './grants.ts';

/** Who pays a request, and what they have left. Source: decisions §6, "Who pays a request, in this order". */
export interface Payment {
  readonly payers: Payers;
  /** Whose tokens; undefined where no plan pays. */
  readonly period: PlanPeriod | undefined;
  /** Caps and balance, in the order in which they refuse; empty where money does not pay. */
  readonly funds: readonly Fund[];
  /** Taken off what money pays. */
  readonly discountPermille: number;
}

/** Returns who pays a request of this key that is admitted now; undefined: the key's flags and the plan leave nobody. */
export function choosePayment(
  context: Context,
  key: Key,
  { model, funds, answers = 1 }: Pick<AdmitCommand, 'model' | 'funds' | 'answers'>,
  nowMs: number,
): Payment | undefined {
  const plan = funds?.plan === true ? livePeriod(context, key) : undefined;
  const terms = plan === undefined ? undefined : context.plans[plan.plan];
  const period = terms?.models?.includes(model) === false ? undefined : plan;
  if (period !== undefined && funds?.freeDaily === true && freeRequestsLeft(context, period, nowMs) >= answers) {
    return { payers: 'free_request', period, funds: [], discountPermille: 0 };
  }
  const discountPermille = terms?.discountPermille ?? 0;
  const payers = funds === undefined ? 'money' : choosePayers(key, period !== undefined);
  if (payers === undefined) return undefined;
  const money = drawsOnMoney(payers) ? listFunds(context, key, choosePayer(key), nowMs) : [];
  return { payers, period: payers === 'money' ? undefined : period, funds: money, discountPermille };
}

/** Returns who pays a request that was admitted: by the present limits in the periods of the admission. */
export function keepPayment(context: Context, key: Key, request: Request): Payment {
  const { payers, payer, accountId, period: number, admittedAtMs, discountPermille } = request;
  const period =
    number !== null && drawsOnPlan(payers) ? present(context.rows.periods.get(accountId, number)) : undefined;
  const funds = drawsOnMoney(payers) ? listFunds(context, key, payer, admittedAtMs) : [];
  return { payers, period, funds, discountPermille };
}

/** Returns what the payers can still pay. */
export function countSources({ payers, period, funds }: Payment): Sources {
  const planTokens = period !== undefined && drawsOnPlan(payers) ? period.tokens - period.used - period.held : 0;
  return { payers, planTokens, nanoUsd: leftOfAll(funds) };
}

/** Returns why a plan's tokens refuse. Without `resetAtMs` where the plan ends with the period: waiting does not help. */
export function describeShortPlan({ rows }: Context, period: PlanPeriod): DenialFacts {
  const { accountId, tokens: max, used, held, endMs, subscription } = period;
  const denial: DenialFacts = { limit: 'subscription', unit: 'tokens', used: used + held, max };
  return rows.subscriptions.get(accountId, subscription)?.state === 'active' ? { ...denial, resetAtMs: endMs } : denial;
}

function livePeriod({ rows }: Context, key: Key): PlanPeriod | undefined {
  const { period } = findOwner(rows, key);
  return period === null ? undefined : present(rows.periods.get(key.accountId, period));
}

/** Free daily requests that the plan still gives on the day of that time. */
function freeRequestsLeft({ rows, plans }: Context, { accountId, plan }: PlanPeriod, nowMs: number): number {
  const { freeDailyRequests } = plans[plan];
  const taken = rows.planDays.get(accountId, dayOf(nowMs))?.requests ?? 0;
  return Math.max(0, freeDailyRequests - taken);
}

function choosePayers({ useSubsFirst, fallbackToPayg }: Key, hasPlan: boolean): Payers | undefined {
  if (!hasPlan) return fallbackToPayg ? 'money' : undefined;
  if (!fallbackToPayg) return 'plan';
  return useSubsFirst ? 'plan_money' : 'money_plan';
}
