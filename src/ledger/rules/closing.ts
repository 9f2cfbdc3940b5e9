import type { Group, Rows } from '../rows.ts';
import { type Context, present } from './context.ts';
import { emitKeyEvent } from './events.ts';
import { deleteGroup } from './groups.ts';
import { returnBalanceOfEndedKey } from './holds.ts';
import { cancelSubscription } from './subscriptions.ts';

/** Closes an account: revokes its keys, removes its groups, and cancels its plan. Returns its id. */
export function closeAccount(context: Context, accountId: number, nowMs: number): number | 'not_found' {
  const { rows } = context;
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  if (account.closedAtMs !== null) return accountId;
  for (const key of rows.listKeys(accountId)) {
    const after = { ...key, state: 'revoked' } as const;
    rows.keys.put(after);
    // Held amounts move back when the hold ends.
    returnBalanceOfEndedKey(rows, after, nowMs);
    emitKeyEvent(rows, after, 'key.revoked', { nowMs });
  }
  for (const key of rows.listManagementKeys(accountId)) rows.managementKeys.put({ ...key, state: 'revoked' });
  const groups = rows.listGroups(accountId);
  // A nested group is removed before its parent.
  for (const { id: groupId } of groups.toSorted((a, b) => measureDepth(rows, b) - measureDepth(rows, a))) {
    deleteGroup(rows, { groupId, accountId }, nowMs);
  }
  if (account.period !== null) cancelSubscription(context, accountId);
  rows.accounts.put({ ...present(rows.accounts.get(accountId)), closedAtMs: nowMs });
  return accountId;
}

function measureDepth(rows: Rows, group: Group): number {
  const parent = group.parentId === null ? undefined : rows.groups.get(group.parentId);
  return parent === undefined ? 0 : 1 + measureDepth(rows, parent);
}
