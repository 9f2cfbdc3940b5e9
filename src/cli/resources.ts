import type { ApiKey } from '../gen/tollgate/v1/account_pb.ts';
import { type Account, type ManagementKey, Plan, PlanPeriod, type Subscription } from '../gen/tollgate/v1/admin_pb.ts';
import type { CachePricing, Model, Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { decimalText, jsonDollars } from '../lib/dollars.ts';
import type { Document } from './output.ts';

/** What the command line shows of each resource: the fields of `service.md`, dollars as numbers, times in ISO 8601. Source: decisions §1, §2. */

/** An account. */
export function accountDocument(account: Account): Document {
  return {
    account_id: Number(account.accountId),
    name: account.name,
    balance: jsonDollars(account.balanceNanoUsd),
    held: jsonDollars(account.heldNanoUsd),
    created_at: timeOf(account.createdAtMs),
  };
}

/** Columns of a table of accounts. */
export const accountColumns = ['account_id', 'name', 'balance', 'held', 'created_at'] as const;

/** An API key; `key` is full only where the key was just made. */
export function apiKeyDocument(key: ApiKey): Document {
  return {
    api_key_id: Number(key.apiKeyId),
    account_id: Number(key.accountId),
    key: key.key,
    created_at: timeOf(key.createdAtMs),
    label: key.label,
    daily_limit: Number(key.dailyLimit),
    minute_limit: Number(key.minuteLimit),
    monthly_limit: key.monthlyLimitNanoUsd === undefined ? null : jsonDollars(key.monthlyLimitNanoUsd),
    balance: key.balanceNanoUsd === undefined ? null : jsonDollars(key.balanceNanoUsd),
    usage_today: jsonDollars(key.usageTodayNanoUsd),
    usage_minute: Number(key.usageMinute),
    last_used_at: key.lastUsedAtMs === undefined ? null : timeOf(key.lastUsedAtMs),
    use_subs_first: key.useSubsFirst,
    fallback_to_payg: key.fallbackToPayg,
    allowed_models: key.allowedModels?.models ?? null,
    disabled: key.disabled,
  };
}

/** Columns of a table of API keys. */
export const apiKeyColumns = [
  'api_key_id',
  'key',
  'label',
  'balance',
  'daily_limit',
  'minute_limit',
  'monthly_limit',
  'usage_today',
  'allowed_models',
  'disabled',
  'last_used_at',
] as const;

/** A management key; `key` is full only where the key was just made. */
export function managementKeyDocument(key: ManagementKey): Document {
  return {
    management_key_id: Number(key.managementKeyId),
    account_id: Number(key.accountId),
    key: key.key,
    scopes: key.scopes,
    disabled: key.disabled,
    created_at: timeOf(key.createdAtMs),
  };
}

/** Columns of a table of management keys. */
export const managementKeyColumns = ['management_key_id', 'key', 'scopes', 'disabled', 'created_at'] as const;

/** A plan of an account; `renews_at` is null where it is cancelled, `ends_at` where it is not. */
export function subscriptionDocument(subscription: Subscription): Document {
  const { plan, period, tokens, tokensUsed, cancelled } = subscription;
  const periodEnd = timeOf(subscription.periodEndMs);
  return {
    account_id: Number(subscription.accountId),
    plan: planNames[plan] ?? null,
    period: periodNames[period] ?? null,
    tokens: Number(tokens),
    tokens_left: Number(tokens - tokensUsed),
    renews_at: cancelled ? null : periodEnd,
    ends_at: cancelled ? periodEnd : null,
    free_left_today: subscription.freeLeftToday,
    started_at: timeOf(subscription.startedAtMs),
  };
}

const planNames: Partial<Record<Plan, string>> = { [Plan.CORE]: 'core', [Plan.CORE_PRO]: 'core_pro' };
const periodNames: Partial<Record<PlanPeriod, string>> = {
  [PlanPeriod.BIWEEKLY]: 'biweekly',
  [PlanPeriod.MONTHLY]: 'monthly',
};

const paths: Partial<Record<Endpoint, string>> = {
  [Endpoint.CHAT_COMPLETIONS]: '/v1/chat/completions',
  [Endpoint.RESPONSES]: '/v1/responses',
  [Endpoint.MESSAGES]: '/v1/messages',
  [Endpoint.IMAGE_GENERATIONS]: '/v1/images/generations',
  [Endpoint.IMAGE_EDITS]: '/v1/images/edits',
};

const tiers: Partial<Record<ServiceTier, string>> = { [ServiceTier.FLEX]: 'flex', [ServiceTier.PRIORITY]: 'priority' };

/** A model of the catalogue; prices in dollars per 1 million tokens, of a picture in dollars. `GET /v1/models` tells more. */
export function modelDocument(model: Model): Document {
  return {
    id: model.id,
    name: model.name,
    owned_by: model.ownedBy,
    available: model.available,
    context_length: model.contextLength ?? null,
    max_output_tokens: model.maxOutputTokens ?? null,
    endpoints: model.endpoints.map(endpoint => paths[endpoint]).filter(path => path !== undefined),
    capabilities: {
      vision: model.vision,
      function_call: model.functionCall,
      reasoning: model.reasoning,
      service_tiers: model.serviceTiers.map(tier => tiers[tier]).filter(tier => tier !== undefined),
    },
    pricing: pricesOf(model.pricing),
  };
}

/** A model as a row of a table. */
export function modelRow(model: Model): Document {
  return { ...modelDocument(model), ...pricesOf(model.pricing) };
}

/** Columns of a table of models. */
export const modelColumns = ['id', 'owned_by', 'available', 'input', 'output', 'image', 'endpoints'] as const;

function perMillion(picoUsd: bigint | undefined): number | null {
  return picoUsd === undefined ? null : Number(decimalText(picoUsd, 6));
}

function cachingOf(caching: CachePricing | undefined): Document | null {
  if (caching === undefined) return null;
  return {
    read: perMillion(caching.readPicoUsd),
    write_5m: perMillion(caching.write5mPicoUsd),
    write_1h: perMillion(caching.write1hPicoUsd),
  };
}

function pricesOf(pricing: Pricing | undefined): Document {
  return {
    input: perMillion(pricing?.inputPicoUsd),
    output: perMillion(pricing?.outputPicoUsd),
    image: pricing?.imageNanoUsd === undefined ? null : jsonDollars(pricing.imageNanoUsd),
    caching: cachingOf(pricing?.caching),
    above: (pricing?.above ?? []).map(step => ({
      input_tokens: step.inputTokens,
      input: perMillion(step.inputPicoUsd),
      output: perMillion(step.outputPicoUsd),
      caching: cachingOf(step.caching),
    })),
  };
}

function timeOf(ms: bigint): string {
  return isoTime(Number(ms));
}
