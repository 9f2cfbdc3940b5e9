import type {
  AccountRow,
  Credential,
  KeyRow,
  KeyState,
  ManagementKeyRow,
  Plans,
  SubscriptionRow,
  VoidedHoldRow,
} from '../ledger.ts';
import { dayOf, minuteMs } from './calendar.ts';
import type { Connection, Query } from './database.ts';
import type { DailyLimitUnit } from './funds.ts';
import { modelList } from './key-facts.ts';

interface CredentialRecord {
  id: bigint;
  account_id: bigint;
  state: KeyState;
  allowed_models: string | null;
  minute_limit: bigint;
  daily_limit: bigint;
}

interface ManagementKeyRecord {
  id: bigint;
  account_id: bigint;
  masked: string;
  scopes: string;
  state: KeyState;
  created_at_ms: bigint;
}

interface AccountRecord {
  id: bigint;
  name: string;
  balance: bigint;
  held: bigint;
  created_at_ms: bigint;
}

interface KeyRecord extends CredentialRecord {
  masked: string;
  label: string;
  monthly_limit: bigint | null;
  balance: bigint | null;
  use_subs_first: bigint;
  fallback_to_payg: bigint;
  created_at_ms: bigint;
  usage_today: bigint;
  usage_minute: bigint;
  last_used_at_ms: bigint | null;
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

type Moment = { today: number; after: number };

const minute = (table: string, at: string): string =>
  `(SELECT count(*) FROM ${table} WHERE key_id = k.id AND ${at} > @after)`;

const keySelect = `SELECT k.*,
    coalesce((SELECT spent FROM key_day WHERE key_id = k.id AND day = @today), 0) AS usage_today,
    ${minute('hold', 'admitted_at_ms')} + ${minute('usage', 'created_at_ms')} + ${minute('voided', 'admitted_at_ms')} AS usage_minute,
    (SELECT last_used_at_ms FROM key_day WHERE key_id = k.id ORDER BY day DESC LIMIT 1) AS last_used_at_ms
  FROM api_key k`;

/**
 * Reads on the calling thread, by a connection of its own that only reads: point reads of a few microseconds. Each sees all that was
 * acknowledged before it.
 */
export class Reader {
  readonly #unit: DailyLimitUnit;
  readonly #plans: Plans;
  readonly #credential: Query<[Uint8Array], CredentialRecord>;
  readonly #managementCredential: Query<[Uint8Array], ManagementKeyRecord>;
  readonly #accounts: Query<[], AccountRecord>;
  readonly #account: Query<[number], AccountRecord>;
  readonly #keysOf: Query<[Moment & { account: number }], KeyRecord>;
  readonly #key: Query<[Moment & { key: number }], KeyRecord>;
  readonly #managementKeysOf: Query<[number], ManagementKeyRecord>;
  readonly #managementKey: Query<[number], ManagementKeyRecord>;
  readonly #voided: Query<[number], VoidedRecord>;
  readonly #subscription: Query<[number, number], SubscriptionRecord>;
  readonly #ended: Query<[number, number], unknown>;
  readonly #lastId: Query<[], { value: bigint }>;

  constructor(db: Connection, unit: DailyLimitUnit, plans: Plans) {
    this.#unit = unit;
    this.#plans = plans;
    this.#credential = db.prepare(
      'SELECT id, account_id, state, allowed_models, minute_limit, daily_limit FROM api_key WHERE hash = ?',
    );
    this.#managementCredential = db.prepare('SELECT * FROM management_key WHERE hash = ?');
    this.#accounts = db.prepare('SELECT * FROM account ORDER BY id');
    this.#account = db.prepare('SELECT * FROM account WHERE id = ?');
    this.#keysOf = db.prepare(`${keySelect} WHERE k.account_id = @account AND k.state <> 'revoked' ORDER BY k.id`);
    this.#key = db.prepare(`${keySelect} WHERE k.id = @key`);
    this.#managementKeysOf = db.prepare(
      `SELECT * FROM management_key WHERE account_id = ? AND state <> 'revoked' ORDER BY id`,
    );
    this.#managementKey = db.prepare('SELECT * FROM management_key WHERE id = ?');
    this.#voided = db.prepare(
      `SELECT v.id, v.account_id, v.key_id, m.name AS model, v.held, v.admitted_at_ms, v.voided_at_ms, v.reason
         FROM voided v JOIN model m ON m.id = v.model_id WHERE v.reason IN ('restarted', 'expired')
         ORDER BY v.voided_at_ms DESC, v.number DESC LIMIT ?`,
    );
    this.#subscription = db.prepare(
      `SELECT s.plan, s.period, s.started_at_ms, s.state, p.start_ms, p.end_ms, p.tokens, p.used, p.held,
         coalesce((SELECT requests FROM plan_day WHERE account_id = p.account_id AND day = ?), 0) AS free_taken
       FROM plan_period p JOIN subscription s ON s.id = p.subscription_id WHERE p.account_id = ? AND p.live = 1`,
    );
    this.#ended = db.prepare(
      `SELECT 1 FROM hold WHERE expires_at_ms <= ? UNION ALL SELECT 1 FROM plan_period WHERE live = 1 AND end_ms <= ? LIMIT 1`,
    );
    this.#lastId = db.prepare("SELECT value FROM meta WHERE name = 'last_id'");
  }

  lastId(): number {
    return Number(this.#lastId.get()?.value ?? 0n);
  }

  credential(hash: Uint8Array): Credential | undefined {
    const key = this.#credential.get(hash);
    if (key !== undefined) return key.state === 'revoked' ? undefined : apiKeyCredential(key, this.#unit);
    const row = this.#managementCredential.get(hash);
    if (row === undefined || row.state === 'revoked') return undefined;
    const { keyId, accountId, disabled, scopes } = managementKeyRow(row);
    return { kind: 'management_key', keyId, accountId, disabled, scopes, allowedModels: null, hasWindow: false };
  }

  accounts(): AccountRow[] {
    return this.#accounts.all().map(accountRow);
  }

  account(accountId: number): AccountRow | undefined {
    const row = this.#account.get(accountId);
    return row === undefined ? undefined : accountRow(row);
  }

  /** An account's keys but the revoked ones, oldest first. */
  keysOf(accountId: number, nowMs: number): KeyRow[] {
    return this.#keysOf.all({ ...moment(nowMs), account: accountId }).map(keyRow);
  }

  /** A key; `revoked` too where it is asked for. */
  key(keyId: number, nowMs: number, revoked: boolean): KeyRow | undefined {
    const row = this.#key.get({ ...moment(nowMs), key: keyId });
    return row === undefined || (row.state === 'revoked' && !revoked) ? undefined : keyRow(row);
  }

  managementKeysOf(accountId: number): ManagementKeyRow[] {
    return this.#managementKeysOf.all(accountId).map(managementKeyRow);
  }

  managementKey(keyId: number): ManagementKeyRow | undefined {
    const row = this.#managementKey.get(keyId);
    return row === undefined ? undefined : managementKeyRow(row);
  }

  voidedHolds(limit: number): VoidedHoldRow[] {
    return this.#voided.all(limit).map(row => ({
      id: Number(row.id),
      accountId: Number(row.account_id),
      keyId: Number(row.key_id),
      model: row.model,
      heldNanoUsd: row.held,
      admittedAtMs: Number(row.admitted_at_ms),
      voidedAtMs: Number(row.voided_at_ms),
      reason: row.reason,
    }));
  }

  /** The account's plan; undefined: it has none. */
  subscription(accountId: number, nowMs: number): SubscriptionRow | undefined {
    const row = this.#subscription.get(dayOf(nowMs), accountId);
    if (row === undefined) return undefined;
    const { plan, period } = row;
    return {
      accountId,
      plan,
      period,
      startedAtMs: Number(row.started_at_ms),
      periodStartMs: Number(row.start_ms),
      periodEndMs: Number(row.end_ms),
      cancelled: row.state === 'cancelled',
      tokens: Number(row.tokens),
      tokensUsed: Number(row.used),
      tokensHeld: Number(row.held),
      freeLeftToday: Math.max(0, this.#plans[plan].freeDailyRequests - Number(row.free_taken)),
    };
  }

  /** Whether the time of a hold or of a plan's period is over, and no command has seen it yet. */
  hasEnded(nowMs: number): boolean {
    return this.#ended.get(nowMs, nowMs) !== undefined;
  }
}

function moment(nowMs: number): Moment {
  return { today: dayOf(nowMs), after: nowMs - minuteMs };
}

function apiKeyCredential(row: CredentialRecord, unit: DailyLimitUnit): Credential {
  return {
    kind: 'api_key',
    keyId: Number(row.id),
    accountId: Number(row.account_id),
    disabled: row.state === 'disabled',
    scopes: [],
    allowedModels: modelList(row.allowed_models),
    hasWindow: row.minute_limit > 0n || (unit === 'requests' && row.daily_limit > 0n),
  };
}

function accountRow(row: AccountRecord): AccountRow {
  const { name, balance, held } = row;
  return { accountId: Number(row.id), name, balance, held, createdAtMs: Number(row.created_at_ms) };
}

function keyRow(row: KeyRecord): KeyRow {
  return {
    keyId: Number(row.id),
    accountId: Number(row.account_id),
    masked: row.masked,
    createdAtMs: Number(row.created_at_ms),
    label: row.label,
    dailyLimit: Number(row.daily_limit),
    minuteLimit: Number(row.minute_limit),
    allowedModels: modelList(row.allowed_models),
    balance: row.balance,
    usageToday: row.usage_today,
    usageMinute: Number(row.usage_minute),
    lastUsedAtMs: row.last_used_at_ms === null ? undefined : Number(row.last_used_at_ms),
    useSubsFirst: row.use_subs_first === 1n,
    fallbackToPayg: row.fallback_to_payg === 1n,
    disabled: row.state !== 'enabled',
    monthlyLimit: row.monthly_limit ?? undefined,
  };
}

function managementKeyRow(row: ManagementKeyRecord): ManagementKeyRow {
  return {
    keyId: Number(row.id),
    accountId: Number(row.account_id),
    masked: row.masked,
    scopes: JSON.parse(row.scopes) as string[],
    disabled: row.state !== 'enabled',
    createdAtMs: Number(row.created_at_ms),
  };
}
