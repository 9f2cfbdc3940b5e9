import type {
  Account,
  AccountDay,
  Applied,
  AuditChain,
  Counter,
  Delivery,
  Entry,
  EventMark,
  Group,
  Hold,
  Key,
  KeyDay,
  Limit,
  LimitUse,
  ManagementKey,
  OldSecret,
  PlanPeriod,
  Request,
  Session,
  Subscription,
  Usage,
  Voided,
  Webhook,
  WebhookEvent,
} from '../rows.ts';
import type { AuditRow, Tags } from '../ledger.ts';
import type { Rolling } from '../rules/rolling.ts';
import { readToolCharges, writeToolCharges } from '../tool-charges.ts';
import { readUnpriced, writeUnpriced } from '../unpriced.ts';
import { codes } from './codes.ts';
import {
  bytes,
  code,
  type Codec,
  type Columns,
  flag,
  int,
  list,
  money,
  orNull,
  part,
  type TableSpec,
  text,
} from './columns.ts';
import { listHold, listUsage } from './row-values.ts';
import { decodeRolling, encodeRolling } from './schema.ts';

/** Maps the tables of the file to the rows of `src/ledger/rows.ts`. The schema checks columns that have a fixed set of words. */

const word = text as Codec<never>;
const rolling: Codec<Rolling> = {
  read: stored => decodeRolling(stored as Uint8Array),
  write: encodeRolling,
};
/** A list of ids with a comma before and after each, so that LIKE finds one; NULL for an empty list. */
const ids: Codec<readonly number[]> = {
  read: stored => (stored === null ? noIds : String(stored).slice(1, -1).split(',').map(Number)),
  write: value => (value.length === 0 ? null : `,${value.join(',')},`),
};
const noIds: readonly number[] = [];
const tags: Codec<Tags> = {
  read: stored => JSON.parse(stored as string) as Tags,
  write: value => JSON.stringify(value),
};

export const accountTable: TableSpec<Account> = {
  table: 'account',
  key: ['id'],
  fixed: ['createdAtMs'],
  columns: {
    id: ['id', int],
    name: ['name', text],
    balance: ['balance', money],
    held: ['held', money],
    running: ['running', int],
    createdAtMs: ['created_at_ms', int],
    period: ['period', orNull(int)],
    plans: ['plans', int],
    entries: ['entries', int],
    suspended: ['suspended', orNull(word)],
    writtenOff: ['written_off', money],
    lowBalance: ['low_balance', orNull(money)],
    closedAtMs: ['closed_at_ms', orNull(int)],
  },
};

export const keyTable: TableSpec<Key> = {
  table: 'api_key',
  key: ['id'],
  fixed: ['accountId', 'createdAtMs'],
  columns: {
    id: ['id', int],
    accountId: ['account_id', int],
    hash: ['hash', bytes],
    masked: ['masked', text],
    createdAtMs: ['created_at_ms', int],
    state: ['state', word],
    label: ['label', text],
    allowedModels: ['allowed_models', orNull(list)],
    balance: ['balance', orNull(money)],
    held: ['held', money],
    running: ['running', int],
    useSubsFirst: ['use_subs_first', flag],
    fallbackToPayg: ['fallback_to_payg', flag],
    expiresAtMs: ['expires_at_ms', orNull(int)],
    groupId: ['group_id', orNull(int)],
    tags: ['tags', tags],
    metadata: ['metadata', text],
    lowBalance: ['low_balance', orNull(money)],
    keepBodies: ['keep_bodies', orNull(word)],
    paused: ['paused', flag],
  },
};

export const groupTable: TableSpec<Group> = {
  table: 'key_group',
  key: ['id'],
  fixed: ['accountId', 'createdAtMs'],
  columns: {
    id: ['id', int],
    accountId: ['account_id', int],
    name: ['name', text],
    parentId: ['parent_id', orNull(int)],
    tags: ['tags', tags],
    balance: ['balance', orNull(money)],
    held: ['held', money],
    running: ['running', int],
    spent: ['spent', money],
    removed: ['removed', flag],
    createdAtMs: ['created_at_ms', int],
    lowBalance: ['low_balance', orNull(money)],
  },
};

export const secretTable: TableSpec<OldSecret> = {
  table: 'old_secret',
  key: ['keyId'],
  columns: {
    hash: ['hash', bytes],
    keyId: ['key_id', int],
    endsAtMs: ['ends_at_ms', int],
  },
};

export const managementKeyTable: TableSpec<ManagementKey> = {
  table: 'management_key',
  key: ['id'],
  fixed: ['accountId', 'hash', 'masked', 'createdAtMs'],
  columns: {
    id: ['id', int],
    accountId: ['account_id', int],
    hash: ['hash', bytes],
    masked: ['masked', text],
    createdAtMs: ['created_at_ms', int],
    state: ['state', word],
    scopes: ['scopes', list],
  },
};

export const sessionTable: TableSpec<Session> = {
  table: 'session',
  key: ['id'],
  fixed: ['hash', 'role', 'accountId', 'keyHash', 'subject', 'createdAtMs'],
  columns: {
    id: ['id', int],
    hash: ['hash', bytes],
    role: ['role', word],
    accountId: ['account_id', orNull(int)],
    keyHash: ['key_hash', orNull(bytes)],
    subject: ['subject', text],
    createdAtMs: ['created_at_ms', int],
    endsAtMs: ['ends_at_ms', int],
  },
};

export const keyDayTable: TableSpec<KeyDay> = {
  table: 'key_day',
  key: ['keyId', 'day'],
  columns: {
    keyId: ['key_id', int],
    day: ['day', int],
    requests: ['requests', int],
    spent: ['spent', money],
    spentOwn: ['spent_own', money],
    held: ['held', money],
    lastUsedAtMs: ['last_used_at_ms', int],
  },
};

export const planDayTable: TableSpec<AccountDay> = {
  table: 'plan_day',
  key: ['accountId', 'day'],
  columns: {
    accountId: ['account_id', int],
    day: ['day', int],
    requests: ['requests', int],
  },
};

export const limitTable: TableSpec<Limit> = {
  table: 'usage_limit',
  key: ['id'],
  fixed: ['accountId', 'scope', 'scopeId', 'createdAtMs'],
  columns: {
    id: ['id', int],
    accountId: ['account_id', int],
    scope: ['scope', word],
    scopeId: ['scope_id', int],
    unit: ['unit', word],
    per: ['per', orNull(word)],
    timeZone: ['time_zone', text],
    max: ['max', money],
    models: ['models', orNull(list)],
    endUsers: ['end_users', word],
    action: ['action', word],
    raisedMax: ['raised_max', orNull(money)],
    raisedUntilMs: ['raised_until_ms', orNull(int)],
    locked: ['locked', flag],
    field: ['field', orNull(word)],
    removed: ['removed', flag],
    createdAtMs: ['created_at_ms', int],
  },
};

export const limitUseTable: TableSpec<LimitUse> = {
  table: 'limit_use',
  key: ['limitId', 'number', 'endUser'],
  columns: {
    limitId: ['limit_id', int],
    number: ['number', int],
    endUser: ['end_user', int],
    used: ['used', money],
    held: ['held', money],
    rolling: ['rolling', orNull(rolling)],
  },
};

const requestColumns: Columns<Request> = {
  id: ['id', int],
  request: ['request', part],
  accountId: ['account_id', int],
  keyId: ['key_id', int],
  modelId: ['model_id', int],
  free: ['free', flag],
  text: ['text', flag],
  requests: ['requests', int],
  endUserId: ['end_user_id', orNull(int)],
  groups: ['groups', ids],
  tagsId: ['tags_id', orNull(int)],
  endpointId: ['endpoint_id', int],
  batchId: ['batch_id', orNull(int)],
  payer: ['payer', code(codes.payer)],
  payerGroup: ['payer_group', orNull(int)],
  payers: ['payers', code(codes.payers)],
  period: ['period', orNull(int)],
  discountPermille: ['discount_permille', int],
  admittedAtMs: ['admitted_at_ms', int],
  // The column keeps its first name, because renaming it would be a migration.
  requested: ['asked', money],
  admitted: ['admitted', money],
  admittedTokens: ['admitted_tokens', orNull(int)],
  expiresAtMs: ['expires_at_ms', orNull(int)],
};

export const holdTable: TableSpec<Hold> = {
  table: 'hold',
  key: ['id'],
  listValues: listHold,
  guarded: true,
  fixed: [
    ...(Object.keys(requestColumns).filter(name => name !== 'id' && name !== 'expiresAtMs') as (keyof Request)[]),
    'inputTokens',
  ],
  columns: {
    ...requestColumns,
    held: ['held', money],
    inputTokens: ['input_tokens', int],
    tokens: ['tokens', orNull(int)],
    outputPicoUsd: ['output_pico', money],
    planHeld: ['plan_held', int],
    planOutput: ['plan_output', int],
    firstSpent: ['first_spent', flag],
    extension: ['extension', orNull(int)],
    extendedTokens: ['extended_tokens', orNull(int)],
  },
};

export const usageTable: TableSpec<Usage> = {
  table: 'usage',
  key: ['id'],
  listValues: listUsage,
  columns: {
    ...requestColumns,
    admittedAtMs: ['created_at_ms', int],
    state: ['state', code(codes.state)],
    usageSource: ['usage_source', code(codes.usageSource)],
    serviceTier: ['service_tier', code(codes.serviceTier)],
    input: ['input', int],
    cacheRead: ['cache_read', int],
    cacheWrite5m: ['cache_write_5m', int],
    cacheWrite1h: ['cache_write_1h', int],
    output: ['output', int],
    reasoning: ['reasoning', int],
    images: ['images', int],
    cost: ['cost', money],
    writtenOff: ['written_off', money],
    priceId: ['price_id', orNull(int)],
    multiplierPermille: ['multiplier_permille', int],
    planTokens: ['plan_tokens', int],
    latencyMs: ['latency_ms', int],
    firstEventMs: ['first_event_ms', orNull(int)],
    providerId: ['provider_id', int],
    attempts: ['attempts', int],
    providerCost: ['provider_cost', orNull(money)],
    timeline: ['course', orNull(text)],
    tools: ['tools', { read: stored => readToolCharges(stored as string | null), write: writeToolCharges }],
    tierName: ['tier_name', orNull(text)],
    unpriced: ['unpriced', { read: stored => readUnpriced(stored as string | null), write: writeUnpriced }],
  },
};

export const voidedTable: TableSpec<Voided> = {
  table: 'voided',
  key: ['id', 'number'],
  columns: {
    id: ['id', int],
    number: ['number', int],
    accountId: ['account_id', int],
    keyId: ['key_id', int],
    modelId: ['model_id', int],
    free: ['free', flag],
    requests: ['requests', int],
    endUserId: ['end_user_id', orNull(int)],
    groups: ['groups', ids],
    admittedAtMs: ['admitted_at_ms', int],
    held: ['held', money],
    voidedAtMs: ['voided_at_ms', int],
    reason: ['reason', word],
  },
};

export const entryTable: TableSpec<Entry> = {
  table: 'entry',
  key: ['accountId', 'number'],
  columns: {
    accountId: ['account_id', int],
    number: ['number', int],
    kind: ['kind', word],
    keyId: ['key_id', orNull(int)],
    groupId: ['group_id', orNull(int)],
    amount: ['amount', money],
    balanceAfter: ['balance_after', money],
    writtenOff: ['written_off', money],
    usageId: ['usage_id', orNull(int)],
    period: ['period', orNull(int)],
    note: ['note', text],
    atMs: ['at_ms', int],
    reference: ['reference', orNull(text)],
  },
};

export const auditTable: TableSpec<AuditRow> = {
  table: 'audit',
  key: ['accountId', 'auditId'],
  columns: {
    accountId: ['account_id', int],
    auditId: ['audit_id', int],
    createdAtMs: ['created_at_ms', int],
    actorType: ['actor_type', text],
    actorId: ['actor_id', orNull(text)],
    action: ['action', text],
    resourceType: ['resource_type', text],
    resourceId: ['resource_id', orNull(text)],
    before: ['before', orNull(text)],
    after: ['after', orNull(text)],
    address: ['address', orNull(text)],
    requestId: ['request_id', orNull(text)],
    previousHash: ['previous_hash', text],
    hash: ['hash', text],
  },
};

export const auditChainTable: TableSpec<AuditChain> = {
  table: 'audit_chain',
  key: ['accountId'],
  columns: {
    accountId: ['account_id', int],
    startNumber: ['start_number', int],
    startHash: ['start_hash', text],
    number: ['number', int],
    hash: ['hash', text],
  },
};

export const webhookTable: TableSpec<Webhook> = {
  table: 'webhook',
  key: ['id'],
  fixed: ['accountId', 'secret', 'createdAtMs'],
  columns: {
    id: ['id', int],
    accountId: ['account_id', int],
    url: ['url', text],
    events: ['events', list as Codec<Webhook['events']>],
    secret: ['secret', text],
    disabled: ['disabled', flag],
    removed: ['removed', flag],
    createdAtMs: ['created_at_ms', int],
  },
};

export const eventTable: TableSpec<WebhookEvent> = {
  table: 'event',
  key: ['id'],
  columns: {
    id: ['id', int],
    accountId: ['account_id', int],
    type: ['type', word],
    scope: ['scope', text],
    data: ['data', text],
    atMs: ['at_ms', int],
  },
};

export const deliveryTable: TableSpec<Delivery> = {
  table: 'delivery',
  key: ['eventId', 'webhookId'],
  fixed: ['scope'],
  columns: {
    eventId: ['event_id', int],
    webhookId: ['webhook_id', int],
    scope: ['scope', text],
    state: ['state', word],
    attempts: ['attempts', int],
    nextAtMs: ['next_at_ms', int],
    untilMs: ['until_ms', int],
    status: ['status', orNull(int)],
    error: ['error', orNull(text)],
    endedAtMs: ['ended_at_ms', orNull(int)],
  },
};

export const eventMarkTable: TableSpec<EventMark> = {
  table: 'event_mark',
  key: ['name'],
  columns: {
    name: ['name', text],
    number: ['number', int],
    atMs: ['at_ms', int],
  },
};

export const subscriptionTable: TableSpec<Subscription> = {
  table: 'subscription',
  key: ['accountId', 'number'],
  columns: {
    accountId: ['account_id', int],
    number: ['number', int],
    plan: ['plan', word],
    period: ['period', word],
    startedAtMs: ['started_at_ms', int],
    state: ['state', word],
  },
};

export const periodTable: TableSpec<PlanPeriod> = {
  table: 'plan_period',
  key: ['accountId', 'number'],
  columns: {
    accountId: ['account_id', int],
    number: ['number', int],
    subscription: ['subscription', int],
    plan: ['plan', word],
    nth: ['nth', int],
    startMs: ['start_ms', int],
    endMs: ['end_ms', int],
    price: ['price', money],
    tokens: ['tokens', int],
    used: ['used', int],
    held: ['held', int],
    live: ['live', flag],
  },
};

export const counterTable: TableSpec<Counter> = {
  table: 'meta',
  key: ['name'],
  columns: { name: ['name', word], value: ['value', int] },
};

export const appliedTable: TableSpec<Applied> = {
  table: 'applied',
  key: ['id'],
  columns: { id: ['id', text], reply: ['reply', text] },
};
