import type { VoidReason } from '../ledger.ts';
import type { Account, Entry, Group, Hold, Key, Request, Rows, Tally } from '../rows.ts';
import { toDay } from './calendar.ts';
import { findOwner, present } from './context.ts';
import { emitLowBalanceEvent } from './events.ts';
import { bindRequest } from './bind-limits.ts';
import { type BoundLimit, changeUses, tallyAdmission, tallyHold } from './limits.ts';

/** Places, changes and ends holds, and updates all amounts that include them. All changes of balances are made in this file. */

/** How a hold ends: the money and the plan's tokens that are debited. `freeTaken`: false if the free daily request that paid is returned to the plan. */
export interface Release {
  readonly debit: bigint;
  readonly planTokens: number;
  readonly freeTaken: boolean;
  /** Returns what the request adds to limits after its end. */
  readonly tally: () => Tally;
  readonly bound: readonly BoundLimit[];
}

/** A hold before a change; undefined if it is a new one. */
type Before = Hold | undefined;

/** Counts a new or changed hold in the limits that apply to it, and updates the uses in `bound`. */
function countHold(
  rows: Rows,
  bound: readonly BoundLimit[],
  [before, after]: readonly [Before, Hold],
  nowMs: number,
): void {
  if (bound.length === 0) return;
  changeUses(rows, bound, { before: before && tallyHold(before), after: tallyHold(after) }, nowMs);
}

/** Stores a new hold and adds it to every amount that includes it. The request must already be counted in its day. Updates the uses in `bound`. */
export function placeHold(rows: Rows, hold: Hold, bound: readonly BoundLimit[], nowMs: number): void {
  countHold(rows, bound, [undefined, hold], nowMs);
  rows.holds.put(hold);
  changePayer(rows, hold, { held: hold.held, debit: 0n, running: 1 }, nowMs);
  changePeriod(rows, hold, hold.planHeld, 0);
  if (hold.payers === 'free_request') countFreeRequest(rows, hold, hold.requests);
}

/** Stores an extended hold and adds the difference to every amount that includes it. Updates the uses in `bound`. */
export function raiseHold(
  rows: Rows,
  [before, hold]: readonly [Hold, Hold],
  bound: readonly BoundLimit[],
  nowMs: number,
): void {
  countHold(rows, bound, [before, hold], nowMs);
  rows.holds.put(hold);
  changePayer(rows, hold, { held: hold.held - before.held, debit: 0n, running: 0 }, nowMs);
  changePeriod(rows, hold, hold.planHeld - before.planHeld, 0);
}

/**
 * Ends a hold: takes it out of every amount that includes it, and debits the payers. The remaining balance of a revoked or expired key, or
 * of a removed group, moves to the account.
 */
export function releaseHold(rows: Rows, hold: Hold, release: Release, atMs: number): void {
  const { debit, planTokens, freeTaken, tally, bound } = release;
  if (bound.length > 0) changeUses(rows, bound, { before: tallyHold(hold), after: tally() }, atMs);
  rows.holds.remove(hold.id);
  changePeriod(rows, hold, -hold.planHeld, planTokens);
  if (hold.payers === 'free_request' && !freeTaken) countFreeRequest(rows, hold, -hold.requests);
  changePayer(rows, hold, { held: -hold.held, debit, running: -1 }, atMs);
  if (hold.payer === 'key_balance') returnBalanceOfEndedKey(rows, present(rows.keys.get(hold.keyId)), atMs);
  if (hold.payerGroup !== null) returnBalanceOfRemovedGroup(rows, present(rows.groups.get(hold.payerGroup)), atMs);
}

/** Voids a hold. */
export function voidHold(rows: Rows, hold: Hold, reason: VoidReason, atMs: number): void {
  const bound = bindRequest(rows, hold, atMs);
  const tally = (): Tally => tallyAdmission(hold);
  releaseHold(rows, hold, { debit: 0n, planTokens: 0, freeTaken: false, tally, bound }, atMs);
  const { id, accountId, keyId, modelId, free, admittedAtMs, held, requests, endUserId, groups } = hold;
  const number = (rows.voided.get(id)?.number ?? 0) + 1;
  const request = { id, accountId, keyId, modelId, free, requests, endUserId, groups, admittedAtMs };
  rows.voided.put({ ...request, number, held, voidedAtMs: atMs, reason });
}

/** Counts an admission in the key's day. */
export function countRequest(rows: Rows, keyId: number, nowMs: number): void {
  const day = toDay(nowMs);
  const before = rows.keyDays.get(keyId, day);
  rows.keyDays.put({
    keyId,
    day,
    requests: (before?.requests ?? 0) + 1,
    spent: before?.spent ?? 0n,
    spentOwn: before?.spentOwn ?? 0n,
    held: before?.held ?? 0n,
    lastUsedAtMs: Math.max(before?.lastUsedAtMs ?? 0, nowMs),
  });
}

/** The fields of an entry except its owner and its amounts. */
type EntryFacts = Pick<Entry, 'kind' | 'atMs'> & Partial<Entry>;

/** Adds an entry of an account. */
function addEntry(rows: Rows, accountId: number, entry: EntryFacts & Pick<Entry, 'amount' | 'balanceAfter'>): void {
  const account = present(rows.accounts.get(accountId));
  const number = account.entries + 1;
  rows.accounts.put({ ...account, entries: number });
  const nothing = {
    keyId: null,
    groupId: null,
    writtenOff: 0n,
    usageId: null,
    period: null,
    note: '',
    reference: null,
  };
  rows.addEntry({ ...nothing, ...entry, accountId, number });
}

/** Adds an amount (negative: subtracts it) to an account's balance, and adds an entry. The caller has checked that the balance allows it. */
export function changeBalance(rows: Rows, account: Account, amount: bigint, entry: EntryFacts): void {
  const balanceAfter = account.balance + amount;
  const after = { ...account, balance: balanceAfter };
  rows.accounts.put(after);
  emitLowBalanceEvent(rows, { type: 'account', row: after }, account.balance, entry.atMs);
  addEntry(rows, account.id, { ...entry, amount, balanceAfter });
}

/** Adds an entry for the part of a request's cost that could not be debited from its payer. */
export function addWriteOff(rows: Rows, hold: Hold, writtenOff: bigint, atMs: number): void {
  const keyId = hold.payer === 'key_balance' ? hold.keyId : null;
  const { payerGroup: groupId } = hold;
  const key = keyId === null ? undefined : present(rows.keys.get(keyId));
  const group = groupId === null ? undefined : present(rows.groups.get(groupId));
  const balanceAfter = (key ?? group ?? findOwner(rows, hold)).balance ?? 0n;
  const facts = { kind: 'write_off', usageId: hold.id, amount: 0n, atMs } as const;
  addEntry(rows, hold.accountId, { ...facts, keyId, groupId, balanceAfter, writtenOff });
}

/** Moves an amount from the account to the key; a negative one moves back. The caller has checked that no hold needs it. Returns the changed key. */
export function moveToKey(rows: Rows, key: Key, amount: bigint, atMs: number): Key {
  const balanceAfter = (key.balance ?? 0n) + amount;
  const after = { ...key, balance: balanceAfter };
  rows.keys.put(after);
  if (amount === 0n) return after;
  emitLowBalanceEvent(rows, { type: 'key', row: after }, key.balance ?? 0n, atMs);
  changeBalance(rows, findOwner(rows, key), -amount, { kind: 'move', note: nameMove('key', key.id, amount), atMs });
  addEntry(rows, key.accountId, { kind: 'move', keyId: key.id, amount, balanceAfter, atMs });
  return after;
}

/** Moves an amount from the account to the group, like `moveToKey`. Returns the changed group. */
export function moveToGroup(rows: Rows, group: Group, amount: bigint, atMs: number): Group {
  const balanceAfter = (group.balance ?? 0n) + amount;
  const after = { ...group, balance: balanceAfter };
  rows.groups.put(after);
  if (amount === 0n) return after;
  emitLowBalanceEvent(rows, { type: 'group', row: after }, group.balance ?? 0n, atMs);
  const { id, accountId } = group;
  changeBalance(rows, findOwner(rows, group), -amount, { kind: 'move', note: nameMove('group', id, amount), atMs });
  addEntry(rows, accountId, { kind: 'move', groupId: id, amount, balanceAfter, atMs });
  return after;
}

/** Returns the note for the account's entry of a move. The other entry of the move needs none: it has the id of the key or group. */
function nameMove(type: 'key' | 'group', id: number, amount: bigint): string {
  return `${amount > 0n ? 'to' : 'from'} ${type} ${id}`;
}

/** Moves the balance of a removed group back to the account, except what its holds need. Does nothing for other groups. */
export function returnBalanceOfRemovedGroup(rows: Rows, group: Group, atMs: number): void {
  if (!group.removed || group.balance === null || group.balance === group.held) return;
  moveToGroup(rows, group, group.held - group.balance, atMs);
}

/** Returns whether a key has expired. */
export function hasExpired({ expiresAtMs }: Key, nowMs: number): boolean {
  return expiresAtMs !== null && expiresAtMs <= nowMs;
}

/** Moves the balance of a revoked or expired key back to the account, except what its holds need: that stays until they end. Does nothing for other keys. */
export function returnBalanceOfEndedKey(rows: Rows, key: Key, atMs: number): void {
  const isOver = key.state === 'revoked' || hasExpired(key, atMs);
  if (!isOver || key.balance === null || key.balance === key.held) return;
  moveToKey(rows, key, key.held - key.balance, atMs);
}

/** The changes to a payer: held amount, debited amount, and number of running holds. */
interface PayerChange {
  readonly held: bigint;
  readonly debit: bigint;
  readonly running: number;
}

/** Changes the payer, and the held and spent amounts of the key's day of admission. */
function changePayer(rows: Rows, hold: Hold, change: PayerChange, atMs: number): void {
  const { held, debit } = change;
  const running = hold.tokens === null ? 0 : change.running;
  if (held === 0n && debit === 0n && running === 0) return;
  const own = hold.payer === 'key_balance';
  if (own) {
    const key = present(rows.keys.get(hold.keyId));
    const balance = key.balance === null ? null : key.balance - debit;
    const after = { ...key, balance, held: key.held + held, running: key.running + running };
    rows.keys.put(after);
    emitLowBalanceEvent(rows, { type: 'key', row: after }, key.balance ?? 0n, atMs);
  } else if (hold.payerGroup !== null) {
    const group = present(rows.groups.get(hold.payerGroup));
    const balance = group.balance === null ? null : group.balance - debit;
    const amounts = { held: group.held + held, running: group.running + running, spent: group.spent + debit };
    const after = { ...group, balance, ...amounts };
    rows.groups.put(after);
    emitLowBalanceEvent(rows, { type: 'group', row: after }, group.balance ?? 0n, atMs);
  } else {
    const account = findOwner(rows, hold);
    const balance = account.balance - debit;
    const after = { ...account, balance, held: account.held + held, running: account.running + running };
    rows.accounts.put(after);
    emitLowBalanceEvent(rows, { type: 'account', row: after }, account.balance, atMs);
  }
  if (held === 0n && debit === 0n) return;
  const day = present(rows.keyDays.get(hold.keyId, toDay(hold.admittedAtMs)));
  const spentOwn = own ? day.spentOwn + debit : day.spentOwn;
  rows.keyDays.put({ ...day, held: day.held + held, spent: day.spent + debit, spentOwn });
}

/** Changes the held and used tokens of the plan's period that the request counts in. */
function changePeriod(rows: Rows, { accountId, period: number }: Request, held: number, used: number): void {
  if (number === null || (held === 0 && used === 0)) return;
  const period = present(rows.periods.get(accountId, number));
  rows.periods.put({ ...period, held: period.held + held, used: period.used + used });
}

/** Counts `by` of the plan's free daily requests as used on the day of admission; a negative number returns them. */
function countFreeRequest(rows: Rows, { accountId, admittedAtMs }: Request, by: number): void {
  const day = toDay(admittedAtMs);
  rows.planDays.put({ accountId, day, requests: (rows.planDays.get(accountId, day)?.requests ?? 0) + by });
}
