/** The audit log and the entries, as the ledger's methods return them. */

/** The kind of an entry. `opening`: the first balance of an account. `write_off`: a cost that no funds covered, which changes no balance. */
export type EntryKind = 'opening' | 'credit' | 'move' | 'plan_price' | 'write_off';

/** An entry: a change of a balance other than by a request. It is the balance of the key `keyId`, of the group `groupId`, or, if both are null, of the account. */
export interface EntryRow {
  readonly accountId: number;
  /** Numbered within its account: 1, 2, 3. */
  readonly entryId: number;
  readonly kind: EntryKind;
  readonly keyId: number | null;
  readonly groupId: number | null;
  /** Added to the balance; negative: taken from it. */
  readonly amount: bigint;
  /** The balance after the entry. */
  readonly balanceAfter: bigint;
  /** The amount of a `write_off`, else 0. */
  readonly writtenOff: bigint;
  /** The request whose cost was written off; null for other kinds. */
  readonly requestId: string | null;
  readonly note: string;
  readonly createdAtMs: number;
}

/** A change of a balance: an entry, or the charge for a settled request; `entryId` is null for a charge. */
export interface MovementRow extends Omit<EntryRow, 'entryId' | 'kind'> {
  readonly entryId: number | null;
  readonly kind: EntryKind | 'charge';
}

/** Selects a page of rows, newest first, from `startMs` on and before `endMs`; an absent time is no bound. */
export interface PageFilter {
  readonly limit: number;
  readonly offset: number;
  readonly startMs?: number;
  readonly endMs?: number;
}

/** Selects entries. */
export interface EntryFilter extends PageFilter {
  readonly accountId: number;
  /** Absent: all kinds. */
  readonly kinds?: readonly EntryKind[];
}

/** Who did an action, as the audit log records it. */
export interface Actor {
  /** `operator`, `management_key`, `session` (a person who signed in), or `gateway`: the program itself. */
  readonly type: string;
  /** The id of the key or person, or the name of the operator's token; null if `type` says enough. */
  readonly id: string | null;
  /** The network address of the caller; null if there is none. */
  readonly address: string | null;
  /** The request id of the call; null if it has none. */
  readonly requestId: string | null;
}

/** A row of the audit log: an action, and the state of its resource before and after it. */
export interface AuditRow {
  /** 0: an action of the operator that concerns no account. */
  readonly accountId: number;
  /** Numbered within its account: 1, 2, 3. */
  readonly auditId: number;
  readonly actorType: string;
  readonly actorId: string | null;
  /** For example `key.update`. */
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

/** Selects rows of the audit log. */
export interface AuditFilter extends PageFilter {
  /** 0: actions that concern no account; absent: all. */
  readonly accountId?: number;
}

/** An action that did not change the ledger but is recorded in its audit log. */
export interface RecordedAction {
  /** 0: it concerns no account. */
  readonly accountId: number;
  readonly action: string;
  readonly resourceType: string;
  readonly resourceId: string | null;
  /** The state before and after the action as JSON; null if there is none. */
  readonly before: string | null;
  readonly after: string | null;
}

/** Rows older than these times are removed. */
export interface RetentionLimits {
  /** For settled requests and voided holds, in whole UTC days. An account that has a limit with the window `total` keeps them, because the limit counts them. */
  readonly activityBeforeMs: number;
  readonly auditBeforeMs: number;
  /** For webhook events that were delivered or abandoned. */
  readonly eventsBeforeMs: number;
}

/** The methods for the ledger's history, except requests. */
export interface History {
  listEntries(filter: EntryFilter): Promise<EntryRow[]>;
  /** Lists entries together with the charges of requests. */
  listMovements(filter: EntryFilter): Promise<MovementRow[]>;
  listAudit(filter: AuditFilter): Promise<AuditRow[]>;
  /** Records an action that was done outside the ledger in the audit log. */
  recordAction(action: RecordedAction): Promise<void>;
  /** Removes some old rows and returns how many; 0: none is left. Sums stay. */
  removeOld(limits: RetentionLimits): Promise<number>;
}
