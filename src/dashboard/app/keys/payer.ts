import type { ApiKey, Group } from '../../../gen/tollgate/v1/account_pb.ts';

/** Returns the group whose balance pays a key's requests: the nearest one that has a balance. Undefined: the key has its own, or the account pays. */
export function payingGroup({ balanceNanoUsd, groupId }: ApiKey, groups: readonly Group[]): Group | undefined {
  if (balanceNanoUsd !== undefined) return undefined;
  for (let id = groupId; id !== undefined;) {
    const group = groups.find(each => each.groupId === id);
    if (group?.balanceNanoUsd !== undefined) return group;
    id = group?.parentGroupId;
  }
  return undefined;
}
