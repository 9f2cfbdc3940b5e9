/** Limits and groups in the ledger's commands and replies. */

/** The scope of a limit: an account, a group with its subgroups and keys, or a key. */
export type LimitScope = 'account' | 'group' | 'key';
export type LimitUnit = 'usd' | 'requests' | 'tokens' | 'concurrent';
/** The window of a limit. `minute`: the last 60 s; `total`: without an end; the others: calendar periods. */
export type LimitWindow = 'minute' | 'hour' | 'day' | 'week' | 'month' | 'total';
export type LimitAction = 'refuse' | 'alert';
/** The makers of limits besides the limit commands: a field of a key, or the request windows of free models. */
export type LimitField = 'minute_limit' | 'daily_limit' | 'monthly_limit' | 'free_minute' | 'free_day';

/** A maximum that applies until a time. */
export interface Raise {
  readonly max: bigint;
  readonly untilMs: number;
}

/** The changeable settings of a limit. `max` is in nano-dollars for `usd`, else a count; 0 refuses everything. */
export interface LimitSettings {
  readonly max: bigint;
  /** An IANA time zone name. */
  readonly timeZone: string;
  /** Public model ids, and patterns with `*`; null: all models. */
  readonly models: readonly string[] | null;
  readonly endUsers: 'all' | 'each';
  readonly action: LimitAction;
  readonly raised: Raise | null;
}

/** Changes of a limit; an absent field stays. */
export type LimitChange = Partial<LimitSettings>;

export interface NewLimit extends LimitSettings {
  readonly accountId: number;
  readonly scope: LimitScope;
  readonly scopeId: number;
  readonly unit: LimitUnit;
  /** null only for `concurrent`. */
  readonly window: LimitWindow | null;
  readonly locked: boolean;
}

/** A limit with its usage in the current window. */
export interface LimitRow extends NewLimit {
  readonly limitId: number;
  readonly createdAtMs: number;
  /** With `endUsers: each`, the highest usage of one end user. For `concurrent`: running requests. */
  readonly used: bigint;
  readonly held: bigint;
  /** At least 0. */
  readonly remaining: bigint;
  /** When the current window ends; null: never. */
  readonly resetsAtMs: number | null;
}

/** Why a limit was not changed. `locked`: only the operator may change it; `fixed`: the windows of free models can't be changed. */
export type LimitRefusal = 'not_found' | 'locked' | 'fixed';

export interface LimitFilter {
  readonly accountId: number;
  readonly scope?: LimitScope;
  readonly scopeId?: number;
}

/** Names and values by which usage can be broken down. */
export type Tags = Readonly<Record<string, string>>;

/** Settings of a group. An absent field stays as it is; a new group gets its default. */
export interface GroupSettings {
  readonly name?: string;
  /** null: directly under the account. */
  readonly parentId?: number | null;
  readonly tags?: Tags;
  /** Moved out of the account; null moves it back. */
  readonly balance?: bigint | null;
  /** An event is sent when the balance falls below this; null: no event. */
  readonly lowBalance?: bigint | null;
}

export interface GroupRow {
  readonly groupId: number;
  readonly accountId: number;
  readonly name: string;
  readonly parentId: number | null;
  readonly tags: Tags;
  /** null: it has no balance of its own; the parent group or the account pays. */
  readonly balance: bigint | null;
  readonly held: bigint;
  readonly createdAtMs: number;
  readonly lowBalance: bigint | null;
}
