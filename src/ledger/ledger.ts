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
 * The ledger's port: permissions, payers and payments. Every method is one transaction, and a promise resolves only when its effect is
 * durable. Exception: `admit` and `extend` for the gateway's own requests survive the end of the process, but a power cut before they
 * settle may undo them; no client has seen them by then. Expected outcomes are return values; a throw means that the ledger itself failed
 * and nothing was done (`overloaded`: its queue or its disk is full). Money is in nano-dollars, times in ms since 1970 UTC. See
 * docs/accounting.md.
 */
export interface Ledger extends History, Outbox, SessionLedger {
  /** Checks every limit and the funds, then holds: all or nothing. The same id again returns the same. */
  admit(command: AdmitCommand): Promise<Admitted | Denied>;
  /** Returns what `admit` would decide now, without holding or counting anything; undefined if there is no such key. */
  preview(command: AdmitCommand & { readonly key: KeyOwner }): Promise<AdmissionPreview | undefined>;
  /** Holds more output. Grants as much as the funds can pay, possibly 0. Unknown or ended holds get 0. */
  extend(command: ExtendCommand): Promise<Extended>;
  /**
   * Replaces the hold by the real cost, once; the same settle again returns the same. `bounded`: throws `overloaded` if storage fails for long; the hold then stays and
   * is released later. Otherwise it waits until it is stored.
   */
  settle(command: SettleCommand, patience?: 'bounded' | 'unbounded'): Promise<Settled>;
  /** Ends a hold without a charge or a record. */
  void(id: number, reason: Exclude<VoidReason, VoidedHoldRow['reason']>): Promise<'voided' | 'not_held'>;
  /** The highest request id ever stored; ids continue above it. */
  readonly lastId: number;

  /**
   * Returns a key by the SHA-256 of its text; undefined if none has it, or it was revoked or deleted. Always the present state.
   * Synchronous, without a promise, if it is cached.
   */
  findCredential(hash: Uint8Array): Credential | undefined | Promise<Credential | undefined>;
  /** Returns an API key by its id; undefined if there is none or it was revoked. */
  findApiKey(keyId: number): Credential | undefined | Promise<Credential | undefined>;
  /**
   * Returns the present state of the limits of requests and tokens that bind a key, tightest first; with `free`, those of free models too.
   * Consumes nothing.
   */
  windows(keyId: number, free: boolean): Promise<WindowState[]>;
  /**
   * Returns why every request of a key is refused now, whatever its model and its size; undefined if nothing refuses them all, at once if
   * that is known. Consumes nothing.
   */
  refusal(keyId: number): undefined | Promise<Denied | undefined>;

  createAccount(command: { name: string; balance: bigint }): Promise<AccountRow>;
  listAccounts(): Promise<AccountRow[]>;
  findAccount(accountId: number): Promise<AccountRow | undefined>;
  /** `insufficient`: more is taken than there is outside holds. `reference`: a repeat changes nothing, another credit is a `conflict`. */
  addCredit(command: {
    accountId: number;
    amount: bigint;
    note: string;
    reference?: string;
  }): Promise<AccountRow | 'not_found' | 'insufficient' | 'conflict'>;
  /** Lifts an account's suspension, and resets its write-offs to 0. */
  resumeAccount(accountId: number): Promise<AccountRow | 'not_found'>;
  /**
   * Ends every key of an account and its plan, and moves the balances of keys and groups back to the account, from which a negative credit
   * pays them out. The holds of running requests move back when they end. A closed account gets no new keys and no plan. A repeat changes
   * nothing.
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
  /** Without revoked or deleted ones, oldest first. */
  listKeys(accountId: number, filter?: KeyFilter): Promise<KeyRow[]>;
  /** `accountId` undefined: in any account (the operator). */
  findKey(keyId: number, accountId: number | undefined): Promise<KeyRow | undefined>;
  /** Changes only the fields that are present. `insufficient`: the balance needs more money than there is outside holds. */
  updateKey(command: { keyId: number; accountId: number; settings: KeySettings }): Promise<KeyRow | KeyRefusal>;
  /**
   * Gives a key another secret, which the caller made; the previous one stays valid for `overlapMs`. `accountId` undefined: the operator.
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
  /** undefined or 0 removes the limit that this method created. */
  setMonthlyLimit(command: { keyId: number; limit: bigint | undefined }): Promise<KeyRow | 'not_found'>;

  /** `no_group`: the account has no such parent. `conflict`: it would be nested too deep. */
  createGroup(command: { accountId: number; settings: GroupSettings }): Promise<GroupRow | GroupRefusal>;
  /** By id. */
  listGroups(accountId: number): Promise<GroupRow[]>;
  /** `accountId` undefined: in any account (the operator). */
  findGroup(groupId: number, accountId: number | undefined): Promise<GroupRow | undefined>;
  /** Changes only the fields that are present. `conflict`: it would contain itself, or be nested too deep. */
  updateGroup(command: {
    groupId: number;
    accountId: number | undefined;
    settings: GroupSettings;
  }): Promise<GroupRow | GroupRefusal>;
  /** `conflict`: it has keys or groups. */
  deleteGroup(command: {
    groupId: number;
    accountId: number | undefined;
  }): Promise<'deleted' | 'not_found' | 'conflict'>;

  /** `not_found`: the account does not have that key or group. `too_many`: the scope has the maximum number of limits. */
  createLimit(command: NewLimit): Promise<LimitRow | 'not_found' | 'too_many'>;
  /** By id; with `scope`, those of one key, group or account. */
  listLimits(filter: LimitFilter): Promise<LimitRow[]>;
  /** `accountId` undefined: in any account (the operator). */
  findLimit(limitId: number, accountId: number | undefined): Promise<LimitRow | undefined>;
  /** Changes only the fields that are present. `accountId` undefined: the operator, the only one who may change locked ones. */
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

  /** Creates account 1 with its keys if the ledger has no account yet; returns whether it did. */
  bootstrap(command: Bootstrap): Promise<boolean>;

  listActivity(filter: ActivityFilter): Promise<UsageRow[]>;
  /** Returns true if a request holds funds now: it runs, or is being settled. */
  isHeld(id: number): Promise<boolean>;
  /** Returns one record with its arithmetic. */
  findActivity(accountId: number, requestId: string): Promise<{ row: UsageRow; lines: PaidLine[] } | undefined>;
  /** Returns sums of records by period and group, oldest first. `too_many`: there are more than `limit`. */
  analytics(query: AnalyticsQuery): Promise<AnalyticsRow[] | AnalyticsRefusal>;
  listVoidedHolds(limit: number): Promise<VoidedHoldRow[]>;

  /** Checks every invariant; returns the violations, in words for the operator. Empty: there are none. */
  verify(): Promise<string[]>;
  /** Closes it after everything that was queued is durable. */
  close(): Promise<void>;
}

/** The input of an admission. */
export interface AdmitCommand {
  /** Made by the caller before anything else; names hold, settle and record. */
  readonly id: number;
  /** The id that the client sees (`publicRequestId` of the id); stored with the record, which can be found by it. */
  readonly requestId: string;
  /**
   * The payer: a key and its account, as its credential names them, or the SHA-256 of the key's text. Without the account (it never changes), an engine that needs it
   * looks it up first.
   */
  readonly key: { readonly hash: Uint8Array } | KeyOwner;
  /** The listed id, compared with the key's allowed models and stored with the record. */
  readonly model: string;
  /** A `:free` model. */
  readonly free: boolean;
  /** Token estimate of a text request, for token limits. Absent: its tokens do not count. */
  readonly text?: TextEstimate;
  /** How many requests it counts as if it costs nothing; absent: 1. */
  readonly requests?: number;
  /** The caller's own end user; absent: none. */
  readonly endUser?: string;
  /** Its own tags; they precede those of its key and groups. */
  readonly tags?: Tags;
  /** The path of its interface; absent: none. */
  readonly endpoint?: string;
  /** The batch that the request is an item of; absent: none. */
  readonly batchId?: string;
  /** The amount to hold; undefined if the request costs nothing. */
  readonly funds: FundsEstimate | undefined;
  /** Set for holds of other services: they expire, survive restarts, and are durable before the reply. */
  readonly expiresAtMs?: number;
  /** The client learns of the request before its answer has ended (a task, a background response): the admission must be durable first. */
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
  /** Below this many output tokens the request is refused. */
  readonly outputTokensMin: number;
  /** The first slice. */
  readonly outputTokensWanted: number;
}

/**
 * The estimated cost of a request. The hold is `inputNanoUsd` plus as many output tokens, between the minimum and the wanted number, as the funds pay. Prices are the
 * highest that can apply (tier, `above`, margin), before any plan's discount.
 */
export interface FundsEstimate extends TextEstimate {
  readonly inputNanoUsd: bigint;
  /** Price of an output token in pico-dollars. */
  readonly outputPicoUsd: bigint;
  /** Text requests may be paid by a plan; images and other services' work never. */
  readonly plan: boolean;
  /** A text request at the standard tier, which one of the plan's free daily requests may pay. Absent: it may not. */
  readonly freeDaily?: boolean;
  /** For calls of tools with a price of their own: only money pays for them, without any discount. Absent: 0. */
  readonly toolsNanoUsd?: bigint;
}

/** A hold was placed. */
export interface Admitted {
  readonly kind: 'admitted';
  readonly id: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly heldNanoUsd: bigint;
  /** Output tokens that the hold pays. */
  readonly outputTokens: number;
  /** Output tokens that the funds and the token limits leave after the hold; Infinity if the request costs nothing and no limit binds it. */
  readonly outputTokensAvailable: number;
  /** What the funds could still pay after the hold. */
  readonly availableNanoUsd: bigint;
  /** The limits of requests and tokens that bind it, after this request, tightest first. */
  readonly windows: readonly WindowState[];
  /** When the hold expires; only of other services' holds. */
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
  /** With `insufficient_balance`: the least money that the request needs. */
  readonly neededNanoUsd?: bigint;
  /** Set if waiting helps. */
  readonly retryAfterMs?: number;
  readonly windows: readonly WindowState[];
}

/** More to hold: output tokens (granted in part if funds run out), or an amount (all or nothing). */
export type ExtendCommand =
  | { readonly id: number; readonly outputTokens: number }
  | { readonly id: number; readonly nanoUsd: bigint; readonly expiresAtMs?: number };

/** The granted amount. */
export interface Extended {
  /** `not_held`: unknown, settled, voided or expired. */
  readonly kind: 'extended' | 'denied' | 'not_held';
  /** Granted output tokens. */
  readonly outputTokens: number;
  /** The total hold. */
  readonly heldNanoUsd: bigint;
  /** Output tokens that the funds could still pay in addition. */
  readonly outputTokensAvailable: number;
  /** The expiry of the hold; only for other services' holds. */
  readonly expiresAtMs?: number;
}

/** How a request ended. */
export type RecordState = 'completed' | 'incomplete' | 'client_aborted' | 'upstream_failed';

/** The end of a request. */
export interface SettleCommand {
  readonly id: number;
  readonly state: RecordState;
  readonly usage: UsageBuckets;
  readonly usageSource: 'reported' | 'estimated';
  readonly serviceTier: 'default' | 'flex' | 'priority';
  readonly latencyMs: number;
  /** Time to first event; undefined if none came. */
  readonly firstEventMs: number | undefined;
  /** Provider and attempts, for the operator; '' and 0 if nothing went upstream. */
  readonly provider: string;
  readonly attempts: number;
  /** The prices that apply (one version of the listed prices) and the tier's factor: `computePrice` computes the cost from them. */
  readonly prices: PriceSheet;
  readonly multiplierPermille: number;
  /** Its timeline, as `writeTimeline` returns it; absent: the other fields are enough. */
  readonly timeline?: string | undefined;
  /** Calls of tools with a price of their own; absent: none. */
  readonly tools?: readonly ToolCharge[] | undefined;
  /** A cost from another source (AccountingService): the prices are then not used. */
  readonly costNanoUsd?: bigint;
  /** The provider's charge to the operator for it; undefined: unknown. */
  readonly providerCostNanoUsd?: bigint | undefined;
}

/** The charge. `cost` was debited; no funds covered `writtenOff`. */
export interface Settled {
  readonly kind: 'settled' | 'not_held' | 'conflict';
  readonly costNanoUsd: bigint;
  readonly writtenOffNanoUsd: bigint;
}

/** The result of `findCredential`. */
export interface Credential {
  /** `session`: of a person who signed in without a key. A session that a key signed in is of the key's kind. */
  readonly kind: 'api_key' | 'management_key' | 'session';
  /** 0 of a session. */
  readonly keyId: number;
  /** 0 of the operator's session. */
  readonly accountId: number;
  readonly disabled: boolean;
  /** For a management key; empty otherwise. */
  readonly scopes: readonly string[];
  /** For an API key; null allows all. */
  readonly allowedModels: readonly string[] | null;
  /** True if a limit of requests or tokens binds the key, besides the windows of free models. */
  readonly hasWindow: boolean;
  /** When an API key or a session stops working; undefined: never. */
  readonly expiresAtMs: number | undefined;
  /** True if that time has passed. */
  readonly expired?: true;
  /** For an API key: which bodies of its requests are stored; null or absent: the configuration decides. */
  readonly keepBodies?: KeepBodies | null;
  /** For an API key that its account has paused; it is `disabled` too. */
  readonly paused?: true;
  /** For a session. */
  readonly session?: SessionFacts;
}

/**
 * Why an account is suspended, until the operator resumes it. `damaged`: one of its rows is broken, so its expired holds can't be ended.
 * `write_offs`: more of its requests was written off than is allowed.
 */
export type Suspension = 'damaged' | 'write_offs';

/** Which bodies are stored: none, those of failed requests, or all. */
export type KeepBodies = 'off' | 'errors' | 'all';

export type KeyState = 'enabled' | 'disabled' | 'revoked';

/** A key that the caller made: only hash and mask are stored. */
export interface NewKey {
  readonly accountId: number;
  readonly hash: Uint8Array;
  readonly masked: string;
}

/** Settings of a key; an absent field does not change, or has its default on a new key. */
export interface KeySettings {
  readonly label?: string;
  /** Dollars or requests a day, as configured; 0 removes the limit that this field created. */
  readonly dailyLimit?: number;
  /** Requests a minute; 0 as above. */
  readonly minuteLimit?: number;
  /** Listed ids; null allows all. */
  readonly allowedModels?: readonly string[] | null;
  /** Moved out of the account; null moves it back. */
  readonly balance?: bigint | null;
  readonly useSubsFirst?: boolean;
  readonly fallbackToPayg?: boolean;
  /** When it expires and its balance moves back; null: never. */
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
  /** The account's own switch: a paused key is refused. */
  readonly paused?: boolean;
}

/** Selects keys: by page, by a text in the label, by group. */
export interface KeyFilter {
  readonly limit?: number;
  readonly offset?: number;
  readonly label?: string;
  readonly groupId?: number;
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
  /** The value of the limit that this field created; 0: none; null: it was edited so that the field can't express it. */
  readonly dailyLimit: number | null;
  readonly minuteLimit: number | null;
  readonly allowedModels: readonly string[] | null;
  /** null: spends from the account. */
  readonly balance: bigint | null;
  readonly usageToday: bigint;
  readonly usageMinute: number;
  readonly lastUsedAtMs: number | undefined;
  readonly useSubsFirst: boolean;
  readonly fallbackToPayg: boolean;
  readonly disabled: boolean;
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
  /** Set by the account; `disabled` is the operator's. */
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
  /** The provider's charge to the operator, shown to the operator only; undefined: unknown. */
  readonly providerCostNanoUsd: bigint | undefined;
  readonly state: RecordState;
  readonly usageSource: 'reported' | 'estimated';
  readonly serviceTier: 'default' | 'flex' | 'priority';
  readonly latencyMs: number;
  readonly usage: UsageBuckets;
  /** undefined: none was named. */
  readonly endUser: string | undefined;
  readonly batchId: string | undefined;
  readonly tags: Tags;
  /** Only if one record was requested. */
  readonly timeline?: RequestTimeline;
}
