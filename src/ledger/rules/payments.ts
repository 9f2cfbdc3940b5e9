import type { AdmitCommand } from '../ledger.ts';
import { type Fund, type Funds, leftOfAll, type Payer, payerOf } from './funds.ts';
import { drawsOnMoney, drawsOnPlan, type Payers, type Sources } from './grants.ts';
import type { KeyFacts } from './key-facts.ts';
import { coversModel, type PeriodFacts, type Plans, planTokensLeft } from './plans.ts';

/** Who pays a request, and what they have left. */
export interface Payment {
  readonly payers: Payers;
  /** Whose tokens; undefined where no plan pays. */
  readonly period: PeriodFacts | undefined;
  /** Caps and balance, in the order in which they refuse; empty where money does not pay. */
  readonly funds: readonly Fund[];
  /** Taken off what money pays. */
  readonly discountPermille: number;
}

/** What a stored request says of its payment; its periods and payers never change. */
export interface Paying {
  readonly payers: Payers;
  readonly payer: Payer;
  readonly periodId: number | null;
  readonly admittedAtMs: number;
  readonly discountPermille: number;
}

/** Decides who pays. Source: decisions §6, "Who pays a request, in this order". */
export class Payments {
  readonly #plans: Plans;
  readonly #funds: Funds;

  constructor(plans: Plans, funds: Funds) {
    this.#plans = plans;
    this.#funds = funds;
  }

  /** For a request of this key that is admitted now; undefined: the key's flags and the plan leave nobody. */
  of(key: KeyFacts, { model, funds }: AdmitCommand, nowMs: number): Payment | undefined {
    if (funds === undefined) return this.#money(key, 0, nowMs);
    const plan = funds.plan ? this.#plans.of(key) : undefined;
    const discountPermille = plan?.terms.discountPermille ?? 0;
    const period = plan !== undefined && coversModel(plan, model) ? plan : undefined;
    if (period !== undefined && funds.freeDaily === true && this.#plans.freeLeft(period, nowMs) > 0) {
      return { payers: 'free_request', period, funds: [], discountPermille: 0 };
    }
    const payers = orderOf(key, period !== undefined);
    if (payers === undefined) return undefined;
    if (payers === 'money') return this.#money(key, discountPermille, nowMs);
    const money = drawsOnMoney(payers) ? this.#funds.of(key, payerOf(key), nowMs) : [];
    return { payers, period, funds: money, discountPermille };
  }

  /** For a request that was admitted: by the present limits in the periods of the admission. */
  again(key: KeyFacts, paying: Paying): Payment {
    const { payers, payer, periodId, admittedAtMs, discountPermille } = paying;
    const period = periodId !== null && drawsOnPlan(payers) ? this.#plans.period(periodId) : undefined;
    const funds = drawsOnMoney(payers) ? this.#funds.of(key, payer, admittedAtMs) : [];
    return { payers, period, funds, discountPermille };
  }

  #money(key: KeyFacts, discountPermille: number, nowMs: number): Payment {
    const funds = this.#funds.of(key, payerOf(key), nowMs);
    return { payers: 'money', period: undefined, funds, discountPermille };
  }
}

/** What they can still pay. */
export function sourcesOf({ payers, period, funds }: Payment): Sources {
  const planTokens = period !== undefined && drawsOnPlan(payers) ? planTokensLeft(period) : 0;
  return { payers, planTokens, nanoUsd: leftOfAll(funds) };
}

function orderOf({ useSubsFirst, fallbackToPayg }: KeyFacts, hasPlan: boolean): Payers | undefined {
  if (!hasPlan) return fallbackToPayg ? 'money' : undefined;
  if (!fallbackToPayg) return 'plan';
  return useSubsFirst ? 'plan_money' : 'money_plan';
}
