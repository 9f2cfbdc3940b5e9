/** The names of the plans, and the lengths of their periods. Source: docs/accounting.md "Subscriptions". */
export type PlanName = 'core' | 'core_pro';
export type PlanPeriodName = 'biweekly' | 'monthly';

/** A plan's cost and content. A period keeps the price and the tokens that it was paid for; the rest applies from the next request on. */
export interface PlanTerms {
  readonly biweekly: PlanPeriodTerms;
  readonly monthly: PlanPeriodTerms;
  readonly freeDailyRequests: number;
  /** The discount on the part of text requests that money pays, in thousandths. */
  readonly discountPermille: number;
  /** Listed ids that the plan pays for; null: every text model. */
  readonly models: readonly string[] | null;
}

export interface PlanPeriodTerms {
  readonly priceNanoUsd: bigint;
  readonly tokens: number;
}

/** The unit of a key's `daily_limit`. */
export type DailyLimitUnit = 'dollars' | 'requests';

/** All plans by name. */
export type Plans = Readonly<Record<PlanName, PlanTerms>>;

/** A plan of an account in its present period. */
export interface SubscriptionRow {
  readonly accountId: number;
  readonly plan: PlanName;
  readonly period: PlanPeriodName;
  readonly startedAtMs: number;
  /** The present period: from the one, before the other. */
  readonly periodStartMs: number;
  readonly periodEndMs: number;
  /** True if it is not renewed when its period ends. */
  readonly cancelled: boolean;
  /** The period's budget. */
  readonly tokens: number;
  /** Used by settled requests. */
  readonly tokensUsed: number;
  /** Held by running requests. */
  readonly tokensHeld: number;
  readonly freeLeftToday: number;
}
