import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type {
  AccountRow,
  GroupRow,
  KeyFilter,
  KeyRow,
  KeyState,
  ManagementKeyRow,
  Tags,
  VoidedHoldRow,
} from '../ledger.ts';
import type { Plans, SubscriptionRow } from '../plans.ts';
import { toDay } from '../rules/calendar.ts';
import { fieldValue, type KeyLimitField } from '../rules/limit-commands.ts';
import { codes } from '../sqlite/codes.ts';
import { type Stored, toRow } from './to-row.ts';

/** A key as it is stored: without the fields that are computed, or stored in another form. */
type KeyRecord = Omit<
  KeyRow,
  ViewedField | 'allowedModels' | 'disabled' | 'revoked' | 'paused' | 'useSubsFirst' | 'fallbackToPayg' | 'tags'
> & {
  readonly tags: string;
  readonly state: KeyState;
  readonly paused: number;
  readonly allowedModels: string | null;
  readonly useSubsFirst: number;
  readonly fallbackToPayg: number;
};
/** The fields of a key that show limits which they have created. */
type ViewedField = 'minuteLimit' | 'dailyLimit' | 'monthlyLimit';
/** A limit that a field created, as `fieldValue` reads it. */
type FieldRecord = {
  readonly keyId: number;
  readonly field: KeyLimitField;
  readonly unit: 'usd' | 'requests';
  readonly max: bigint;
  readonly timeZone: string;
  readonly models: null;
  readonly endUsers: 'all' | 'each';
  readonly action: 'refuse' | 'alert';
};
type GroupRecord = Omit<GroupRow, 'tags'> & { readonly tags: string };
type ManagementKeyRecord = Omit<ManagementKeyRow, 'scopes' | 'disabled'> & {
  readonly scopes: string;
  readonly state: KeyState;
};
type SubscriptionRecord = Omit<SubscriptionRow, 'cancelled' | 'freeLeftToday'> & {
  readonly cancelled: number;
  readonly freeTaken: number;
};

const accountSelect =
  'SELECT id AS accountId, name, balance, held, created_at_ms AS createdAtMs, suspended, low_balance AS lowBalance, closed_at_ms AS closedAtMs FROM account';
const managementKeySelect =
  'SELECT id AS keyId, account_id AS accountId, masked, scopes, state, created_at_ms AS createdAtMs FROM management_key';
/** A charge counts on the day on which its request was admitted, which may be up to this many days ago. */
const settlingDays = 8;
const oldChargesMax = 1_000;
const minuteMs = 60_000;
/** Its parameters are the current day, and the time a minute ago. */
const keySelect = `SELECT id AS keyId, account_id AS accountId, masked, state, created_at_ms AS createdAtMs, label, allowed_models AS allowedModels,
    balance, held, use_subs_first AS useSubsFirst, fallback_to_payg AS fallbackToPayg, expires_at_ms AS expiresAtMs, group_id AS groupId, tags, metadata, low_balance AS lowBalance,
    keep_bodies AS keepBodies, paused,
    coalesce((SELECT spent FROM key_day WHERE key_id = k.id AND day = @day), 0) AS usageToday,
    (SELECT count(*) FROM usage WHERE key_id = k.id AND created_at_ms > @minute)
      + (SELECT count(*) FROM minute WHERE key_id = k.id) AS usageMinute,
    (SELECT last_used_at_ms FROM key_day WHERE key_id = k.id ORDER BY day DESC LIMIT 1) AS lastUsedAtMs
  FROM api_key k`;
/** The running and voided requests of the last minute. They are few, so they are read once for all keys. */
const minuteWith = `WITH minute (key_id) AS MATERIALIZED (
    SELECT key_id FROM hold WHERE account_id = @account AND admitted_at_ms > @minute
    UNION ALL SELECT key_id FROM voided WHERE account_id = @account AND admitted_at_ms > @minute)`;
const groupSelect = `SELECT id AS groupId, account_id AS accountId, name, parent_id AS parentId, tags, balance, held, created_at_ms AS createdAtMs,
    low_balance AS lowBalance FROM key_group WHERE removed = 0`;
const fieldSelect = `SELECT scope_id AS keyId, field, unit, max, time_zone AS timeZone, models, end_users AS endUsers, action FROM usage_limit
  WHERE removed = 0 AND scope = 'key' AND field IS NOT NULL`;

/** Reads accounts, their keys, groups and plans, and the voided holds. */
export class Accounts {
  readonly #plans: Plans;
  readonly #list: Query<[], Stored<AccountRow>>;
  readonly #one: Query<[number], Stored<AccountRow>>;
  readonly #keys: Query<
    [KeyValues & { label: string; revoked: number; limit: number; offset: number }],
    Stored<KeyRecord>
  >;
  readonly #key: Query<[KeyValues], Stored<KeyRecord>>;
  readonly #keyOwner: Query<[number], { account_id: bigint }>;
  readonly #fields: Query<[number], Stored<FieldRecord>>;
  readonly #keyFields: Query<[number], Stored<FieldRecord>>;
  readonly #groups: Query<[number], Stored<GroupRecord>>;
  readonly #group: Query<[number], Stored<GroupRecord>>;
  readonly #lastEntry: Query<[number], { entries: bigint }>;
  readonly #charges: Query<[number, number, number], { requests: bigint }>;
  /** The number of charges of each account before a day. It does not change any more. */
  readonly #oldCharges = new Map<number, { readonly day: number; readonly count: number }>();
  readonly #managementKeys: Query<[number], Stored<ManagementKeyRecord>>;
  readonly #managementKey: Query<[number], Stored<ManagementKeyRecord>>;
  readonly #subscription: Query<[number, number], Stored<SubscriptionRecord>>;
  readonly #held: Query<[number], unknown>;
  readonly #voided: Query<[number], Stored<VoidedHoldRow>>;
  readonly #ended: Query<[number, number, number], unknown>;

  constructor(db: Connection, plans: Plans) {
    this.#plans = plans;
    this.#list = db.prepare(`${accountSelect} ORDER BY id`);
    this.#one = db.prepare(`${accountSelect} WHERE id = ?`);
    this.#keys = db.prepare(
      `${minuteWith} ${keySelect} WHERE account_id = @account AND (state <> 'revoked' OR @revoked = 1) AND (@id = 0 OR group_id = @id)
         AND instr(lower(label), lower(@label)) > 0 ORDER BY id LIMIT @limit OFFSET @offset`,
    );
    this.#key = db.prepare(`${minuteWith} ${keySelect} WHERE id = @id`);
    this.#keyOwner = db.prepare('SELECT account_id FROM api_key WHERE id = ?');
    this.#fields = db.prepare(`${fieldSelect} AND account_id = ? ORDER BY id`);
    this.#keyFields = db.prepare(`${fieldSelect} AND scope_id = ? ORDER BY id`);
    this.#groups = db.prepare(`${groupSelect} AND account_id = ? ORDER BY id`);
    this.#group = db.prepare(`${groupSelect} AND id = ?`);
    this.#lastEntry = db.prepare('SELECT entries FROM account WHERE id = ?');
    this.#charges = db.prepare(
      `SELECT coalesce(sum(requests), 0) AS requests FROM usage_sum
       WHERE account_id = ? AND period = ${codes.period.indexOf('day')} AND grouped = ${codes.grouped.indexOf('kind')} AND number >= ? AND number < ?`,
    );
    this.#managementKeys = db.prepare(`${managementKeySelect} WHERE account_id = ? AND state <> 'revoked' ORDER BY id`);
    this.#managementKey = db.prepare(`${managementKeySelect} WHERE id = ?`);
    this.#subscription = db.prepare(
      `SELECT p.account_id AS accountId, s.plan, s.period, s.started_at_ms AS startedAtMs, p.start_ms AS periodStartMs,
         p.end_ms AS periodEndMs, s.state = 'cancelled' AS cancelled, p.tokens, p.used AS tokensUsed, p.held AS tokensHeld,
         coalesce((SELECT requests FROM plan_day WHERE account_id = p.account_id AND day = ?), 0) AS freeTaken
       FROM plan_period p JOIN subscription s ON s.account_id = p.account_id AND s.number = p.subscription
       WHERE p.account_id = ? AND p.live = 1`,
    );
    this.#held = db.prepare('SELECT 1 FROM hold WHERE id = ?');
    this.#voided = db.prepare(
      `SELECT v.id, v.account_id AS accountId, v.key_id AS keyId, m.name AS model, v.held AS heldNanoUsd,
         v.admitted_at_ms AS admittedAtMs, v.voided_at_ms AS voidedAtMs, v.reason
       FROM voided v JOIN model m ON m.id = v.model_id WHERE v.reason IN ('restarted', 'expired')
       ORDER BY v.voided_at_ms DESC, v.id DESC, v.number DESC LIMIT ?`,
    );
    this.#ended = db.prepare(
      `SELECT 1 FROM hold WHERE expires_at_ms <= ? UNION ALL SELECT 1 FROM plan_period WHERE live = 1 AND end_ms <= ?
       UNION ALL SELECT 1 FROM api_key WHERE expires_at_ms <= ? AND balance > held LIMIT 1`,
    );
  }

  list(): AccountRow[] {
    return this.#list.all().map(accountRow);
  }

  find(accountId: number): AccountRow | undefined {
    const record = this.#one.get(accountId);
    return record === undefined ? undefined : accountRow(record);
  }

  /** Returns the keys of an account that match the filter, oldest first. */
  keys({ accountId, ...filter }: KeyFilter & { readonly accountId: number }, nowMs: number): KeyRow[] {
    const { limit = Number.MAX_SAFE_INTEGER, offset = 0, label = '', groupId = 0, revoked = false } = filter;
    const fields = Map.groupBy(this.#fields.all(accountId).map(fieldRecord), ({ keyId }) => keyId);
    return this.#keys
      .all({ ...keyValues({ account: accountId, id: groupId }, nowMs), label, revoked: revoked ? 1 : 0, limit, offset })
      .map(record => keyRow(record, fields.get(Number(record.keyId)) ?? []));
  }

  /** Returns a key, even if it is revoked. */
  storedKey(keyId: number, nowMs: number): KeyRow | undefined {
    const record = this.#findKey(keyId, nowMs);
    return record && keyRow(record, this.#keyFields.all(keyId).map(fieldRecord));
  }

  /** Returns a key that is not revoked. `accountId`: only if the key belongs to this account; undefined: any account. */
  key(keyId: number, accountId: number | undefined, nowMs: number): KeyRow | undefined {
    const record = this.#findKey(keyId, nowMs);
    if (record === undefined || record.state === 'revoked') return undefined;
    const row = keyRow(record, this.#keyFields.all(keyId).map(fieldRecord));
    return accountId === undefined || row.accountId === accountId ? row : undefined;
  }

  #findKey(id: number, nowMs: number): Stored<KeyRecord> | undefined {
    const owner = this.#keyOwner.get(id);
    return owner && this.#key.get(keyValues({ account: Number(owner.account_id), id }, nowMs));
  }

  /** Returns an account's groups, by id. */
  groups(accountId: number): GroupRow[] {
    return this.#groups.all(accountId).map(groupRow);
  }

  /** Returns a group. `accountId`: only if the group belongs to this account; undefined: any account. */
  group(groupId: number, accountId: number | undefined): GroupRow | undefined {
    const record = this.#group.get(groupId);
    const row = record && groupRow(record);
    return accountId === undefined || row?.accountId === accountId ? row : undefined;
  }

  /** Returns the number of entries and charges of an account; undefined if there is no such account. */
  lastEntry(accountId: number, nowMs: number): number | undefined {
    const row = this.#lastEntry.get(accountId);
    if (row === undefined) return undefined;
    const count = (from: number, to: number): number => Number(this.#charges.get(accountId, from, to)?.requests ?? 0n);
    const day = toDay(nowMs) - settlingDays;
    let old = this.#oldCharges.get(accountId);
    if (old?.day !== day) {
      if (this.#oldCharges.size >= oldChargesMax) this.#oldCharges.clear();
      old = { day, count: count(0, day) };
      this.#oldCharges.set(accountId, old);
    }
    return Number(row.entries) + old.count + count(day, Number.MAX_SAFE_INTEGER);
  }

  /** Returns the management keys of an account that are not revoked, oldest first. */
  managementKeys(accountId: number): ManagementKeyRow[] {
    return this.#managementKeys.all(accountId).map(managementKeyRow);
  }

  /** Returns a management key, even if it is revoked. */
  managementKey(keyId: number): ManagementKeyRow | undefined {
    const record = this.#managementKey.get(keyId);
    return record === undefined ? undefined : managementKeyRow(record);
  }

  /** Returns the account's plan; undefined if it has none. */
  subscription(accountId: number, nowMs: number): SubscriptionRow | undefined {
    const record = this.#subscription.get(toDay(nowMs), accountId);
    if (record === undefined) return undefined;
    const { cancelled, freeTaken, ...row } = toRow<SubscriptionRecord>(record, []);
    const freeLeftToday = Math.max(0, this.#plans[row.plan].freeDailyRequests - freeTaken);
    return { ...row, cancelled: cancelled === 1, freeLeftToday };
  }

  /** Returns whether a request has a hold. */
  isHeld(id: number): boolean {
    return this.#held.get(id) !== undefined;
  }

  /** Returns the latest holds that were voided after a crash or because they expired, newest first. */
  voidedHolds(limit: number): VoidedHoldRow[] {
    return this.#voided.all(limit).map(record => toRow<VoidedHoldRow>(record, ['heldNanoUsd']));
  }

  /** Returns true if a hold, a key with a balance or a plan period is over and no command has ended it yet. */
  needsSweep(nowMs: number): boolean {
    return this.#ended.get(nowMs, nowMs, nowMs) !== undefined;
  }
}

function accountRow(record: Stored<AccountRow>): AccountRow {
  return toRow<AccountRow>(record, ['balance', 'held', 'lowBalance']);
}

function groupRow(record: Stored<GroupRecord>): GroupRow {
  const { tags, ...row } = toRow<GroupRecord>(record, ['balance', 'held', 'lowBalance']);
  return { ...row, tags: JSON.parse(tags) as Tags };
}

type KeyValues = { account: number; id: number; day: number; minute: number };

function keyValues(of: Pick<KeyValues, 'account' | 'id'>, nowMs: number): KeyValues {
  return { ...of, day: toDay(nowMs), minute: nowMs - minuteMs };
}

function fieldRecord(record: Stored<FieldRecord>): FieldRecord {
  return toRow<FieldRecord>(record, ['max']);
}

function keyRow(record: Stored<KeyRecord>, fields: readonly FieldRecord[]): KeyRow {
  const { state, ...row } = toRow<KeyRecord>(record, ['balance', 'held', 'usageToday', 'lowBalance']);
  const readValue = (field: KeyLimitField): bigint | null | undefined => {
    const made = fields.find(each => each.field === field);
    return made === undefined ? undefined : (fieldValue(made) ?? null);
  };
  const toNumber = (value: bigint | null | undefined): number | null => (value === null ? null : Number(value ?? 0n));
  return {
    ...row,
    allowedModels: row.allowedModels === null ? null : (JSON.parse(row.allowedModels) as string[]),
    lastUsedAtMs: row.lastUsedAtMs ?? undefined,
    useSubsFirst: row.useSubsFirst === 1,
    fallbackToPayg: row.fallbackToPayg === 1,
    disabled: state !== 'enabled',
    revoked: state === 'revoked',
    paused: row.paused === 1,
    tags: JSON.parse(row.tags) as Tags,
    minuteLimit: toNumber(readValue('minute_limit')),
    dailyLimit: toNumber(readValue('daily_limit')),
    monthlyLimit: readValue('monthly_limit') ?? undefined,
    expiresAtMs: row.expiresAtMs ?? undefined,
  };
}

function managementKeyRow(record: Stored<ManagementKeyRecord>): ManagementKeyRow {
  const { state, scopes, ...row } = toRow<ManagementKeyRecord>(record, []);
  return { ...row, scopes: JSON.parse(scopes) as string[], disabled: state !== 'enabled' };
}
