import type { PlanName, PlanPeriodName, SubscriptionRow } from './plans.ts';
import type { AdmissionPreview } from './preview.ts';
import type { VoidedHoldRow, VoidReason } from './voids.ts';
import type {
  GroupRow,
  GroupSettings,
  LimitChange,
  LimitFilter,
  LimitRefusal,
  LimitRow,
  NewLimit,
  Tags,
} from './control.ts';
import type { RequestTimeline, SessionFacts, SessionLedger } from './sessions.ts';
import type { DenialFacts, WindowState } from '../errors/gateway-error.ts';
import type { ActivityFilter, AnalyticsQuery, AnalyticsRefusal, AnalyticsRow, PaidLine } from './activity.ts';
import type { History } from './history.ts';
import type { Outbox } from './webhooks.ts';
import type { ErrorCode } from '../errors/error-table.ts';
import type { PriceSheet, ToolCharge } from '../generation/price.ts';
import type { UsageBuckets } from '../generation/usage-buckets.ts';

export type {
  GroupRow,
  GroupSettings,
  LimitAction,
  LimitChange,
  LimitField,
  LimitFilter,
  LimitRefusal,
  LimitRow,
  LimitScope,
  LimitSettings,
  LimitUnit,
  LimitWindow,
  NewLimit,
  Raise,
  Tags,
} from './control.ts';
export type * from './activity.ts';
export type {
  AuditFilter,
  AuditRow,
  EntryFilter,
  EntryKind,
  EntryRow,
  MovementRow,
  PageFilter,
  RecordedAction,
} from './history.ts';
export type { NewSession, RequestTimeline, SessionFacts, SessionRole, SessionRow } from './sessions.ts';
export type { AdmissionPreview, NextPayer } from './preview.ts';
export type { VoidedHoldRow, VoidReason } from './voids.ts';
export type { UsageBuckets };

/**
 * The interface of the ledger: who may send a request, who pays for it, and how much. Every method is one transaction, and its promise
 * resolves only when the effect is durable. Exception: `admit` and `extend` for the gateway's own requests survive the end of the process,
 * but a power cut before the request settles may undo them; no client has seen the answer by then. Expected outcomes are return values. A
 * method throws if the ledger itself failed and nothing was done (`overloaded`: its queue or its disk is full). Money is in nano-dollars,
 * times in ms since 1970 UTC. See docs/accounting.md.
 */
export interface Ledger extends History, Outbox, SessionLedger {
  /** Checks all limits and the funds, then holds money: all or nothing. The same id again returns the same reply. */
  admit(command: AdmitCommand): Promise<Admitted | Denied>;
  /** Returns what `admit` would decide now, without holding or counting anything; undefined if there is no such key. */
  preview(command: AdmitCommand & { readonly key: KeyOwner }): Promise<AdmissionPreview | undefined>;
  /** Holds money for more output. Grants as many tokens as the funds can pay for, possibly 0. An unknown or ended hold gets 0. */
  extend(command: ExtendCommand): Promise<Extended>;
  /**
   * Ends the hold and debits the real cost, once; the same settle again returns the same reply. `bounded`: throws `overloaded` if storage fails for
   * long; the hold then stays and is released later. `unbounded`: waits until the charge is stored.
   */
  settle(command: SettleCommand, patience?: 'bounded' | 'unbounded'): Promise<Settled>;
  /** Ends a hold without a charge or a record. */
  void(id: number, reason: Exclude<VoidReason, VoidedHoldRow['reason']>): Promise<'voided' | 'not_held'>;
  /** The highest request id ever stored; ids continue above it. */
  readonly lastId: number;

  /**
   * Returns the credential whose text has this SHA-256, in its current state; undefined if there is none, or it was revoked or deleted.
   * Returns a cached credential at once, without a promise.
   */
  findCredential(hash: Uint8Array): Credential | undefined | Promise<Credential | undefined>;
  /** Returns an API key by its id; undefined if there is none or it was revoked. */
  findApiKey(keyId: number): Credential | undefined | Promise<Credential | undefined>;
  /**
   * Returns the current state of the request and token limits that apply to a key, tightest first. With `free`, includes those of free
   * models. Counts nothing.
   */
  windows(keyId: number, free: boolean): Promise<WindowState[]>;
  /**
   * Returns why all requests of a key are refused now, whatever their model and size; undefined if there is no such reason (without a
   * promise if that is cached). Counts nothing.
   */
  refusal(keyId: number): undefined | Promise<Denied | undefined>;

  createAccount(command: { name: string; balance: bigint }): Promise<AccountRow>;
  listAccounts(): Promise<AccountRow[]>;
  findAccount(accountId: number): Promise<AccountRow | undefined>;
  /** Adds to a balance; a negative amount is subtracted. `insufficient`: more would be taken than is available outside holds. A repeat with the same `reference` changes nothing; another credit with it is a `conflict`. */
  addCredit(command: {
    accountId: number;
    amount: bigint;
    note: string;
    reference?: string;
  }): Promise<AccountRow | 'not_found' | 'insufficient' | 'conflict'>;
  /** Lifts an account's suspension, and resets its write-offs to 0. */
  resumeAccount(accountId: number): Promise<AccountRow | 'not_found'>;
  /**
   * Ends an account's keys and plan, and moves the balances of its keys and groups back to it; a negative credit can then pay the balance
   * out. Money that running requests hold moves back when they end. A closed account gets no new keys and no plan. A repeat changes nothing.
   */
  closeAccount(accountId: number): Promise<AccountRow | 'not_found'>;
  /** Changes only the fields that are present. */
  updateAccount(command: {
    accountId: number;
    name?: string;
    lowBalance?: bigint | null;
  }): Promise<AccountRow | 'not_found'>;

  /** `no_group`: the account has no such group. */
  createKey(command: NewKey & { settings: KeySettings }): Promise<KeyRow | KeyRefusal | 'closed'>;
  /** Returns the keys that are not revoked or deleted, oldest first. */
  listKeys(accountId: number, filter?: KeyFilter): Promise<KeyRow[]>;
  /** `accountId` undefined: finds keys of all accounts (for the operator). */
  findKey(keyId: number, accountId: number | undefined): Promise<KeyRow | undefined>;
  /** Changes only the fields that are present. `insufficient`: the new balance needs more money than is available outside holds. */
  updateKey(command: { keyId: number; accountId: number; settings: KeySettings }): Promise<KeyRow | KeyRefusal>;
  /**
   * Gives a key a new secret, of which the caller passes the hash. The previous one stays valid for `overlapMs`. `accountId` undefined: the operator.
   */
  rotateKey(command: {
    keyId: number;
    accountId: number | undefined;
    hash: Uint8Array;
    masked: string;
    overlapMs: number;
  }): Promise<KeyRow | 'not_found'>;
  setKeyState(command: {
    keyId: number;
    accountId: number | undefined;
    state: KeyState;
  }): Promise<KeyRow | 'not_found'>;
  /** A `limit` of undefined or 0 removes the limit that this method created. */
  setMonthlyLimit(command: { keyId: number; limit: bigint | undefined }): Promise<KeyRow | 'not_found'>;

  /** `no_group`: the account has no such parent group. `conflict`: the group would be nested too deep. */
  createGroup(command: { accountId: number; settings: GroupSettings }): Promise<GroupRow | GroupRefusal>;
  /** Returns the groups, by id. */
  listGroups(accountId: number): Promise<GroupRow[]>;
  /** `accountId` undefined: finds groups of all accounts (for the operator). */
  findGroup(groupId: number, accountId: number | undefined): Promise<GroupRow | undefined>;
  /** Changes only the fields that are present. `conflict`: the group would contain itself, or be nested too deep. */
  updateGroup(command: {
    groupId: number;
    accountId: number | undefined;
    settings: GroupSettings;
  }): Promise<GroupRow | GroupRefusal>;
  /** `conflict`: the group still has keys or groups. */
  deleteGroup(command: {
    groupId: number;
    accountId: number | undefined;
  }): Promise<'deleted' | 'not_found' | 'conflict'>;

  /** `not_found`: the account does not have that key or group. `too_many`: the scope has the maximum number of limits. */
  createLimit(command: NewLimit): Promise<LimitRow | 'not_found' | 'too_many'>;
  /** Returns the limits of an account, by id; with `scope`, only those of one key, group or account. */
  listLimits(filter: LimitFilter): Promise<LimitRow[]>;
  /** `accountId` undefined: finds limits of all accounts (for the operator). */
  findLimit(limitId: number, accountId: number | undefined): Promise<LimitRow | undefined>;
  /** Changes only the fields that are present. `accountId` undefined: the operator, who alone may change locked limits. */
  updateLimit(command: {
    limitId: number;
    accountId: number | undefined;
    change: LimitChange;
  }): Promise<LimitRow | LimitRefusal>;
  deleteLimit(command: { limitId: number; accountId: number | undefined }): Promise<'deleted' | LimitRefusal>;

  createManagementKey(
    command: NewKey & { scopes: readonly string[] },
  ): Promise<ManagementKeyRow | 'not_found' | 'closed'>;
  listManagementKeys(accountId: number): Promise<ManagementKeyRow[]>;
  setManagementKeyScopes(command: {
    keyId: number;
    scopes: readonly string[];
  }): Promise<ManagementKeyRow | 'not_found'>;
  setManagementKeyState(command: { keyId: number; state: KeyState }): Promise<ManagementKeyRow | 'not_found'>;

  /** Debits the first period's price. `conflict`: the account already has a plan; `insufficient`: it can't pay for this one. */
  startSubscription(command: {
    accountId: number;
    plan: PlanName;
    period: PlanPeriodName;
  }): Promise<SubscriptionRow | 'not_found' | 'insufficient' | 'conflict' | 'closed'>;
  /** Returns the account's current plan; undefined if it has none. */
  findSubscription(accountId: number): Promise<SubscriptionRow | undefined>;
  /** Ends the plan with its period. A repeat changes nothing. `not_found`: the account has no plan. */
  cancelSubscription(accountId: number): Promise<SubscriptionRow | 'not_found'>;

  /** Creates account 1 with its keys if the ledger has no account yet. Returns whether it created one. */
  bootstrap(command: Bootstrap): Promise<boolean>;

  listActivity(filter: ActivityFilter): Promise<UsageRow[]>;
  /** Returns true if a request has a hold: it is running, or its settle is not done yet. */
  isHeld(id: number): Promise<boolean>;
  /** Returns one record, with the calculation of its cost. */
  findActivity(accountId: number, requestId: string): Promise<{ row: UsageRow; lines: PaidLine[] } | undefined>;
  /** Returns sums of records by period and grouping, oldest first, or why there are none. */
  analytics(query: AnalyticsQuery): Promise<AnalyticsRow[] | AnalyticsRefusal>;
  listVoidedHolds(limit: number): Promise<VoidedHoldRow[]>;

  /** Checks every invariant. Returns the violations, in words for the operator; empty if there are none. */
  verify(): Promise<string[]>;
  /** Closes the ledger once everything that was queued is durable. */
  close(): Promise<void>;
}

/** A request to be admitted. */
export interface AdmitCommand {
  /** The id that the caller has made. The hold, the settle and the record have the same id. */
  readonly id: number;
  /** The id that the client sees (`publicRequestId` of the id). It is stored, so that it finds the record. */
  readonly requestId: string;
  /**
   * The key: its number and its account, as its credential has them, or the SHA-256 of its text. With the hash alone, an engine that needs the
   * account has to look it up first.
   */
  readonly key: { readonly hash: Uint8Array } | KeyOwner;
  /** The listed id of the model. It is compared with the key's allowed models and stored with the record. */
  readonly model: string;
  /** True for a `:free` model. */
  readonly free: boolean;
  /** The estimated tokens of a text request, for token limits. Absent: its tokens do not count. */
  readonly text?: TextEstimate;
  /** How many requests it counts as if the model is free or a free daily request pays; absent: 1. */
  readonly requests?: number;
  /** The end user that the client names; absent: none. */
  readonly endUser?: string;
  /** The tags of the request; they take precedence over those of its key and groups. */
  readonly tags?: Tags;
  /** The public path, for example `/v1/messages`; absent: none. */
  readonly endpoint?: string;
  /** The batch that the request is an item of; absent: none. */
  readonly batchId?: string;
  /** The amount to hold; undefined if the request costs nothing. */
  readonly funds: FundsEstimate | undefined;
  /** Set for holds of other services, which expire at this time, survive restarts, and are durable before the reply. */
  readonly expiresAtMs?: number;
  /** Set if the client learns of the request before its answer has ended (a task, a background response): the admission must be durable first. */
  readonly durable?: true;
}

/** A key by its number, and its owner. */
export interface KeyOwner {
  readonly id: number;
  readonly accountId?: number;
}

/** The estimated tokens of a text request. */
export interface TextEstimate {
  /** Estimated input tokens with the margin. */
  readonly inputTokens: number;
  /** The request is refused if fewer output tokens than this can be granted. */
  readonly outputTokensMin: number;
  /** The first slice. */
  readonly outputTokensWanted: number;
}

/**
 * The estimated cost of a request. The hold is `inputNanoUsd` plus the price of as many output tokens as the funds can pay for, between the minimum
 * and the wanted number. Prices are the highest that can apply (tier, `above`, margin), before the discount of a plan.
 */
export interface FundsEstimate extends TextEstimate {
  readonly inputNanoUsd: bigint;
  /** Price of an output token in pico-dollars. */
  readonly outputPicoUsd: bigint;
  /** True if a plan may pay: for text requests, never for images and for work of other services. */
  readonly plan: boolean;
  /** True if one of the plan's free daily requests may pay: for text requests at the standard tier. */
  readonly freeDaily?: boolean;
  /** The cost of tools that are priced per call: only money pays for them, without a discount. Absent: 0. */
  readonly toolsNanoUsd?: bigint;
}

/** The reply to an admitted request: a hold was placed. */
export interface Admitted {
  readonly kind: 'admitted';
  readonly id: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly heldNanoUsd: bigint;
  /** Output tokens that the hold covers. */
  readonly outputTokens: number;
  /** Output tokens that the funds and the token limits still allow after the hold; Infinity if the request costs nothing and no limit applies. */
  readonly outputTokensAvailable: number;
  /** How much the funds can still pay after the hold. */
  readonly availableNanoUsd: bigint;
  /** The request and token limits that apply, with this request counted, tightest first. */
  readonly windows: readonly WindowState[];
  /** When the hold expires; only for holds of other services. */
  readonly expiresAtMs?: number;
}

/** The refusal of an admission: nothing was held or counted. */
export interface Denied {
  readonly kind: 'denied';
  readonly code: Extract<
    ErrorCode,
    | 'invalid_api_key'
    | 'key_disabled'
    | 'account_suspended'
    | 'permission_denied'
    | 'model_not_allowed'
    | 'rate_limit'
    | 'spending_limit'
    | 'insufficient_balance'
    | 'subscription_exhausted'
    | 'conflict'
  >;
  readonly denial?: DenialFacts;
  /** For `insufficient_balance`: the least money that the request needs. */
  readonly neededNanoUsd?: bigint;
  /** Set if waiting helps. */
  readonly retryAfterMs?: number;
  readonly windows: readonly WindowState[];
}

/** Asks to hold more: output tokens, which may be granted in part, or an amount, which is granted wholly or not at all. */
export type ExtendCommand =
  | { readonly id: number; readonly outputTokens: number }
  | { readonly id: number; readonly nanoUsd: bigint; readonly expiresAtMs?: number };

/** The reply to an extension. */
export interface Extended {
  /** `not_held`: unknown, settled, voided or expired. */
  readonly kind: 'extended' | 'denied' | 'not_held';
  /** Granted output tokens. */
  readonly outputTokens: number;
  /** The total hold. */
  readonly heldNanoUsd: bigint;
  /** Output tokens that the funds could still pay in addition. */
  readonly outputTokensAvailable: number;
  /** When the hold expires; only for holds of other services. */
  readonly expiresAtMs?: number;
}

/** How a request ended. */
export type RecordState = 'completed' | 'incomplete' | 'client_aborted' | 'upstream_failed';

/** The command that ends a request and charges for it. */
export interface SettleCommand {
  readonly id: number;
  readonly state: RecordState;
  readonly usage: UsageBuckets;
  readonly usageSource: 'reported' | 'estimated';
  /** The name of the billed tier. */
  readonly serviceTier: string;
  readonly latencyMs: number;
  /** Milliseconds until the first event; undefined if none came. */
  readonly firstEventMs: number | undefined;
  /** The provider that answered and the number of attempts, for the operator; '' and 0 if nothing was sent to an upstream. */
  readonly provider: string;
  readonly attempts: number;
  /** The prices that apply (one version of the listed prices) and the factor of the tier; `computePrice` computes the cost from them. */
  readonly prices: PriceSheet;
  readonly multiplierPermille: number;
  /** The timeline of the request, as `writeTimeline` returns it; absent if the other fields say it all. */
  readonly timeline?: string | undefined;
  /** Calls of tools that are priced per call; absent: none. */
  readonly tools?: readonly ToolCharge[] | undefined;
  /** The features that the provider may have billed without a price here, as `usage.foo_tokens` or `service_tier`; absent: nothing. */
  readonly unpriced?: readonly string[] | undefined;
  /** The cost, if another service computed it (AccountingService); the prices are then not used. */
  readonly costNanoUsd?: bigint;
  /** The amount that the provider charges the operator for the request; undefined: unknown. */
  readonly providerCostNanoUsd?: bigint | undefined;
}

/** The reply to a settle: `cost` was debited; no funds covered `writtenOff`. */
export interface Settled {
  readonly kind: 'settled' | 'not_held' | 'conflict';
  readonly costNanoUsd: bigint;
  readonly writtenOffNanoUsd: bigint;
}

/** The result of `findCredential`. */
export interface Credential {
  /** `session`: the session of a person who signed in without a key. The session of someone who signed in with a key has the kind of that key. */
  readonly kind: 'api_key' | 'management_key' | 'session';
  /** 0 for a session. */
  readonly keyId: number;
  /** 0 for a session of the operator. */
  readonly accountId: number;
  readonly disabled: boolean;
  /** The permissions of a management key; empty for others. */
  readonly scopes: readonly string[];
  /** The models of an API key; null allows all. */
  readonly allowedModels: readonly string[] | null;
  /** True if a request or token limit applies to the key, other than the windows of free models. */
  readonly hasWindow: boolean;
  /** When an API key or a session stops working; undefined: never. */
  readonly expiresAtMs: number | undefined;
  /** Set if `expiresAtMs` has passed. */
  readonly expired?: true;
  /** Which bodies of an API key's requests are stored; null or absent: the configuration decides. */
  readonly keepBodies?: KeepBodies | null;
  /** Set for an API key that its account has paused; it is `disabled` too. */
  readonly paused?: true;
  /** Set for a session. */
  readonly session?: SessionFacts;
}

/**
 * Why an account is suspended, until the operator resumes it. `damaged`: one of its rows is broken, so that its expired holds can't be ended.
 * `write_offs`: the cost of its requests that was written off exceeds the maximum.
 */
export type Suspension = 'damaged' | 'write_offs';

/** Which bodies are stored: none, those of failed requests, or all. */
export type KeepBodies = 'off' | 'errors' | 'all';

export type KeyState = 'enabled' | 'disabled' | 'revoked';

/** A key that the caller has made. Only its hash and its masked form are stored. */
export interface NewKey {
  readonly accountId: number;
  readonly hash: Uint8Array;
  readonly masked: string;
}

/** Settings of a key. An absent field stays as it is; a new key gets its default. */
export interface KeySettings {
  readonly label?: string;
  /** Dollars or requests a day, as `daily_limit_unit` says; 0 removes the limit that this field created. */
  readonly dailyLimit?: number;
  /** Requests a minute; 0 removes the limit that this field created. */
  readonly minuteLimit?: number;
  /** Listed ids; null allows all. */
  readonly allowedModels?: readonly string[] | null;
  /** The balance of the key, which is moved from the account; null moves it back. */
  readonly balance?: bigint | null;
  readonly useSubsFirst?: boolean;
  readonly fallbackToPayg?: boolean;
  /** When the key expires and its balance moves back; null: never. */
  readonly expiresAtMs?: number | null;
  /** null: directly under the account. */
  readonly groupId?: number | null;
  readonly tags?: Tags;
  /** A JSON text. */
  readonly metadata?: string;
  /** The balance below which an event is sent; null: no event. */
  readonly lowBalance?: bigint | null;
  /** Null: as the configuration decides. */
  readonly keepBodies?: KeepBodies | null;
  /** Set by the account: requests of a paused key are refused. */
  readonly paused?: boolean;
}

/** Selects keys by page, by a text that the label contains, and by group. */
export interface KeyFilter {
  readonly limit?: number;
  readonly offset?: number;
  readonly label?: string;
  readonly groupId?: number;
  /** Also revoked keys; absent: without them. */
  readonly revoked?: boolean;
}

/** Why a key was not created or changed. */
export type KeyRefusal = 'not_found' | 'no_group' | 'insufficient';
/** Why a group was not created or changed. */
export type GroupRefusal = KeyRefusal | 'conflict';

export interface AccountRow {
  readonly accountId: number;
  readonly name: string;
  readonly balance: bigint;
  readonly held: bigint;
  readonly createdAtMs: number;
  /** null: not suspended. */
  readonly suspended: Suspension | null;
  /** The balance below which an event is sent; null: no event. */
  readonly lowBalance: bigint | null;
  /** null: it is open. */
  readonly closedAtMs: number | null;
}

export interface KeyRow {
  readonly keyId: number;
  readonly accountId: number;
  readonly masked: string;
  readonly createdAtMs: number;
  readonly label: string;
  /** The maximum of the limit that this field created; 0: there is none; null: it was changed so that the field can't express it. */
  readonly dailyLimit: number | null;
  readonly minuteLimit: number | null;
  readonly allowedModels: readonly string[] | null;
  /** null: spends from the account. */
  readonly balance: bigint | null;
  /** The part of `balance` that running requests hold. */
  readonly held: bigint;
  readonly usageToday: bigint;
  readonly usageMinute: number;
  readonly lastUsedAtMs: number | undefined;
  readonly useSubsFirst: boolean;
  readonly fallbackToPayg: boolean;
  /** Also true for a revoked key. */
  readonly disabled: boolean;
  readonly revoked: boolean;
  readonly monthlyLimit: bigint | undefined;
  /** undefined: never. */
  readonly expiresAtMs: number | undefined;
  readonly groupId: number | null;
  readonly tags: Tags;
  /** A JSON text. */
  readonly metadata: string;
  readonly lowBalance: bigint | null;
  /** Null: as the configuration decides. */
  readonly keepBodies: KeepBodies | null;
  /** Set by the account; the operator sets `disabled`. */
  readonly paused: boolean;
}

export interface ManagementKeyRow {
  readonly keyId: number;
  readonly accountId: number;
  readonly masked: string;
  readonly scopes: readonly string[];
  readonly disabled: boolean;
  readonly createdAtMs: number;
}

export interface Bootstrap {
  readonly accountName: string;
  readonly balance: bigint;
  readonly apiKey: { readonly hash: Uint8Array; readonly masked: string };
  readonly managementKey: { readonly hash: Uint8Array; readonly masked: string; readonly scopes: readonly string[] };
}

export interface UsageRow {
  readonly requestId: string;
  readonly model: string;
  readonly keyId: number;
  readonly createdAtMs: number;
  readonly costNanoUsd: bigint;
  readonly writtenOffNanoUsd: bigint;
  /** The amount that the provider charged the operator, shown to the operator only; undefined: unknown. */
  readonly providerCostNanoUsd: bigint | undefined;
  readonly state: RecordState;
  readonly usageSource: 'reported' | 'estimated';
  /** The name of the billed tier. */
  readonly serviceTier: string;
  readonly latencyMs: number;
  readonly usage: UsageBuckets;
  /** undefined: the request named none. */
  readonly endUser: string | undefined;
  readonly batchId: string | undefined;
  readonly tags: Tags;
  /** See `SettleCommand`. */
  readonly unpriced: readonly string[];
  /** Present only if one record was requested. */
  readonly timeline?: RequestTimeline;
}
