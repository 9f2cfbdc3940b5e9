/** The plans and the lengths of their periods: see docs/accounting.md "Subscriptions". */
export type PlanName = 'core' | 'core_pro';
export type PlanPeriodName = 'biweekly' | 'monthly';

/** A plan's price and contents. If this changes, a paid period keeps its price and tokens; the rest applies from the next request on. */
export interface PlanTerms {
  readonly biweekly: PlanPeriodTerms;
  readonly monthly: PlanPeriodTerms;
  readonly freeDailyRequests: number;
  /** The discount, in thousandths, on the part of a text request that money pays for. */
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

/** An account's plan in its current period. */
export interface SubscriptionRow {
  readonly accountId: number;
  readonly plan: PlanName;
  readonly period: PlanPeriodName;
  readonly startedAtMs: number;
  /** The current period: from `periodStartMs` on, before `periodEndMs`. */
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
