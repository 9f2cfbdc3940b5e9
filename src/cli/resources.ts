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
import { isoTime, systemClock } from '../lib/clock.ts';
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
  /** Returns what the text of a single object shows. Absent if that is the document. */
  readonly text?: (resource: T) => Document;
  /** Returns why the command ends with 1 after it has printed the object; undefined: it does not. */
  readonly failure?: (resource: T) => string | undefined;
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
  row: account => {
    const suspension = suspensions[account.suspension] === undefined ? 'works' : 'suspended';
    return { ...accountView.document(account), state: account.closedAtMs === undefined ? suspension : 'closed' };
  },
  columns: ['account_id', 'name', 'state', 'balance', 'held', 'created_at'],
};

/** Shows an API key. */
export const apiKeyView: ResourceView<ApiKey> = {
  document: key => {
    const { api_key_id, ...others } = apiKeyJson(key);
    return { api_key_id, account_id: Number(key.accountId), ...others, state: readKeyState(key) };
  },
  columns: [],
};

/** Returns whether a key works, and if not, the strongest reason. */
export function readKeyState({ revoked, disabled, paused, expiresAtMs }: ApiKey): string {
  if (revoked) return 'revoked';
  if (expiresAtMs !== undefined && expiresAtMs <= BigInt(systemClock.now())) return 'expired';
  if (disabled) return 'disabled';
  return paused ? 'paused' : 'works';
}

/** Shows a limit. */
export const limitView: ResourceView<Limit> = {
  document: limit => {
    const { limit_id, ...others } = limitJson(limit);
    return { limit_id, account_id: Number(limit.accountId), ...others };
  },
  columns: [],
};

/** A limit with the name of what it limits. */
export interface ListedLimit {
  readonly limit: Limit;
  readonly name: string;
}

/** Shows limits in a table. */
export const listedLimitView: ResourceView<ListedLimit> = {
  document: ({ limit, name }) => ({ ...limitView.document(limit), name }),
  columns: [
    'limit_id',
    'scope',
    'name',
    'action',
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
  row: ({ limit, name }) => {
    const { scope, ...others } = limitJson(limit);
    return { ...others, scope: scope.type, name: name === '' ? `${scope.type} ${scope.id}` : name };
  },
};

/** Shows a group. */
export const groupView: ResourceView<Group> = {
  document: group => {
    const { group_id, ...others } = groupJson(group);
    return { group_id, account_id: Number(group.accountId), ...others };
  },
  columns: [],
};

/** Shows groups in a table, with the names of their parents. */
export const listedGroupView: ResourceView<{ readonly group: Group; readonly parent: string | undefined }> = {
  document: ({ group }) => groupView.document(group),
  row: ({ group, parent }) => ({ ...groupView.document(group), parent }),
  columns: ['group_id', 'name', 'parent', 'balance', 'tags', 'created_at'],
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
  row: key => ({ ...managementKeyView.document(key), state: key.disabled ? 'disabled' : 'works' }),
  columns: ['management_key_id', 'key', 'state', 'scopes', 'created_at'],
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
