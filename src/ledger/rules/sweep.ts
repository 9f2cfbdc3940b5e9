import type { Context } from './context.ts';
import { sendBack, voidHold } from './holds.ts';
import { renewSubscription } from './subscriptions.ts';

/** Ends what is over by now, so that no command sees it: holds that expired, then balances of keys that did, then periods of plans, which both can pay. */
export function sweep(context: Context, nowMs: number): void {
  const { rows } = context;
  for (const hold of rows.expiredHolds(nowMs)) voidHold(rows, hold, 'expired', hold.expiresAtMs ?? nowMs);
  for (const key of rows.expiredKeys(nowMs)) sendBack(rows, key, nowMs);
  for (const period of rows.endedPeriods(nowMs)) renewSubscription(context, period, nowMs);
}

/** Gives back what a process that is gone has left, and what has expired. Returns how many holds of the gateway's own that were. */
export function recover(context: Context, nowMs: number): number {
  const { rows } = context;
  for (const hold of rows.expiredHolds(nowMs)) voidHold(rows, hold, 'expired', hold.expiresAtMs ?? nowMs);
  const left = rows.ownHolds();
  for (const hold of left) voidHold(rows, hold, 'restarted', nowMs);
  sweep(context, nowMs);
  return left.length;
}
