import type { ToolCharge } from '../generation/price.ts';
import type {
  KeepBodies,
  KeyState,
  LimitAction,
  LimitField,
  LimitScope,
  LimitUnit,
  LimitWindow,
  RecordState,
  SettleCommand,
  Tags,
  Suspension,
  UsageBuckets,
  VoidReason,
} from './ledger.ts';
import type { PlanName, PlanPeriodName } from './plans.ts';
import type { AuditRow, EntryKind } from './history.ts';
import type { DeliveryState, EventType } from './webhooks.ts';
import type { JointLimits } from './rules/joint-limits.ts';
import type { Rolling } from './rules/rolling.ts';
import type { NewSession } from './sessions.ts';

/**
 * The rows that rules read and write. A row is never changed, only replaced. Ids of accounts, keys, entries and so on come from counters in
 * rows, never from the database. Money is in nano-dollars, times are in ms since 1970 UTC, days and hours are counted from 1970 UTC.
 */

/** The balance that pays: the key's own if it has one (0 included), else the nearest group's that has one, else the account's. */
export type Payer = 'account' | 'key_balance' | 'group_balance';

/**
 * Who pays, first payer first. `plan`: the plan alone; `money`: money alone; `free_request`: one of the plan's free daily requests, which
 * takes neither money nor the plan's tokens.
 */
export type Payers = 'money' | 'plan' | 'plan_money' | 'money_plan' | 'free_request';

export interface Account {
  readonly id: number;
  readonly name: string;
  readonly balance: bigint;
  /** The part of the balance that the account's live holds need. */
  readonly held: bigint;
  /** The number of live holds that the account's balance pays or may pay, except those that cost nothing. */
  readonly running: number;
  readonly createdAtMs: number;
  /** The number of the plan's live period; null: the account has no plan. */
  readonly period: number | null;
  /** The highest number of its subscriptions and periods, which are numbered together. */
  readonly plans: number;
  /** The highest number of its entries. */
  readonly entries: number;
  /** Why the account is suspended; null: it is not suspended. */
  readonly suspended: Suspension | null;
  /** The amount that was written off since the account was created or resumed. */
  readonly writtenOff: bigint;
  /** The balance below which an event is sent; null: no event. */
  readonly lowBalance: bigint | null;
  /** null: the account is open. */
  readonly closedAtMs: number | null;
}

export interface Key {
  readonly id: number;
  readonly accountId: number;
  readonly hash: Uint8Array;
  readonly masked: string;
  readonly createdAtMs: number;
  readonly state: KeyState;
  readonly label: string;
  /** null allows all. */
  readonly allowedModels: readonly string[] | null;
  /** The key's own balance; null: it spends from its group or account. */
  readonly balance: bigint | null;
  readonly held: bigint;
  /** Like `Account.running`, for the key's own balance. */
  readonly running: number;
  /** True if the plan pays before money, false if money pays first. */
  readonly useSubsFirst: boolean;
  /** True if money may pay at all. */
  readonly fallbackToPayg: boolean;
  /** null: never. */
  readonly expiresAtMs: number | null;
  /** null: directly under the account. */
  readonly groupId: number | null;
  readonly tags: Tags;
  /** The owner's own JSON. */
  readonly metadata: string;
  /** Like `Account.lowBalance`. */
  readonly lowBalance: bigint | null;
  /** Which bodies of its requests are stored; null: the configuration decides. */
  readonly keepBodies: KeepBodies | null;
  /** Set by the account: requests of a paused key are refused. */
  readonly paused: boolean;
}

/** Keys and groups that share limits, and possibly a balance. */
export interface Group {
  readonly id: number;
  readonly accountId: number;
  readonly name: string;
  /** null: directly under the account. */
  readonly parentId: number | null;
  readonly tags: Tags;
  /** null: the nearest group above that has a balance pays, else the account. */
  readonly balance: bigint | null;
  readonly held: bigint;
  /** Like `Account.running`, for the group's balance. */
  readonly running: number;
  /** The sum of the charges that its balance paid. */
  readonly spent: bigint;
  readonly removed: boolean;
  readonly createdAtMs: number;
  /** Like `Account.lowBalance`. */
  readonly lowBalance: bigint | null;
}

/** A secret that a key had before a rotation. It is valid until `endsAtMs`. */
export interface OldSecret {
  readonly hash: Uint8Array;
  readonly keyId: number;
  readonly endsAtMs: number;
}

export interface Session extends NewSession {
  readonly id: number;
  readonly createdAtMs: number;
}

export interface ManagementKey {
  readonly id: number;
  readonly accountId: number;
  readonly hash: Uint8Array;
  readonly masked: string;
  readonly createdAtMs: number;
  readonly state: KeyState;
  readonly scopes: readonly string[];
}

/** Sums over a key's requests that were admitted on a UTC day. `spentOwn`: the part of `spent` that the key's own balance paid. */
export interface KeyDay {
  readonly keyId: number;
  readonly day: number;
  readonly requests: number;
  readonly spent: bigint;
  readonly spentOwn: bigint;
  readonly held: bigint;
  readonly lastUsedAtMs: number;
}

/** How many of a plan's free daily requests an account has used on a UTC day. */
export interface AccountDay {
  readonly accountId: number;
  readonly day: number;
  readonly requests: number;
}

/** A limit: the most of a unit that an account, group or key may use in a window. */
export interface Limit {
  readonly id: number;
  readonly accountId: number;
  readonly scope: LimitScope;
  /** The id of the key, the group or the account. */
  readonly scopeId: number;
  readonly unit: LimitUnit;
  /** null only for `concurrent`. */
  readonly per: LimitWindow | null;
  /** An IANA time zone name. */
  readonly timeZone: string;
  /** In nano-dollars for `usd`, else a count. */
  readonly max: bigint;
  /** Listed ids, and patterns with `*`; null: all models. */
  readonly models: readonly string[] | null;
  /** `each`: the limit applies to every end user separately. */
  readonly endUsers: 'all' | 'each';
  readonly action: LimitAction;
  /** Replaces `max` until `raisedUntilMs`; both are null if the limit was not raised. */
  readonly raisedMax: bigint | null;
  readonly raisedUntilMs: number | null;
  /** True if only the operator may change the limit. */
  readonly locked: boolean;
  /** The maker of the limit, if no limit command made it; else null. */
  readonly field: LimitField | null;
  readonly removed: boolean;
  readonly createdAtMs: number;
}

/**
 * The used and held amounts of a limit in one of its windows: the sums over its requests, stored so that they need not be added up each
 * time. Every window that was ever read has a row with `endUser` 0.
 */
export interface LimitUse {
  readonly limitId: number;
  /** The window's number. */
  readonly number: number;
  /** 0: all end users together, or, if the limit applies to each end user, the requests that name none. */
  readonly endUser: number;
  readonly used: bigint;
  readonly held: bigint;
  /** Replaces the sums for a rolling minute; null for other windows. */
  readonly rolling: Rolling | null;
}

/** The amounts that a request, or several requests of one model and one end user, add to limits. */
export interface Tally {
  readonly modelId: number;
  readonly endUserId: number | null;
  /** When they were admitted; 0 unless `TallySpan.byTime` is set. */
  readonly admittedAtMs: number;
  readonly requests: bigint;
  readonly spent: bigint;
  readonly held: bigint;
  readonly tokens: bigint;
  readonly tokensHeld: bigint;
  readonly running: bigint;
}

/** Selects the requests to add up: those of a scope that were admitted from `startMs` on and before `endMs`. */
export interface TallySpan extends Pick<Limit, 'accountId' | 'scope' | 'scopeId'> {
  readonly startMs: number;
  readonly endMs: number;
  /** True to add up running requests only. */
  readonly live: boolean;
  /** True to add up the requests of each millisecond separately. */
  readonly byTime: boolean;
}

/** The common fields of a hold and of the record that it becomes. */
export interface Request {
  readonly id: number;
  /** The random part of the public id: see `requestPart`. */
  readonly request: bigint | string;
  readonly accountId: number;
  readonly keyId: number;
  readonly modelId: number;
  readonly free: boolean;
  /** True for a text request: its tokens count for token limits. */
  readonly text: boolean;
  /** How many requests it counts as for limits. */
  readonly requests: number;
  readonly endUserId: number | null;
  /** The key's group when it was admitted, and the groups above it, nearest first. */
  readonly groups: readonly number[];
  /** The set of its tags; null: it has none. */
  readonly tagsId: number | null;
  /** The public path that it was sent to. */
  readonly endpointId: number;
  /** The batch that it belongs to; null: none. */
  readonly batchId: number | null;
  /** Whose balance pays, if money pays. */
  readonly payer: Payer;
  /** The group that pays; null if no group pays. */
  readonly payerGroup: number | null;
  readonly payers: Payers;
  /** The plan period whose tokens pay; null if no plan pays. */
  readonly period: number | null;
  readonly discountPermille: number;
  readonly admittedAtMs: number;
  /** The requested amount, as one number: a repeated admission must have the same. */
  readonly requested: bigint;
  readonly admitted: bigint;
  /** Output tokens that were granted at admission; null: the request costs nothing. */
  readonly admittedTokens: number | null;
  /** When the hold expires; null: a request of the gateway, whose hold does not expire. */
  readonly expiresAtMs: number | null;
}

/**
 * A request that was admitted and has not ended. It is included in the held amounts of its payer and its key's day (`held`) and of its plan
 * period (`planHeld`), and, if a free request pays, in the account's day; in nothing else.
 */
export interface Hold extends Request {
  readonly held: bigint;
  /** Estimated input tokens. */
  readonly inputTokens: number;
  /** The output tokens that are held, over all payers; null: the request costs nothing. */
  readonly tokens: number | null;
  readonly outputPicoUsd: bigint;
  /** The plan's tokens that are held, and how many of them are for output. */
  readonly planHeld: number;
  readonly planOutput: number;
  /** True if the first payer could not pay for the whole input, so that only the second pays for the rest. */
  readonly firstSpent: boolean;
  /** The last command that extended the hold, and the tokens that it granted; null: none did. */
  readonly extension: number | null;
  readonly extendedTokens: number | null;
}

/** The billed tier; `named`: another one, by its name. */
export type TierCode = 'default' | 'flex' | 'priority' | 'named';

/** A settled request. `cost` was debited. `cost` plus `writtenOff` is the calculated cost, without what the plan's tokens paid for. */
export interface Usage extends Request, UsageBuckets {
  readonly state: RecordState;
  readonly usageSource: SettleCommand['usageSource'];
  readonly serviceTier: TierCode;
  /** The name of a tier that is `named`; else null. */
  readonly tierName: string | null;
  readonly cost: bigint;
  readonly writtenOff: bigint;
  /** null: another service computed the cost. */
  readonly priceId: number | null;
  readonly multiplierPermille: number;
  readonly planTokens: number;
  readonly latencyMs: number;
  readonly firstEventMs: number | null;
  readonly providerId: number;
  readonly attempts: number;
  /** The amount that the provider charged the operator; null: unknown. */
  readonly providerCost: bigint | null;
  /** The timeline, as `writeTimeline` returns it; null if the other fields say it all. */
  readonly timeline: string | null;
  /** Calls of tools that are priced per call. */
  readonly tools: readonly ToolCharge[];
  /** See `SettleCommand`. */
  readonly unpriced: readonly string[];
}

/** A voided hold. `number` counts the voids of one id, which may be admitted again after each. */
export interface Voided {
  readonly id: number;
  readonly number: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly modelId: number;
  readonly free: boolean;
  readonly requests: number;
  readonly endUserId: number | null;
  readonly groups: readonly number[];
  readonly admittedAtMs: number;
  readonly held: bigint;
  readonly voidedAtMs: number;
  readonly reason: VoidReason;
}

/**
 * A change of a balance other than by a request: the balance of the key, of the group, or, if both ids are null, of the account. A move
 * between two balances is two entries. A write-off changes no balance.
 */
export interface Entry {
  readonly accountId: number;
  readonly number: number;
  readonly kind: EntryKind;
  readonly keyId: number | null;
  readonly groupId: number | null;
  /** Added to the balance; negative: taken from it. */
  readonly amount: bigint;
  /** The balance after the entry. */
  readonly balanceAfter: bigint;
  /** The part of the cost of the request `usageId` that could not be debited; 0 for other kinds. */
  readonly writtenOff: bigint;
  readonly usageId: number | null;
  readonly period: number | null;
  readonly note: string;
  readonly atMs: number;
  /** A reference that the caller chose, unique among entries; null: none. */
  readonly reference: string | null;
}

/** The beginning and end of an account's rows in the audit log (account 0: the operator's). Rows up to `startNumber` were removed. */
export interface AuditChain {
  readonly accountId: number;
  readonly startNumber: number;
  /** Hash of the last removed row; '' if there is none. */
  readonly startHash: string;
  /** The number and the hash of the last row. */
  readonly number: number;
  readonly hash: string;
}

/** A webhook: an address that receives events. Account 0: it is the operator's. */
export interface Webhook {
  readonly id: number;
  readonly accountId: number;
  readonly url: string;
  readonly events: readonly EventType[];
  /** Encrypted. */
  readonly secret: string;
  readonly disabled: boolean;
  readonly removed: boolean;
  readonly createdAtMs: number;
}

/** An event for webhooks. `accountId` 0: it concerns no account. */
export interface WebhookEvent {
  readonly id: number;
  readonly accountId: number;
  readonly type: EventType;
  /** Events of one scope are delivered in their order. */
  readonly scope: string;
  /** JSON. */
  readonly data: string;
  readonly atMs: number;
}

/** The delivery of an event to a webhook. */
export interface Delivery {
  readonly eventId: number;
  readonly webhookId: number;
  readonly scope: string;
  readonly state: DeliveryState;
  /** The number of attempts. */
  readonly attempts: number;
  readonly nextAtMs: number;
  /** A failure at or after this time is final. */
  readonly untilMs: number;
  /** The HTTP status of the last attempt; null: there was no answer. */
  readonly status: number | null;
  readonly error: string | null;
  /** null: the delivery is pending. */
  readonly endedAtMs: number | null;
}

/** Marks an event, by its name, as already written, so that it is not written again. `number`: the number of the window, or the time that the event is about. */
export interface EventMark {
  readonly name: string;
  readonly number: number;
  readonly atMs: number;
}

/** An account's plan. `cancelled`: it ends with its current period. An account has at most one that has not ended. */
export interface Subscription {
  readonly accountId: number;
  readonly number: number;
  readonly plan: PlanName;
  readonly period: PlanPeriodName;
  readonly startedAtMs: number;
  readonly state: 'active' | 'cancelled' | 'ended';
}

/** A paid period of a plan, and its tokens: used by settled requests, held by running ones. */
export interface PlanPeriod {
  readonly accountId: number;
  readonly number: number;
  /** The number of the subscription. */
  readonly subscription: number;
  readonly plan: PlanName;
  /** How many periods lie between the start of the subscription and this one, unpaid ones included. */
  readonly nth: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly price: bigint;
  readonly tokens: number;
  readonly used: number;
  readonly held: number;
  /** True for the current period of a subscription that has not ended. */
  readonly live: boolean;
}

/** A counter: the highest id of a kind of row, or of the gateway's own requests (`last_id`). */
export interface Counter {
  readonly name:
    | 'account'
    | 'api_key'
    | 'management_key'
    | 'group'
    | 'limit'
    | 'webhook'
    | 'event'
    | 'session'
    | 'activity_start'
    | 'last_id';
  readonly value: number;
}

/** The stored reply to an administrative command; a repeat of the command gets it and does nothing. */
export interface Applied {
  readonly id: string;
  readonly reply: string;
}

/**
 * The amounts that a record adds to one stored sum. `number`: the hour or day; `valueId`: the id of what `grouped` names, for example the key
 * or the tag.
 */
export interface SumChange {
  readonly accountId: number;
  readonly period: 'hour' | 'day';
  readonly grouped: 'kind' | 'key' | 'group' | 'end_user' | 'tag';
  readonly number: number;
  readonly valueId: number;
  readonly usage: Usage;
}

/** Rows of one kind, found by their key: one to three numbers or names. */
export interface Table<R, K extends readonly (number | string)[]> {
  get(...key: K): R | undefined;
  /** Adds a row or replaces the one with its key. */
  put(row: R): void;
}

/**
 * The rows of a ledger after the commands so far. Rules read and write nothing else. If a rule throws, its changes are undone. An
 * engine that loads rows on demand may throw `MissingRow` from any read; it then loads the row and runs the rule again.
 */
export interface Rows {
  readonly accounts: Table<Account, [id: number]>;
  readonly keys: Table<Key, [id: number]>;
  readonly managementKeys: Table<ManagementKey, [id: number]>;
  readonly sessions: Table<Session, [id: number]>;
  readonly keyDays: Table<KeyDay, [keyId: number, day: number]>;
  readonly planDays: Table<AccountDay, [accountId: number, day: number]>;
  readonly groups: Table<Group, [id: number]>;
  readonly limits: Table<Limit, [id: number]>;
  readonly limitUses: Table<LimitUse, [limitId: number, number: number, endUser: number]>;
  /**
   * Limits that are counted together, by scope. Their rows in `limitUses` are not up to date. Absent: all limits are counted separately. The
   * engine calls `separate` before anyone else reads or removes these rows, and clears the map if a batch was not stored.
   */
  readonly joint?: Readonly<Record<LimitScope, Map<number, JointLimits>>>;
  readonly holds: Table<Hold, [id: number]> & { remove(id: number): void };
  /** Records are only added. */
  readonly usage: Table<Usage, [id: number]>;
  /** Rows are only added; `get` finds the last one of an id. */
  readonly voided: Table<Voided, [id: number]>;
  readonly subscriptions: Table<Subscription, [accountId: number, number: number]>;
  readonly periods: Table<PlanPeriod, [accountId: number, number: number]>;
  readonly counters: Table<Counter, [name: Counter['name']]>;
  readonly applied: Table<Applied, [id: string]>;
  readonly webhooks: Table<Webhook, [id: number]>;
  /** Returns the webhooks of an account (0: the operator) that receive events, by id. */
  listWebhooks(accountId: number): readonly Webhook[];
  /** Like `listWebhooks`, with disabled ones. */
  listAllWebhooks(accountId: number): readonly Webhook[];
  /** Only added. */
  addEvent(event: WebhookEvent): void;
  readonly deliveries: Table<Delivery, [eventId: number, webhookId: number]>;
  readonly eventMarks: Table<EventMark, [name: string]>;
  /** Returns the keys of an account that are not revoked, by id. */
  listKeys(accountId: number): readonly Key[];
  /** Returns the management keys of an account that are not revoked, by id. */
  listManagementKeys(accountId: number): readonly ManagementKey[];
  /** Returns the keys that expire after `afterMs` and not after `byMs`, by id. */
  expiringKeys(afterMs: number, byMs: number): readonly Key[];
  readonly auditChains: Table<AuditChain, [accountId: number]>;
  /** Adds a row at the end of its chain. */
  addAudit(row: AuditRow): void;
  /** Only added. */
  addEntry(entry: Entry): void;
  /** Returns the entry with that reference. */
  findEntry(reference: string): Entry | undefined;
  /** Adds a record to a stored sum. */
  raiseSum(change: SumChange): void;
  /** Returns the groups of an account that are not removed, by id. */
  listGroups(accountId: number): readonly Group[];
  /** Returns whether a group has keys that are not revoked. */
  hasKeys(groupId: number): boolean;
  /** Only added. */
  addSecret(secret: OldSecret): void;
  /** Returns the id of a combination of model, provider and public path. */
  kindNumber(modelId: number, providerId: number, endpointId: number): number;
  /** Returns the id of a set of tags; null if the set is empty. */
  tagsNumber(tags: Tags): number | null;
  /** Returns the ids of the tags in a set. `tagsId`: as `tagsNumber` returns it. */
  tagNumbers(tagsId: number): readonly number[];
  /** Returns the limits of a scope that are not removed, by id. */
  listLimits(scope: LimitScope, scopeId: number): readonly Limit[];
  /** Removes all uses of a limit, because it now counts something else. */
  forgetUses(limitId: number): void;
  /** Adds up requests by model and end user, as earlier commands have left them. */
  tally(span: TallySpan): readonly Tally[];
  /** Returns the listed id of a model. */
  modelName(modelId: number): string;
  /** Returns whether a key, one of a key's old secrets, a management key or a session has that hash. */
  hasHash(hash: Uint8Array): boolean;
  /** Returns the holds that have expired at `nowMs`, the earliest first, then by id. */
  expiredHolds(nowMs: number): readonly Hold[];
  /** Returns the keys that have expired at `nowMs` and whose balance is more than they hold, by id. */
  expiredKeys(nowMs: number): readonly Key[];
  /** Returns the holds of the gateway's own requests, by id. */
  ownHolds(): readonly Hold[];
  /** Returns the live periods that have ended at `nowMs`, the earliest first, then by account. */
  endedPeriods(nowMs: number): readonly PlanPeriod[];
}
