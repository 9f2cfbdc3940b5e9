import type { GroupSettings, Tags } from '../ledger.ts';
import type { Group, Key, Rows } from '../rows.ts';
import { findOwner, nextNumber } from './context.ts';
import { moveToGroup, returnBalanceOfRemovedGroup } from './holds.ts';

/** Groups: how keys and groups are nested, and how groups are created, changed and removed. */

/** Maximum depth of nested groups. */
const depthMax = 5;

/** Returns the ids of a group and of those above it, nearest first. */
export function pathFrom(rows: Rows, groupId: number | null): readonly number[] {
  if (groupId === null) return none;
  const path: number[] = [];
  for (let id: number | null = groupId; id !== null && path.length < depthMax;) {
    path.push(id);
    id = rows.groups.get(id)?.parentId ?? null;
  }
  return path;
}

const none: readonly number[] = [];

/**
 * Merges the tags of a request. If several have the same name, the request's own wins, then the key's, then that of the nearest group.
 */
export function mergeTags(rows: Rows, key: Key, groups: readonly number[], own: Tags | undefined): Tags {
  const merged: Record<string, string> = {};
  for (const group of groups.toReversed()) Object.assign(merged, rows.groups.get(group)?.tags);
  return Object.assign(merged, key.tags, own);
}

/** Returns a group that is not removed. `accountId`: only if the group belongs to this account; undefined: any account. */
export function findGroup(rows: Rows, groupId: number, accountId: number | undefined): Group | undefined {
  const group = rows.groups.get(groupId);
  const isForeign = accountId !== undefined && group?.accountId !== accountId;
  return group === undefined || group.removed || isForeign ? undefined : group;
}

type Refusal = 'not_found' | 'no_group' | 'insufficient' | 'conflict';

/** Creates a group. Returns its id; `no_group`: the parent does not exist; `conflict`: the group would be nested too deep. */
export function createGroup(
  rows: Rows,
  { accountId, settings }: { readonly accountId: number; readonly settings: GroupSettings },
  nowMs: number,
): number | Refusal {
  const account = rows.accounts.get(accountId);
  if (account === undefined) return 'not_found';
  const { name = '', parentId = null, tags = {}, balance = null, lowBalance = null } = settings;
  if (parentId !== null) {
    if (findGroup(rows, parentId, accountId) === undefined) return 'no_group';
    if (pathFrom(rows, parentId).length >= depthMax) return 'conflict';
  }
  if ((balance ?? 0n) > account.balance - account.held) return 'insufficient';
  const empty = { lowBalance, balance: null, held: 0n, running: 0, spent: 0n, removed: false };
  const group: Group = { id: nextNumber(rows, 'group'), accountId, name, parentId, tags, createdAtMs: nowMs, ...empty };
  rows.groups.put(group);
  if (balance !== null) rows.groups.put({ ...moveToGroup(rows, group, balance, nowMs), balance });
  return group.id;
}

/** Changes the given fields of a group. `conflict`: it would contain itself, or be nested too deep. */
export function updateGroup(
  rows: Rows,
  {
    groupId,
    accountId,
    settings,
  }: { readonly groupId: number; readonly accountId: number | undefined; readonly settings: GroupSettings },
  nowMs: number,
): number | Refusal {
  const group = findGroup(rows, groupId, accountId);
  if (group === undefined) return 'not_found';
  const { balance, parentId, name = group.name, tags = group.tags, lowBalance = group.lowBalance } = settings;
  if (parentId !== undefined && parentId !== null) {
    if (findGroup(rows, parentId, group.accountId) === undefined) return 'no_group';
    const path = pathFrom(rows, parentId);
    if (path.includes(groupId) || path.length + measureHeight(rows, group) > depthMax) return 'conflict';
  }
  const moved = balance === undefined ? group : changeGroupBalance(rows, group, balance, nowMs);
  if (moved === 'insufficient') return moved;
  rows.groups.put({ ...moved, name, tags, lowBalance, parentId: parentId === undefined ? group.parentId : parentId });
  return groupId;
}

/** Returns how many levels of groups this group has, with itself as the first. */
function measureHeight(rows: Rows, { id, accountId }: Group): number {
  const below = rows.listGroups(accountId).filter(({ parentId }) => parentId === id);
  return 1 + Math.max(0, ...below.map(group => measureHeight(rows, group)));
}

function changeGroupBalance(rows: Rows, group: Group, balance: bigint | null, nowMs: number): Group | 'insufficient' {
  const amount = (balance ?? 0n) - (group.balance ?? 0n);
  const account = findOwner(rows, group);
  const covered = amount > 0n ? account.balance - account.held : (group.balance ?? 0n) - group.held;
  if ((amount > 0n ? amount : -amount) > covered) return 'insufficient';
  return { ...moveToGroup(rows, group, amount, nowMs), balance };
}

/** Deletes a group and moves its balance back; held amounts move back when their holds end. `conflict`: the group still has keys or groups. */
export function deleteGroup(
  rows: Rows,
  { groupId, accountId }: { readonly groupId: number; readonly accountId: number | undefined },
  nowMs: number,
): number | Refusal {
  const group = findGroup(rows, groupId, accountId);
  if (group === undefined) return 'not_found';
  const hasGroups = rows.listGroups(group.accountId).some(({ parentId }) => parentId === groupId);
  if (hasGroups || rows.hasKeys(groupId)) return 'conflict';
  for (const limit of rows.listLimits('group', groupId)) rows.limits.put({ ...limit, removed: true });
  const after = { ...group, removed: true };
  rows.groups.put(after);
  returnBalanceOfRemovedGroup(rows, after, nowMs);
  return groupId;
}
