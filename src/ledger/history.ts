/** What was done and what money moved, as the ledger's answers say it. */

/** Why a balance changed without a request. `opening`: the first balance of an account. `write_off`: what no funds covered; it changes nothing. */
export type EntryKind = 'opening' | 'credit' | 'move' | 'plan_price' | 'write_off';

/** A change of a pocket's balance that is no request. The pocket is the key's, the group's, or, where both are null, the account's. */
export interface EntryRow {
  readonly accountId: number;
  /** Of its account: 1, 2, 3. */
  readonly entryId: number;
  readonly kind: EntryKind;
  readonly keyId: number | null;
  readonly groupId: number | null;
  /** Added to the pocket, or taken from it where negative. */
  readonly amount: bigint;
  /** Of the pocket. */
  readonly balanceAfter: bigint;
  /** Of `write_off`, else 0. */
  readonly writtenOff: bigint;
  /** The request that was written off; null: none. */
  readonly requestId: string | null;
  readonly note: string;
  readonly createdAtMs: number;
}

/** A change of a balance: an entry, or what a settled request was debited, whose `entryId` is null. */
export interface MovementRow extends Omit<EntryRow, 'entryId' | 'kind'> {
  readonly entryId: number | null;
  readonly kind: EntryKind | 'charge';
}

/** A page, newest first; times from `startMs` on and before `endMs`, absent: any. */
export interface PageFilter {
  readonly limit: number;
  readonly offset: number;
  readonly startMs?: number;
  readonly endMs?: number;
}

/** Which entries. */
export interface EntryFilter extends PageFilter {
  readonly accountId: number;
  /** Absent: any. */
  readonly kinds?: readonly EntryKind[];
}

/** Who does something: the audit names them beside what they did. */
export interface Actor {
  /** `operator`, `management_key`, `session` (a person who signed in), or `gateway`: the program itself. */
  readonly type: string;
  /** Of the key or the person; the name of the operator's token; null: the type says it all. */
  readonly id: string | null;
  /** The network address that the call came from; null: none. */
  readonly address: string | null;
  /** Of the call; null: it has none. */
  readonly requestId: string | null;
}

/** Something that was done, with what was there before and after it. */
export interface AuditRow {
  /** 0: it concerns no account; the operator's own. */
  readonly accountId: number;
  /** Of its account: 1, 2, 3. */
  readonly auditId: number;
  readonly actorType: string;
  readonly actorId: string | null;
  /** `key.update` and the like. */
  readonly action: string;
  readonly resourceType: string;
  readonly resourceId: string | null;
  /** JSON texts; null: it did not exist. */
  readonly before: string | null;
  readonly after: string | null;
  readonly address: string | null;
  readonly requestId: string | null;
  readonly createdAtMs: number;
  /** SHA-256 in hexadecimal; '' in the first of a chain. */
  readonly previousHash: string;
  readonly hash: string;
}

/** Which rows of the audit. */
export interface AuditFilter extends PageFilter {
  /** 0: the operator's own; absent: all. */
  readonly accountId?: number;
}

/** Something that was done outside the ledger. */
export interface RecordedAction {
  /** 0: the operator's own. */
  readonly accountId: number;
  readonly action: string;
  readonly resourceType: string;
  readonly resourceId: string | null;
  /** What is there after it, as a JSON text; null: nothing to say. */
  readonly after: string | null;
}

/** What is removed: rows from before these times. */
export interface RetentionLimits {
  /** Settled requests, and holds that were given back; of the UTC days before it. Accounts with a limit without an end keep theirs: it counts them. */
  readonly activityBeforeMs: number;
  readonly auditBeforeMs: number;
  /** Events that were delivered or given up. */
  readonly eventsBeforeMs: number;
}

/** What the ledger tells of the past, beside requests. */
export interface History {
  listEntries(filter: EntryFilter): Promise<EntryRow[]>;
  /** Entries with the charges between them. */
  listMovements(filter: EntryFilter): Promise<MovementRow[]>;
  listAudit(filter: AuditFilter): Promise<AuditRow[]>;
  /** Adds to the audit what was done outside the ledger. */
  recordAction(action: RecordedAction): Promise<void>;
  /** Removes some of what is older; sums stay. Returns how many rows; 0: there are no more. */
  removeOld(limits: RetentionLimits): Promise<number>;
}
