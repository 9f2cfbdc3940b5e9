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
 * The rows that rules read and write. Rows are never changed, only replaced. Rules number accounts, keys, entries and so on from counters
 * in rows, never a database. Money is in nano-dollars, times in ms since 1970 UTC, days and hours are counted from 1970 UTC.
 */

/** The balance that pays: the key's own if it has one (0 included), else the nearest group's that has one, else the account's. */
export type Payer = 'account' | 'key_balance' | 'group_balance';

/**
 * The payers in their order. `plan`: the plan alone; `money`: money alone; `free_request`: one of the plan's free daily requests, which
 * costs neither.
 */
export type Payers = 'money' | 'plan' | 'plan_money' | 'money_plan' | 'free_request';

export interface Account {
  readonly id: number;
  readonly name: string;
  readonly balance: bigint;
  /** The part of the balance held by live holds that the account pays. */
  readonly held: bigint;
  /** Live holds that the account pays or may pay. */
  readonly running: number;
  readonly createdAtMs: number;
  /** The number of the plan's live period; null: no plan. */
  readonly period: number | null;
  /** The last number given to one of its subscriptions and periods. */
  readonly plans: number;
  /** The last number given to one of its entries. */
  readonly entries: number;
  /** Why it is suspended; null: it is not. */
  readonly suspended: Suspension | null;
  /** The sum over its requests since it was created or resumed. */
  readonly writtenOff: bigint;
  /** The balance below which an event is sent; null: no event. */
  readonly lowBalance: bigint | null;
  /** null: it is open. */
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
  /** null: spends from the account. */
  readonly balance: bigint | null;
  readonly held: bigint;
  /** Live holds that its own balance pays or may pay. */
  readonly running: number;
  /** The plan pays before money. */
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
  /** See `Account`. */
  readonly lowBalance: bigint | null;
  /** Which bodies of its requests are kept; null: as the configuration decides. */
  readonly keepBodies: KeepBodies | null;
  /** Set by the account. */
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
  /** Null: the next group above, or the account, pays. */
  readonly balance: bigint | null;
  readonly held: bigint;
  /** Live holds that its balance pays or may pay. */
  readonly running: number;
  /** What was paid from its balance. */
  readonly spent: bigint;
  readonly removed: boolean;
  readonly createdAtMs: number;
  /** See `Account`. */
  readonly lowBalance: bigint | null;
}

/** A key's secret from before a rotation, valid until its time. */
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

/** A key's requests that were admitted on a UTC day. `spentOwn`: by the key's own balance, a part of `spent`. */
export interface KeyDay {
  readonly keyId: number;
  readonly day: number;
  readonly requests: number;
  readonly spent: bigint;
  readonly spentOwn: bigint;
  readonly held: bigint;
  readonly lastUsedAtMs: number;
}

/** A plan's free requests of a UTC day that were used and not returned. */
export interface AccountDay {
  readonly accountId: number;
  readonly day: number;
  readonly requests: number;
}

/** The maximum that a scope may use of a unit in a window. */
export interface Limit {
  readonly id: number;
  readonly accountId: number;
  readonly scope: LimitScope;
  /** The id of the key, the group or the account. */
  readonly scopeId: number;
  readonly unit: LimitUnit;
  /** null only for `concurrent`. */
  readonly per: LimitWindow | null;
  /** An IANA name. */
  readonly timeZone: string;
  /** Nano-dollars of `usd`, else a count. */
  readonly max: bigint;
  /** Listed ids, and patterns with `*`; null: all. */
  readonly models: readonly string[] | null;
  /** `each`: it applies to every end user separately. */
  readonly endUsers: 'all' | 'each';
  readonly action: LimitAction;
  /** Replaces `max` until that time; both are null if it was not raised. */
  readonly raisedMax: bigint | null;
  readonly raisedUntilMs: number | null;
  /** Set by the operator: the account's owner can't change it. */
  readonly locked: boolean;
  /** The field that created it, if no limit command did. */
  readonly field: LimitField | null;
  readonly removed: boolean;
  readonly createdAtMs: number;
}

/**
 * The used and held amounts of a limit in one of its windows: the sum over its requests, stored so that it need not be added up. Every
 * window that was ever read has a row with `endUser` 0.
 */
export interface LimitUse {
  readonly limitId: number;
  /** The window's number. */
  readonly number: number;
  /** 0: all of them, or, if the limit applies to each, requests without one. */
  readonly endUser: number;
  readonly used: bigint;
  readonly held: bigint;
  /** For a rolling minute, instead of the sums. */
  readonly rolling: Rolling | null;
}

/** The amounts that a request, or several of one model and one end user, add to limits. */
export interface Tally {
  readonly modelId: number;
  readonly endUserId: number | null;
  /** The time of their admission; 0 if that was not requested. */
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
  /** Only running ones. */
  readonly live: boolean;
  /** Grouped by millisecond. */
  readonly byTime: boolean;
}

/** The common part of a hold and the record that it becomes. */
export interface Request {
  readonly id: number;
  /** The random part of the public id: see `requestPart`. */
  readonly request: bigint | string;
  readonly accountId: number;
  readonly keyId: number;
  readonly modelId: number;
  readonly free: boolean;
  /** True if its tokens count. */
  readonly text: boolean;
  /** How many requests it counts as. */
  readonly requests: number;
  readonly endUserId: number | null;
  /** The key's group when it was admitted, and the groups above it, nearest first. */
  readonly groups: readonly number[];
  /** Its tags; null: none. */
  readonly tagsId: number | null;
  /** The path of its interface. */
  readonly endpointId: number;
  /** The batch that it is an item of; null: none. */
  readonly batchId: number | null;
  /** Whose money pays, if money pays. */
  readonly payer: Payer;
  /** The group that pays; null if no group pays. */
  readonly payerGroup: number | null;
  readonly payers: Payers;
  /** The plan period whose tokens pay; null if no plan pays. */
  readonly period: number | null;
  readonly discountPermille: number;
  readonly admittedAtMs: number;
  /** The requested amount, as one number that a repeat must match. */
  readonly requested: bigint;
  readonly admitted: bigint;
  /** null: it costs nothing. */
  readonly admittedTokens: number | null;
  /** null: a hold of the gateway's own. */
  readonly expiresAtMs: number | null;
}

/**
 * A request that was admitted and has not ended. It changes its payer's balance and its key's day of admission by `held`, its period by
 * `planHeld`, and as a free request the account's day of admission; nothing else.
 */
export interface Hold extends Request {
  readonly held: bigint;
  /** Estimated input tokens. */
  readonly inputTokens: number;
  /** Held output tokens of all payers; null: the request costs nothing. */
  readonly tokens: number | null;
  readonly outputPicoUsd: bigint;
  /** Tokens held from the plan, and the output tokens among them. */
  readonly planHeld: number;
  readonly planOutput: number;
  /** True if the first payer could not pay the whole input: from then on only the second pays. */
  readonly firstSpent: boolean;
  /** The last command that extended it, and the tokens that it granted. */
  readonly extension: number | null;
  readonly extendedTokens: number | null;
}

/** A settled request. `costNanoUsd` was debited; with `writtenOff` it is the arithmetic's sum, without what the plan's tokens paid. */
export interface Usage extends Request, UsageBuckets {
  readonly state: RecordState;
  readonly usageSource: SettleCommand['usageSource'];
  readonly serviceTier: SettleCommand['serviceTier'];
  readonly cost: bigint;
  readonly writtenOff: bigint;
  /** null: another service set the cost. */
  readonly priceId: number | null;
  readonly multiplierPermille: number;
  readonly planTokens: number;
  readonly latencyMs: number;
  readonly firstEventMs: number | null;
  readonly providerId: number;
  readonly attempts: number;
  /** The provider's charge to the operator; null: unknown. */
  readonly providerCost: bigint | null;
  /** As `writeTimeline` returns it; null: the other fields say it all. */
  readonly timeline: string | null;
  /** Calls of tools with a price of their own. */
  readonly tools: readonly ToolCharge[];
}

/** A voided hold. `number`: counts the voids of an id, because it may be admitted again after each. */
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
 * A change of a pocket's balance that is not a request. The pocket is the key's, the group's, or, if both are null,
 * the account's. A move between two pockets is two entries. A write-off changes no balance.
 */
export interface Entry {
  readonly accountId: number;
  readonly number: number;
  readonly kind: EntryKind;
  readonly keyId: number | null;
  readonly groupId: number | null;
  /** Added to the pocket; negative: taken from it. */
  readonly amount: bigint;
  /** The pocket's balance. */
  readonly balanceAfter: bigint;
  /** The part of the request `usageId` that could not be debited; 0 for every other kind. */
  readonly writtenOff: bigint;
  readonly usageId: number | null;
  readonly period: number | null;
  readonly note: string;
  readonly atMs: number;
  /** The client's own reference: unique among entries; null: none. */
  readonly reference: string | null;
}

/** The beginning and end of an account's audit chain (account 0: the operator's). Rows up to `startNumber` were removed. */
export interface AuditChain {
  readonly accountId: number;
  readonly startNumber: number;
  /** Hash of the last removed row; '' if there is none. */
  readonly startHash: string;
  /** Hash of the last row. */
  readonly number: number;
  readonly hash: string;
}

/** An address that receives events. Account 0: the operator's. */
export interface Webhook {
  readonly id: number;
  readonly accountId: number;
  readonly url: string;
  readonly events: readonly EventType[];
  /** Sealed. */
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

/** An event for a webhook. */
export interface Delivery {
  readonly eventId: number;
  readonly webhookId: number;
  readonly scope: string;
  readonly state: DeliveryState;
  /** Failed attempts, and the last one. */
  readonly attempts: number;
  readonly nextAtMs: number;
  /** From then on a failure is final. */
  readonly untilMs: number;
  /** The HTTP status of the last attempt; null: there was no answer. */
  readonly status: number | null;
  readonly error: string | null;
  /** null: pending. */
  readonly endedAtMs: number | null;
}

/** Marks an event that webhooks have already received, by its name. `number`: the window's, or the time of the event. */
export interface EventMark {
  readonly name: string;
  readonly number: number;
  readonly atMs: number;
}

/** An account's plan. `cancelled`: ends with its period. Only one at a time is live. */
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
  /** Its number. */
  readonly subscription: number;
  readonly plan: PlanName;
  /** Periods since the start, from 0; unpaid ones are skipped. */
  readonly nth: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly price: bigint;
  readonly tokens: number;
  readonly used: number;
  readonly held: number;
  /** The present one of a subscription that lives. */
  readonly live: boolean;
}

/** The last number given to a kind of row, or the highest id of the gateway's own requests. */
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

/** The stored reply to an administrative command, so that its repeat does nothing. */
export interface Applied {
  readonly id: string;
  readonly reply: string;
}

/**
 * The amounts that a record adds to one sum of records. `number`: the hour or day; `groupId`: the id of the endpoint, key, group, end user
 * or tag.
 */
export interface SumChange {
  readonly accountId: number;
  readonly period: 'hour' | 'day';
  readonly grouped: 'kind' | 'key' | 'group' | 'end_user' | 'tag';
  readonly number: number;
  readonly groupId: number;
  readonly usage: Usage;
}

/** Rows of one kind by their key, which is one to three of their numbers. */
export interface Table<R, K extends readonly (number | string)[]> {
  get(...key: K): R | undefined;
  /** Adds a row or replaces the one with its key. */
  put(row: R): void;
}

/**
 * The rows of a ledger after the commands so far. A rule reads and writes nothing else. If a rule throws, none of its changes stay. An
 * engine that fetches rows on demand may throw a `MissingRow` from any read: it then fetches that row and runs the rule again.
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
   * Limits that are counted together, by scope: their rows in `limitUses` are not up to date. Absent: none are. The owner of this map calls
   * `separate` before anyone else reads or removes those rows, and clears the map if a batch was not stored.
   */
  readonly joint?: Readonly<Record<LimitScope, Map<number, JointLimits>>>;
  readonly holds: Table<Hold, [id: number]> & { remove(id: number): void };
  /** Records are only added. */
  readonly usage: Table<Usage, [id: number]>;
  /** Only added; `get` finds the last one of an id. */
  readonly voided: Table<Voided, [id: number]>;
  readonly subscriptions: Table<Subscription, [accountId: number, number: number]>;
  readonly periods: Table<PlanPeriod, [accountId: number, number: number]>;
  readonly counters: Table<Counter, [name: Counter['name']]>;
  readonly applied: Table<Applied, [id: string]>;
  readonly webhooks: Table<Webhook, [id: number]>;
  /** Returns the webhooks of an account (0: the operator) that receive events, by id. */
  listWebhooks(accountId: number): readonly Webhook[];
  /** Includes disabled ones. */
  listAllWebhooks(accountId: number): readonly Webhook[];
  /** Only added. */
  addEvent(event: WebhookEvent): void;
  readonly deliveries: Table<Delivery, [eventId: number, webhookId: number]>;
  readonly eventMarks: Table<EventMark, [name: string]>;
  /** Keys of an account that were not revoked, by id. */
  listKeys(accountId: number): readonly Key[];
  /** Management keys of an account that were not revoked, by id. */
  listManagementKeys(accountId: number): readonly ManagementKey[];
  /** Keys that expire after the one time and not after the other, by id. */
  expiringKeys(afterMs: number, byMs: number): readonly Key[];
  readonly auditChains: Table<AuditChain, [accountId: number]>;
  /** Only added, at the end of its chain. */
  addAudit(row: AuditRow): void;
  /** Only added. */
  addEntry(entry: Entry): void;
  /** Returns the entry of that reference. */
  findEntry(reference: string): Entry | undefined;
  raiseSum(change: SumChange): void;
  /** The groups of an account that were not removed, by id. */
  listGroups(accountId: number): readonly Group[];
  /** Returns whether a group has keys that were not revoked. */
  hasKeys(groupId: number): boolean;
  /** Only added. */
  addSecret(secret: OldSecret): void;
  /** Returns the number of a combination of model, provider and interface. */
  kindNumber(modelId: number, providerId: number, endpointId: number): number;
  /** The number of these tags, which are stored as one set; null: there are none. */
  tagsNumber(tags: Tags): number | null;
  /** Returns the numbers of the tags in that set. */
  tagNumbers(tagsId: number): readonly number[];
  /** The limits of a scope that were not removed, by id. */
  listLimits(scope: LimitScope, scopeId: number): readonly Limit[];
  /** Removes all uses of a limit, because it now counts something else. */
  forgetUses(limitId: number): void;
  /** Adds up requests, as of the commands before, by model and end user. */
  tally(span: TallySpan): readonly Tally[];
  /** The listed id of a model by its number. */
  modelName(modelId: number): string;
  /** Returns whether a key, one of a key's old secrets, a management key or a session has that hash. */
  hasHash(hash: Uint8Array): boolean;
  /** Holds that expire by then, the earliest first, then by id. */
  expiredHolds(nowMs: number): readonly Hold[];
  /** Returns keys that have expired by then and have more money than their holds, by id. */
  expiredKeys(nowMs: number): readonly Key[];
  /** Holds of the gateway's own, by id. */
  ownHolds(): readonly Hold[];
  /** Live periods that end by then, the earliest first, then by account. */
  endedPeriods(nowMs: number): readonly PlanPeriod[];
}
