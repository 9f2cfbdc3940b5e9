/** Actions and money movements in the ledger's replies. */

/** Why a balance changed without a request. `opening`: the first balance of an account. `write_off`: a cost that no funds covered; the balance stays. */
export type EntryKind = 'opening' | 'credit' | 'move' | 'plan_price' | 'write_off';

/** A change of a balance that is not a request: of the key `keyId`, of the group `groupId`, or, if both are null, of the account. */
export interface EntryRow {
  readonly accountId: number;
  /** Numbered within its account: 1, 2, 3. */
  readonly entryId: number;
  readonly kind: EntryKind;
  readonly keyId: number | null;
  readonly groupId: number | null;
  /** Added to the balance; negative: taken from it. */
  readonly amount: bigint;
  /** The new balance. */
  readonly balanceAfter: bigint;
  /** The amount of a `write_off`, else 0. */
  readonly writtenOff: bigint;
  /** The request that was written off; null: none. */
  readonly requestId: string | null;
  readonly note: string;
  readonly createdAtMs: number;
}

/** A change of a balance: an entry, or the charge of a settled request, whose `entryId` is null. */
export interface MovementRow extends Omit<EntryRow, 'entryId' | 'kind'> {
  readonly entryId: number | null;
  readonly kind: EntryKind | 'charge';
}

/** A page of rows, newest first, from `startMs` until before `endMs`; absent: no bound. */
export interface PageFilter {
  readonly limit: number;
  readonly offset: number;
  readonly startMs?: number;
  readonly endMs?: number;
}

/** Selects entries. */
export interface EntryFilter extends PageFilter {
  readonly accountId: number;
  /** Absent: any. */
  readonly kinds?: readonly EntryKind[];
}

/** The actor of an action, as the audit records it. */
export interface Actor {
  /** `operator`, `management_key`, `session` (a person who signed in), or `gateway`: the program itself. */
  readonly type: string;
  /** The id of the key or person, or the name of the operator's token; null: `type` is enough. */
  readonly id: string | null;
  /** The network address of the caller; null: none. */
  readonly address: string | null;
  /** The id of the call; null: it has none. */
  readonly requestId: string | null;
}

/** An action, with the state before and after it. */
export interface AuditRow {
  /** 0: an action of the operator that concerns no account. */
  readonly accountId: number;
  /** Numbered within its account: 1, 2, 3. */
  readonly auditId: number;
  readonly actorType: string;
  readonly actorId: string | null;
  /** `key.update` and the like. */
  readonly action: string;
  readonly resourceType: string;
  readonly resourceId: string | null;
  /** JSON; null: the resource did not exist. */
  readonly before: string | null;
  readonly after: string | null;
  readonly address: string | null;
  readonly requestId: string | null;
  readonly createdAtMs: number;
  /** SHA-256 in hexadecimal; '' in the first row of a chain. */
  readonly previousHash: string;
  readonly hash: string;
}

/** Selects rows of the audit. */
export interface AuditFilter extends PageFilter {
  /** 0: actions that concern no account; absent: all. */
  readonly accountId?: number;
}

/** An action that was done outside the ledger. */
export interface RecordedAction {
  /** 0: it concerns no account. */
  readonly accountId: number;
  readonly action: string;
  readonly resourceType: string;
  readonly resourceId: string | null;
  /** The new state as JSON; null: none. */
  readonly after: string | null;
}

/** Rows older than these times are removed. */
export interface RetentionLimits {
  /** For settled requests and released holds, in whole UTC days. Accounts that have a limit with the window `total` keep theirs, since it counts them. */
  readonly activityBeforeMs: number;
  readonly auditBeforeMs: number;
  /** For webhook events that were delivered or abandoned. */
  readonly eventsBeforeMs: number;
}

/** The ledger's history other than requests. */
export interface History {
  listEntries(filter: EntryFilter): Promise<EntryRow[]>;
  /** Lists entries together with the charges of requests. */
  listMovements(filter: EntryFilter): Promise<MovementRow[]>;
  listAudit(filter: AuditFilter): Promise<AuditRow[]>;
  /** Records an action in the audit that was done outside the ledger. */
  recordAction(action: RecordedAction): Promise<void>;
  /** Removes a batch of old rows; sums stay. Returns how many were removed; 0: none are left. */
  removeOld(limits: RetentionLimits): Promise<number>;
}
