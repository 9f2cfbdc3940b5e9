import type { VoidReason } from '../ledger.ts';
import type { Account, Entry, Hold, Key, Request, Rows } from '../rows.ts';
import { dayOf } from './calendar.ts';
import { findOwner, present } from './context.ts';

/** What holds touch, and money that moves: every change of a balance is here. */

/** More to hold, or less where negative: money and tokens of the plan. */
export interface HeldChange {
  readonly money: bigint;
  readonly planTokens: number;
}

/** How a hold ends: what its payers pay. A free request that is not taken is given back. */
export interface Release {
  readonly debit: bigint;
  readonly planTokens: number;
  readonly freeTaken: boolean;
}

/** Puts a hold and raises what it touches. The request must be counted in its day. */
export function placeHold(rows: Rows, hold: Hold): void {
  rows.holds.put(hold);
  changePayer(rows, hold, hold.held, 0n);
  changePeriod(rows, hold, hold.planHeld, 0);
  if (hold.payers === 'free_request') countFreeRequest(rows, hold, hold.answers);
}

/** Puts a hold that was extended, and raises what it touches by the change. */
export function raiseHold(rows: Rows, hold: Hold, { money, planTokens }: HeldChange): void {
  rows.holds.put(hold);
  changePayer(rows, hold, money, 0n);
  changePeriod(rows, hold, planTokens, 0);
}

/** Ends a hold: what it touched is lowered, what its payers pay is taken from them. What a revoked key then has moves to the account. */
export function releaseHold(rows: Rows, hold: Hold, { debit, planTokens, freeTaken }: Release, atMs: number): void {
  rows.holds.remove(hold.id);
  changePeriod(rows, hold, -hold.planHeld, planTokens);
  if (hold.payers === 'free_request' && !freeTaken) countFreeRequest(rows, hold, -hold.answers);
  changePayer(rows, hold, -hold.held, debit);
  if (hold.payer === 'key_balance') sendBack(rows, present(rows.keys.get(hold.keyId)), atMs);
}

/** Gives a hold back. */
export function voidHold(rows: Rows, hold: Hold, reason: VoidReason, atMs: number): void {
  releaseHold(rows, hold, { debit: 0n, planTokens: 0, freeTaken: false }, atMs);
  const { id, accountId, keyId, modelId, free, answers, admittedAtMs, held } = hold;
  const number = (rows.voided.get(id)?.number ?? 0) + 1;
  rows.voided.put({
    id,
    number,
    accountId,
    keyId,
    modelId,
    free,
    answers,
    admittedAtMs,
    held,
    voidedAtMs: atMs,
    reason,
  });
}

/** Adds to an account's balance, or takes from it where negative, with the entry that says why. The caller has seen that it may. */
export function changeBalance(
  rows: Rows,
  account: Account,
  change: bigint,
  entry: Pick<Entry, 'kind' | 'amount' | 'atMs'> & Partial<Entry>,
): void {
  const number = account.entries + 1;
  rows.accounts.put({ ...account, balance: account.balance + change, entries: number });
  rows.addEntry({ keyId: null, usageId: null, period: null, note: '', ...entry, accountId: account.id, number });
}

/** Moves an amount from the account to the key, or back where negative. The caller has seen that no hold covers it. Returns the key. */
export function moveToKey(rows: Rows, key: Key, amount: bigint, atMs: number): Key {
  const after = { ...key, balance: (key.balance ?? 0n) + amount };
  rows.keys.put(after);
  if (amount !== 0n) {
    changeBalance(rows, findOwner(rows, key), -amount, { kind: 'move', keyId: key.id, amount, atMs });
  }
  return after;
}

/** Moves to the account what a revoked key has beyond its holds. */
export function sendBack(rows: Rows, key: Key, atMs: number): void {
  if (key.state !== 'revoked' || key.balance === null || key.balance === key.held) return;
  moveToKey(rows, key, key.held - key.balance, atMs);
}

/** Changes what is held of the payer and of the key's day of admission, and debits both. */
function changePayer(rows: Rows, request: Request, held: bigint, debit: bigint): void {
  if (held === 0n && debit === 0n) return;
  const own = request.payer === 'key_balance';
  if (own) {
    const key = present(rows.keys.get(request.keyId));
    rows.keys.put({ ...key, balance: key.balance === null ? null : key.balance - debit, held: key.held + held });
  } else {
    const account = findOwner(rows, request);
    rows.accounts.put({ ...account, balance: account.balance - debit, held: account.held + held });
  }
  const day = present(rows.keyDays.get(request.keyId, dayOf(request.admittedAtMs)));
  const spentOwn = own ? day.spentOwn + debit : day.spentOwn;
  rows.keyDays.put({ ...day, held: day.held + held, spent: day.spent + debit, spentOwn });
}

/** Changes the tokens that are held and used of the request's period. */
function changePeriod(rows: Rows, { accountId, period: number }: Request, held: number, used: number): void {
  if (number === null || (held === 0 && used === 0)) return;
  const period = present(rows.periods.get(accountId, number));
  rows.periods.put({ ...period, held: period.held + held, used: period.used + used });
}

/** Takes that many of the plan's free requests of the day of admission, or gives them back. */
function countFreeRequest(rows: Rows, { accountId, admittedAtMs }: Request, by: number): void {
  const day = dayOf(admittedAtMs);
  rows.planDays.put({ accountId, day, requests: (rows.planDays.get(accountId, day)?.requests ?? 0) + by });
}
