/** Limits and groups, as the ledger's commands and answers say them. */

/** What a limit limits: the account, a group with all below it, or a key. */
export type LimitScope = 'account' | 'group' | 'key';
export type LimitUnit = 'usd' | 'requests' | 'tokens' | 'concurrent';
/** `minute` is rolling 60 s, `total` never ends, the others are windows of the calendar. */
export type LimitWindow = 'minute' | 'hour' | 'day' | 'week' | 'month' | 'total';
export type LimitAction = 'refuse' | 'alert';
/** What makes limits beside their own commands: fields of keys, and the windows of free models. */
export type LimitField = 'minute_limit' | 'daily_limit' | 'monthly_limit' | 'free_minute' | 'free_day';

/** Another maximum until a time. */
export interface Raise {
  readonly max: bigint;
  readonly untilMs: number;
}

/** What of a limit can change. `max` is in nano-dollars of `usd`, else a count; 0 refuses all. */
export interface LimitSettings {
  readonly max: bigint;
  /** An IANA name. */
  readonly timeZone: string;
  /** Listed ids, and patterns with `*`; null: all. */
  readonly models: readonly string[] | null;
  readonly endUsers: 'all' | 'each';
  readonly action: LimitAction;
  readonly raised: Raise | null;
}

/** An absent field does not change. */
export type LimitChange = Partial<LimitSettings>;

export interface NewLimit extends LimitSettings {
  readonly accountId: number;
  readonly scope: LimitScope;
  readonly scopeId: number;
  readonly unit: LimitUnit;
  /** null with `concurrent`, and with nothing else. */
  readonly window: LimitWindow | null;
  readonly locked: boolean;
}

/** A limit as it stands in its present window. */
export interface LimitRow extends NewLimit {
  readonly limitId: number;
  readonly createdAtMs: number;
  /** Of the fullest end user, where it holds for each. Running requests of `concurrent`. */
  readonly used: bigint;
  readonly held: bigint;
  /** At least 0. */
  readonly remaining: bigint;
  /** null: it never resets by itself. */
  readonly resetsAtMs: number | null;
}

/** Why a limit was not changed. `locked`: it is the operator's; `fixed`: it is a window of free models, which nobody changes. */
export type LimitRefusal = 'not_found' | 'locked' | 'fixed';

export interface LimitFilter {
  readonly accountId: number;
  readonly scope?: LimitScope;
  readonly scopeId?: number;
}

/** Names with values that requests are divided by. */
export type Tags = Readonly<Record<string, string>>;

/** Settings of a group; an absent field does not change, or has its default on a new group. */
export interface GroupSettings {
  readonly name?: string;
  /** null: directly under the account. */
  readonly parentId?: number | null;
  readonly tags?: Tags;
  /** Moved out of the account; null moves it back. */
  readonly balance?: bigint | null;
  /** An event is sent when the balance falls below it; null: none is. */
  readonly lowBalance?: bigint | null;
}

export interface GroupRow {
  readonly groupId: number;
  readonly accountId: number;
  readonly name: string;
  readonly parentId: number | null;
  readonly tags: Tags;
  /** null: what is above pays. */
  readonly balance: bigint | null;
  readonly held: bigint;
  readonly createdAtMs: number;
  readonly lowBalance: bigint | null;
}
