import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import {
  type AdminService,
  type ConfiguredPlanSchema,
  Plan,
  PlanPeriod,
  type SubscriptionSchema,
} from '../gen/tollgate/v1/admin_pb.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { PlanName, PlanPeriodName, Plans, SubscriptionRow } from '../ledger/plans.ts';
import { requireRow, readId, invalidField, notFound } from './account-fields.ts';

/** Implements the methods of AdminService for subscriptions. Source: docs/accounting.md "Subscriptions". */
export function subscriptions(
  ledger: Ledger,
  configured: Plans,
): Pick<
  PushedService<typeof AdminService>,
  'listPlans' | 'startSubscription' | 'getSubscription' | 'cancelSubscription'
> {
  return {
    listPlans: () => ({ plans: planList.flatMap(name => toConfiguredPlans(name, configured[name])) }),
    async startSubscription(request) {
      const accountId = readId(request.accountId, 'account');
      const plan = planNames[request.plan];
      if (plan === undefined) throw invalidField('plan', 'must be core or core_pro');
      const period = periodNames[request.period];
      if (period === undefined) throw invalidField('period', 'must be biweekly or monthly');
      const row = await ledger.startSubscription({ accountId, plan, period });
      if (row === 'conflict') throw alreadySubscribed(accountId);
      return { subscription: toSubscription(requireRow(row, 'account', accountId)) };
    },
    async getSubscription(request) {
      const accountId = readId(request.accountId, 'account');
      const row = await ledger.findSubscription(accountId);
      if (row === undefined) throw await noSubscription(ledger, accountId);
      return { subscription: toSubscription(row) };
    },
    async cancelSubscription(request) {
      const accountId = readId(request.accountId, 'account');
      const row = await ledger.cancelSubscription(accountId);
      if (row === 'not_found') throw await noSubscription(ledger, accountId);
      return { subscription: toSubscription(row) };
    },
  };
}

const planNames: Partial<Record<Plan, PlanName>> = { [Plan.CORE]: 'core', [Plan.CORE_PRO]: 'core_pro' };
const periodNames: Partial<Record<PlanPeriod, PlanPeriodName>> = {
  [PlanPeriod.BIWEEKLY]: 'biweekly',
  [PlanPeriod.MONTHLY]: 'monthly',
};
const planEnums: Record<PlanName, Plan> = { core: Plan.CORE, core_pro: Plan.CORE_PRO };
const periodEnums: Record<PlanPeriodName, PlanPeriod> = { biweekly: PlanPeriod.BIWEEKLY, monthly: PlanPeriod.MONTHLY };

const planList = ['core', 'core_pro'] as const satisfies PlanName[];
const periodList = ['biweekly', 'monthly'] as const satisfies PlanPeriodName[];

/** Returns one entry of a configured plan for each billing period, biweekly and monthly. */
function toConfiguredPlans(name: PlanName, settings: Plans[PlanName]): MessageInitShape<typeof ConfiguredPlanSchema>[] {
  const { freeDailyRequests, discountPermille, models } = settings;
  return periodList.map(period => ({
    plan: planEnums[name],
    period: periodEnums[period],
    priceNanoUsd: settings[period].priceNanoUsd,
    tokens: BigInt(settings[period].tokens),
    freeDailyRequests,
    discountPermille,
    models: models === null ? { all: true } : { ids: [...models] },
  }));
}

function alreadySubscribed(accountId: number): GatewayError {
  return new GatewayError('conflict', `Account ${accountId} already has a subscription.`, {
    tip: `Show it with npx tollgate subscriptions show ${accountId}; another one can start once it has ended.`,
  });
}

async function noSubscription(ledger: Ledger, accountId: number): Promise<GatewayError> {
  if ((await ledger.findAccount(accountId)) === undefined) return notFound('account', accountId);
  return new GatewayError('not_found', `Account ${accountId} has no subscription.`, {
    tip: `Start one with npx tollgate subscriptions start ${accountId} --plan core|core_pro --period biweekly|monthly.`,
  });
}

function toSubscription(row: SubscriptionRow): MessageInitShape<typeof SubscriptionSchema> {
  return {
    accountId: BigInt(row.accountId),
    plan: planEnums[row.plan],
    period: periodEnums[row.period],
    startedAtMs: BigInt(row.startedAtMs),
    periodStartMs: BigInt(row.periodStartMs),
    periodEndMs: BigInt(row.periodEndMs),
    cancelled: row.cancelled,
    tokens: BigInt(row.tokens),
    tokensUsed: BigInt(row.tokensUsed),
    tokensHeld: BigInt(row.tokensHeld),
    freeLeftToday: row.freeLeftToday,
  };
}
