import type { DenialFacts } from '../../errors/gateway-error.ts';
import type { AdmitCommand } from '../ledger.ts';
import type { Key, Payers, PlanPeriod, Request } from '../rows.ts';
import { toDay } from './calendar.ts';
import { type Context, findOwner, present } from './context.ts';
import { choosePayer, countMoney } from './funds.ts';
import type { BoundLimit } from './limits.ts';
import { drawsOnMoney, drawsOnPlan, type Sources } from './grants.ts';

/** The payers of a request, and what they have left. Source: docs/accounting.md "Who pays". */
export interface Payment {
  readonly payers: Payers;
  /** The plan period whose tokens pay; undefined if no plan pays. */
  readonly period: PlanPeriod | undefined;
  /** The money that the dollar limits and the balance allow; 0 if money does not pay. */
  readonly nanoUsd: bigint;
  /** The discount on the part that money pays. */
  readonly discountPermille: number;
}

/** A request that is to be admitted, and the limits that apply to it. */
export interface PayableRequest extends Pick<AdmitCommand, 'model' | 'funds'> {
  readonly requests: number;
  readonly groups: readonly number[];
  readonly bound: readonly BoundLimit[];
}

/**
 * Returns who pays for a request of this key that is admitted now; undefined if the key's settings and the plan leave no
 * payer.
 */
export function choosePayment(context: Context, key: Key, payable: PayableRequest, nowMs: number): Payment | undefined {
  const { model, funds, requests, groups, bound } = payable;
  const plan = funds?.plan === true ? livePeriod(context, key) : undefined;
  const terms = plan === undefined ? undefined : context.plans[plan.plan];
  const period = terms?.models?.includes(model) === false ? undefined : plan;
  if (period !== undefined && funds?.freeDaily === true && freeRequestsLeft(context, period, nowMs) >= requests) {
    return { payers: 'free_request', period, nanoUsd: 0n, discountPermille: 0 };
  }
  const discountPermille = terms?.discountPermille ?? 0;
  const payers = funds === undefined ? 'money' : choosePayers(key, period !== undefined);
  if (payers === undefined) return undefined;
  const paying = { payerFields: choosePayer(context.rows, key, groups), groups, admittedAtMs: nowMs, bound };
  const nanoUsd = drawsOnMoney(payers) ? countMoney(context.rows, key, paying, nowMs) : 0n;
  return { payers, period: payers === 'money' ? undefined : period, nanoUsd, discountPermille };
}

/** Returns the payers of a request that has been admitted, with what they have left now. `bound`: the limits, in the windows of its admission. */
export function keepPayment(
  context: Context,
  key: Key,
  { request, bound }: { readonly request: Request; readonly bound: readonly BoundLimit[] },
  nowMs: number,
): Payment {
  const { payers, accountId, period: number, discountPermille, groups, admittedAtMs } = request;
  const period =
    number !== null && drawsOnPlan(payers) ? present(context.rows.periods.get(accountId, number)) : undefined;
  const paying = { payerFields: request, groups, admittedAtMs, bound };
  const nanoUsd = drawsOnMoney(payers) ? countMoney(context.rows, key, paying, nowMs) : 0n;
  return { payers, period, nanoUsd, discountPermille };
}

/** Returns what each payer can still pay. */
export function countSources({ payers, period, nanoUsd }: Payment): Sources {
  const planTokens = period !== undefined && drawsOnPlan(payers) ? period.tokens - period.used - period.held : 0;
  return { payers, planTokens, nanoUsd };
}

/** Returns the facts for a denial because the plan's tokens are used up. Without `resetAtMs` if the plan ends with the period, because waiting does not help then. */
export function describeShortPlan({ rows }: Context, period: PlanPeriod): DenialFacts {
  const { accountId, tokens: max, used, held, endMs, subscription } = period;
  const denial: DenialFacts = { limit: 'subscription', unit: 'tokens', used: used + held, max };
  return rows.subscriptions.get(accountId, subscription)?.state === 'active' ? { ...denial, resetAtMs: endMs } : denial;
}

function livePeriod({ rows }: Context, key: Key): PlanPeriod | undefined {
  const { period } = findOwner(rows, key);
  return period === null ? undefined : present(rows.periods.get(key.accountId, period));
}

/** Returns how many free requests the plan has left on the day of `nowMs`. */
function freeRequestsLeft({ rows, plans }: Context, { accountId, plan }: PlanPeriod, nowMs: number): number {
  const { freeDailyRequests } = plans[plan];
  const taken = rows.planDays.get(accountId, toDay(nowMs))?.requests ?? 0;
  return Math.max(0, freeDailyRequests - taken);
}

function choosePayers({ useSubsFirst, fallbackToPayg }: Key, hasPlan: boolean): Payers | undefined {
  if (!hasPlan) return fallbackToPayg ? 'money' : undefined;
  if (!fallbackToPayg) return 'plan';
  return useSubsFirst ? 'plan_money' : 'money_plan';
}
