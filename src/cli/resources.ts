import type { ApiKey, Group, Limit } from '../gen/tollgate/v1/account_pb.ts';
import {
  type Account,
  AccountSuspension,
  type ConfiguredPlan,
  type ManagementKey,
  Plan,
  PlanPeriod,
  type Subscription,
} from '../gen/tollgate/v1/admin_pb.ts';
import type { Model } from '../gen/tollgate/v1/catalog_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { defined } from '../lib/defined.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { apiKeyJson, groupJson, limitJson, modelJson } from '../rpc/resources.ts';
import type { Document } from './output.ts';

/** How the command line shows a kind of object. */
export interface ResourceView<T> {
  /** Returns all fields, for JSON and for the text that shows a single object. */
  readonly document: (resource: T) => Document;
  /** The columns of a table: members of the row. */
  readonly columns: readonly string[];
  /** Returns the row of a table. Absent if the row is the same as the document. */
  readonly row?: (resource: T) => Document;
}

const suspensions: Readonly<Partial<Record<AccountSuspension, string>>> = {
  [AccountSuspension.DAMAGED]: 'damaged',
  [AccountSuspension.WRITE_OFFS]: 'write_offs',
};

/** Shows an account; `suspended` (why its requests are refused), `low_balance` and `closed_at` only if they are set. */
export const accountView: ResourceView<Account> = {
  document: account => ({
    account_id: Number(account.accountId),
    name: account.name,
    balance: jsonDollars(account.balanceNanoUsd),
    held: jsonDollars(account.heldNanoUsd),
    created_at: isoTime(account.createdAtMs),
    ...defined({
      low_balance: account.lowBalanceNanoUsd === undefined ? undefined : jsonDollars(account.lowBalanceNanoUsd),
      suspended: suspensions[account.suspension],
      closed_at: account.closedAtMs === undefined ? undefined : isoTime(account.closedAtMs),
    }),
  }),
  columns: ['account_id', 'name', 'balance', 'held', 'created_at'],
};

/** Shows an API key. */
export const apiKeyView: ResourceView<ApiKey> = {
  document: key => {
    const { api_key_id, ...others } = apiKeyJson(key);
    return { api_key_id, account_id: Number(key.accountId), ...others };
  },
  columns: [
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
    'group_id',
    'last_used_at',
  ],
};

/** Shows a limit. */
export const limitView: ResourceView<Limit> = {
  document: limit => {
    const { limit_id, ...others } = limitJson(limit);
    return { limit_id, account_id: Number(limit.accountId), ...others };
  },
  columns: [
    'limit_id',
    'scope',
    'id',
    'unit',
    'window',
    'max',
    'used',
    'held',
    'remaining',
    'models',
    'locked',
    'resets_at',
  ],
  row: limit => {
    const { scope, ...others } = limitJson(limit);
    return { ...others, scope: scope.type, id: scope.id };
  },
};

/** Shows a group. */
export const groupView: ResourceView<Group> = {
  document: group => {
    const { group_id, ...others } = groupJson(group);
    return { group_id, account_id: Number(group.accountId), ...others };
  },
  columns: ['group_id', 'name', 'parent_group_id', 'balance', 'tags', 'created_at'],
};

/** Shows a management key; `key` is masked unless it was just created. */
export const managementKeyView: ResourceView<ManagementKey> = {
  document: key => ({
    management_key_id: Number(key.managementKeyId),
    account_id: Number(key.accountId),
    key: key.key,
    scopes: key.scopes,
    disabled: key.disabled,
    created_at: isoTime(key.createdAtMs),
  }),
  columns: ['management_key_id', 'key', 'scopes', 'disabled', 'created_at'],
};

/** The plans that an account can subscribe to, by name. */
export const plans = { core: Plan.CORE, core_pro: Plan.CORE_PRO } as const;

/** The periods that a plan renews in, by name. */
export const planPeriods = { biweekly: PlanPeriod.BIWEEKLY, monthly: PlanPeriod.MONTHLY } as const;

/** Shows a plan for one of its period lengths; `models` is null if the plan pays for every text model. */
export const planView: ResourceView<ConfiguredPlan> = {
  document: ({ plan, period, priceNanoUsd, tokens, freeDailyRequests, discountPermille, models }) => ({
    plan: findName(plans, plan),
    period: findName(planPeriods, period),
    price: jsonDollars(priceNanoUsd),
    tokens: Number(tokens),
    free_daily_requests: freeDailyRequests,
    discount_permille: discountPermille,
    models: models?.all === true ? null : (models?.ids ?? []),
  }),
  columns: ['plan', 'period', 'price', 'tokens', 'free_daily_requests', 'discount_permille'],
};

/** Shows the plan of an account; `renews_at` is null if it is cancelled, `ends_at` if it is not. */
export const subscriptionView: ResourceView<Subscription> = {
  document: subscription => {
    const { plan, period, tokens, tokensUsed, cancelled } = subscription;
    const periodEnd = isoTime(subscription.periodEndMs);
    return {
      account_id: Number(subscription.accountId),
      plan: findName(plans, plan),
      period: findName(planPeriods, period),
      tokens: Number(tokens),
      tokens_left: Number(tokens - tokensUsed),
      renews_at: cancelled ? null : periodEnd,
      ends_at: cancelled ? periodEnd : null,
      free_left_today: subscription.freeLeftToday,
      started_at: isoTime(subscription.startedAtMs),
    };
  },
  columns: [],
};

function findName(names: Readonly<Record<string, number>>, value: number): string | null {
  return Object.keys(names).find(name => names[name] === value) ?? null;
}

/** Shows a model of the catalogue; `GET /v1/models` returns more fields. */
export const modelView = {
  document: modelDocument,
  row: (model: Model) => {
    const document = modelDocument(model);
    return { ...document, ...document.pricing };
  },
  columns: ['id', 'owned_by', 'available', 'input', 'output', 'image', 'search', 'endpoints'],
} as const satisfies ResourceView<Model>;

function modelDocument(model: Model) {
  const { id, name, owned_by, available, context_length, max_output_tokens, ...others } = modelJson(model);
  const { endpoints, capabilities, pricing } = others;
  const { images: _, ...prices } = { images: undefined, ...pricing };
  return { id, name, owned_by, available, context_length, max_output_tokens, endpoints, capabilities, pricing: prices };
}
