import type {
  Account,
  AccountDay,
  Applied,
  Counter,
  Entry,
  Hold,
  Key,
  KeyDay,
  ManagementKey,
  Minute,
  PlanPeriod,
  Request,
  Subscription,
  Usage,
  Voided,
} from '../rows.ts';
import type { Admissions } from '../rules/minutes.ts';
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
import { decodeAdmissions, encodeAdmissions } from './schema.ts';

/** The tables of the file, as rows of `src/ledger/rows.ts`. Texts of a few words are checked by the file where they are stored as such. */

const word = text as Codec<never>;
const admissions: Codec<Admissions> = {
  read: stored => decodeAdmissions(stored as Uint8Array),
  write: encodeAdmissions,
};

export const accountTable: TableSpec<Account> = {
  table: 'account',
  key: ['id'],
  fixed: ['name', 'createdAtMs'],
  columns: {
    id: ['id', int],
    name: ['name', text],
    balance: ['balance', money],
    held: ['held', money],
    createdAtMs: ['created_at_ms', int],
    period: ['period', orNull(int)],
    plans: ['plans', int],
    entries: ['entries', int],
  },
};

export const keyTable: TableSpec<Key> = {
  table: 'api_key',
  key: ['id'],
  fixed: ['accountId', 'hash', 'masked', 'createdAtMs'],
  columns: {
    id: ['id', int],
    accountId: ['account_id', int],
    hash: ['hash', bytes],
    masked: ['masked', text],
    createdAtMs: ['created_at_ms', int],
    state: ['state', word],
    label: ['label', text],
    dailyLimit: ['daily_limit', int],
    minuteLimit: ['minute_limit', int],
    monthlyLimit: ['monthly_limit', orNull(money)],
    allowedModels: ['allowed_models', orNull(list)],
    balance: ['balance', orNull(money)],
    held: ['held', money],
    useSubsFirst: ['use_subs_first', flag],
    fallbackToPayg: ['fallback_to_payg', flag],
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

/** Requests of an account by day. */
export function accountDayTable(table: 'free_day' | 'plan_day'): TableSpec<AccountDay> {
  const columns: Columns<AccountDay> = {
    accountId: ['account_id', int],
    day: ['day', int],
    requests: ['requests', int],
  };
  return { table, key: ['accountId', 'day'], columns };
}

export const keyMinuteTable: TableSpec<Minute> = {
  table: 'key_minute',
  key: ['id'],
  columns: { id: ['key_id', int], admissions: ['admissions', admissions] },
};

export const freeMinuteTable: TableSpec<Minute> = {
  table: 'free_minute',
  key: ['id'],
  columns: { id: ['account_id', int], admissions: ['admissions', admissions] },
};

const requestColumns: Columns<Request> = {
  id: ['id', int],
  request: ['request', part],
  accountId: ['account_id', int],
  keyId: ['key_id', int],
  modelId: ['model_id', int],
  free: ['free', flag],
  answers: ['answers', int],
  payer: ['payer', code(codes.payer)],
  payers: ['payers', code(codes.payers)],
  period: ['period', orNull(int)],
  discountPermille: ['discount_permille', int],
  admittedAtMs: ['admitted_at_ms', int],
  asked: ['asked', money],
  admitted: ['admitted', money],
  admittedTokens: ['admitted_tokens', orNull(int)],
  expiresAtMs: ['expires_at_ms', orNull(int)],
};

export const holdTable: TableSpec<Hold> = {
  table: 'hold',
  key: ['id'],
  fixed: Object.keys(requestColumns).filter(name => name !== 'id' && name !== 'expiresAtMs') as (keyof Request)[],
  columns: {
    ...requestColumns,
    held: ['held', money],
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
    answers: ['answers', int],
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
    amount: ['amount', money],
    usageId: ['usage_id', orNull(int)],
    period: ['period', orNull(int)],
    note: ['note', text],
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
