import type { Rows } from '../rows.ts';
import type { Context } from './context.ts';
import { returnBalanceOfEndedKey, voidHold } from './holds.ts';
import { renewSubscription } from './subscriptions.ts';

/** Runs the function that ends one expired row of an account. */
export type EndOne = (accountId: number, end: () => void) => void;

const atOnce: EndOne = (_, end) => end();

/**
 * Ends everything that is over at `nowMs`, so that no command sees it: expired holds first, then balances of expired keys, then plan periods,
 * because the money of the first two may pay for a renewal. Skips accounts that are suspended as damaged.
 */
export function sweep(context: Context, nowMs: number, endOne: EndOne = atOnce): void {
  const { rows } = context;
  for (const hold of rows.expiredHolds(nowMs)) {
    if (isDamaged(rows, hold.accountId)) continue;
    endOne(hold.accountId, () => voidHold(rows, hold, 'expired', hold.expiresAtMs ?? nowMs));
  }
  for (const key of rows.expiredKeys(nowMs)) {
    if (isDamaged(rows, key.accountId)) continue;
    endOne(key.accountId, () => returnBalanceOfEndedKey(rows, key, nowMs));
  }
  for (const period of rows.endedPeriods(nowMs)) {
    if (isDamaged(rows, period.accountId)) continue;
    endOne(period.accountId, () => renewSubscription(context, period, nowMs));
  }
}

/** Voids the holds that earlier processes of this gateway left behind, and sweeps. Returns the number of those holds. */
export function recover(context: Context, nowMs: number, endOne: EndOne = atOnce): number {
  const { rows } = context;
  for (const hold of rows.expiredHolds(nowMs)) {
    endOne(hold.accountId, () => voidHold(rows, hold, 'expired', hold.expiresAtMs ?? nowMs));
  }
  const left = rows.ownHolds();
  for (const hold of left) endOne(hold.accountId, () => voidHold(rows, hold, 'restarted', nowMs));
  sweep(context, nowMs, endOne);
  return left.length;
}

function isDamaged(rows: Rows, accountId: number): boolean {
  return rows.accounts.get(accountId)?.suspended === 'damaged';
}
