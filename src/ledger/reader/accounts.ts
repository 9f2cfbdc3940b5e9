import type {
  AccountRow,
  KeyRow,
  KeyState,
  ManagementKeyRow,
  Plans,
  SubscriptionRow,
  VoidedHoldRow,
} from '../ledger.ts';
import { dayOf, minuteMs } from '../rules/calendar.ts';
import type { Connection, Query } from '../../lib/sqlite/database.ts';

interface AccountRecord {
  id: bigint;
  name: string;
  balance: bigint;
  held: bigint;
  created_at_ms: bigint;
}

interface KeyRecord {
  id: bigint;
  account_id: bigint;
  masked: string;
  state: KeyState;
  label: string;
  daily_limit: bigint;
  minute_limit: bigint;
  monthly_limit: bigint | null;
  allowed_models: string | null;
  balance: bigint | null;
  use_subs_first: bigint;
  fallback_to_payg: bigint;
  created_at_ms: bigint;
  usage_today: bigint;
  usage_minute: bigint;
  last_used_at_ms: bigint | null;
}

interface ManagementKeyRecord {
  id: bigint;
  account_id: bigint;
  masked: string;
  scopes: string;
  state: KeyState;
  created_at_ms: bigint;
}

interface SubscriptionRecord {
  plan: SubscriptionRow['plan'];
  period: SubscriptionRow['period'];
  started_at_ms: bigint;
  state: 'active' | 'cancelled';
  start_ms: bigint;
  end_ms: bigint;
  tokens: bigint;
  used: bigint;
  held: bigint;
  free_taken: bigint;
}

interface VoidedRecord {
  id: bigint;
  account_id: bigint;
  key_id: bigint;
  model: string;
  held: bigint;
  admitted_at_ms: bigint;
  voided_at_ms: bigint;
  reason: VoidedHoldRow['reason'];
}

type Moment = { today: number; after: number };

const minuteCount = (table: string, at: string): string =>
  `(SELECT count(*) FROM ${table} WHERE key_id = k.id AND ${at} > @after)`;

const keySelect = `SELECT k.*,
    coalesce((SELECT spent FROM key_day WHERE key_id = k.id AND day = @today), 0) AS usage_today,
    ${minuteCount('hold', 'admitted_at_ms')} + ${minuteCount('usage', 'created_at_ms')}
      + ${minuteCount('voided', 'admitted_at_ms')} AS usage_minute,
    (SELECT last_used_at_ms FROM key_day WHERE key_id = k.id ORDER BY day DESC LIMIT 1) AS last_used_at_ms
  FROM api_key k`;

/** Reads accounts with their keys and plans, and the voided holds. */
export class Accounts {
  readonly #plans: Plans;
  readonly #list: Query<[], AccountRecord>;
  readonly #one: Query<[number], AccountRecord>;
  readonly #keys: Query<[Moment & { account: number }], KeyRecord>;
  readonly #key: Query<[Moment & { key: number }], KeyRecord>;
  readonly #managementKeys: Query<[number], ManagementKeyRecord>;
  readonly #managementKey: Query<[number], ManagementKeyRecord>;
  readonly #subscription: Query<[number, number], SubscriptionRecord>;
  readonly #voided: Query<[number], VoidedRecord>;
  readonly #ended: Query<[number, number], unknown>;

  constructor(db: Connection, plans: Plans) {
    this.#plans = plans;
    this.#list = db.prepare('SELECT * FROM account ORDER BY id');
    this.#one = db.prepare('SELECT * FROM account WHERE id = ?');
    this.#keys = db.prepare(`${keySelect} WHERE k.account_id = @account AND k.state <> 'revoked' ORDER BY k.id`);
    this.#key = db.prepare(`${keySelect} WHERE k.id = @key`);
    this.#managementKeys = db.prepare(
      `SELECT * FROM management_key WHERE account_id = ? AND state <> 'revoked' ORDER BY id`,
    );
    this.#managementKey = db.prepare('SELECT * FROM management_key WHERE id = ?');
    this.#subscription = db.prepare(
      `SELECT s.plan, s.period, s.started_at_ms, s.state, p.start_ms, p.end_ms, p.tokens, p.used, p.held,
         coalesce((SELECT requests FROM plan_day WHERE account_id = p.account_id AND day = ?), 0) AS free_taken
       FROM plan_period p JOIN subscription s ON s.id = p.subscription_id WHERE p.account_id = ? AND p.live = 1`,
    );
    this.#voided = db.prepare(
      `SELECT v.id, v.account_id, v.key_id, m.name AS model, v.held, v.admitted_at_ms, v.voided_at_ms, v.reason
         FROM voided v JOIN model m ON m.id = v.model_id WHERE v.reason IN ('restarted', 'expired')
         ORDER BY v.voided_at_ms DESC, v.number DESC LIMIT ?`,
    );
    this.#ended = db.prepare(
      `SELECT 1 FROM hold WHERE expires_at_ms <= ? UNION ALL SELECT 1 FROM plan_period WHERE live = 1 AND end_ms <= ? LIMIT 1`,
    );
  }

  list(): AccountRow[] {
    return this.#list.all().map(accountRow);
  }

  find(accountId: number): AccountRow | undefined {
    const record = this.#one.get(accountId);
    return record === undefined ? undefined : accountRow(record);
  }

  /** Returns an account's keys without the revoked ones, oldest first. */
  keys(accountId: number, nowMs: number): KeyRow[] {
    return this.#keys.all({ ...moment(nowMs), account: accountId }).map(keyRow);
  }

  /** Returns a key, also if it was revoked. */
  storedKey(keyId: number, nowMs: number): KeyRow | undefined {
    const record = this.#key.get({ ...moment(nowMs), key: keyId });
    return record === undefined ? undefined : keyRow(record);
  }

  /** Returns a key of the account (undefined: of any), unless it was revoked. */
  key(keyId: number, accountId: number | undefined, nowMs: number): KeyRow | undefined {
    const record = this.#key.get({ ...moment(nowMs), key: keyId });
    if (record === undefined || record.state === 'revoked') return undefined;
    const row = keyRow(record);
    return accountId === undefined || row.accountId === accountId ? row : undefined;
  }

  /** Returns an account's management keys without the revoked ones, oldest first. */
  managementKeys(accountId: number): ManagementKeyRow[] {
    return this.#managementKeys.all(accountId).map(managementKeyRow);
  }

  /** Returns a management key, also if it was revoked. */
  managementKey(keyId: number): ManagementKeyRow | undefined {
    const record = this.#managementKey.get(keyId);
    return record === undefined ? undefined : managementKeyRow(record);
  }

  /** Returns the account's plan; undefined if it has none. */
  subscription(accountId: number, nowMs: number): SubscriptionRow | undefined {
    const record = this.#subscription.get(dayOf(nowMs), accountId);
    if (record === undefined) return undefined;
    const { plan, period } = record;
    return {
      accountId,
      plan,
      period,
      startedAtMs: Number(record.started_at_ms),
      periodStartMs: Number(record.start_ms),
      periodEndMs: Number(record.end_ms),
      cancelled: record.state === 'cancelled',
      tokens: Number(record.tokens),
      tokensUsed: Number(record.used),
      tokensHeld: Number(record.held),
      freeLeftToday: Math.max(0, this.#plans[plan].freeDailyRequests - Number(record.free_taken)),
    };
  }

  /** Returns the latest holds that were given back after a crash or expired, newest first. */
  voidedHolds(limit: number): VoidedHoldRow[] {
    return this.#voided.all(limit).map(record => ({
      id: Number(record.id),
      accountId: Number(record.account_id),
      keyId: Number(record.key_id),
      model: record.model,
      heldNanoUsd: record.held,
      admittedAtMs: Number(record.admitted_at_ms),
      voidedAtMs: Number(record.voided_at_ms),
      reason: record.reason,
    }));
  }

  /** Returns whether a hold or a plan's period has ended by its time and no command has ended it yet. */
  needsSweep(nowMs: number): boolean {
    return this.#ended.get(nowMs, nowMs) !== undefined;
  }
}

function moment(nowMs: number): Moment {
  return { today: dayOf(nowMs), after: nowMs - minuteMs };
}

function accountRow(record: AccountRecord): AccountRow {
  const { name, balance, held } = record;
  return { accountId: Number(record.id), name, balance, held, createdAtMs: Number(record.created_at_ms) };
}

function keyRow(record: KeyRecord): KeyRow {
  return {
    keyId: Number(record.id),
    accountId: Number(record.account_id),
    masked: record.masked,
    createdAtMs: Number(record.created_at_ms),
    label: record.label,
    dailyLimit: Number(record.daily_limit),
    minuteLimit: Number(record.minute_limit),
    allowedModels: record.allowed_models === null ? null : (JSON.parse(record.allowed_models) as string[]),
    balance: record.balance,
    usageToday: record.usage_today,
    usageMinute: Number(record.usage_minute),
    lastUsedAtMs: record.last_used_at_ms === null ? undefined : Number(record.last_used_at_ms),
    useSubsFirst: record.use_subs_first === 1n,
    fallbackToPayg: record.fallback_to_payg === 1n,
    disabled: record.state !== 'enabled',
    monthlyLimit: record.monthly_limit ?? undefined,
  };
}

function managementKeyRow(record: ManagementKeyRecord): ManagementKeyRow {
  return {
    keyId: Number(record.id),
    accountId: Number(record.account_id),
    masked: record.masked,
    scopes: JSON.parse(record.scopes) as string[],
    disabled: record.state !== 'enabled',
    createdAtMs: Number(record.created_at_ms),
  };
}
