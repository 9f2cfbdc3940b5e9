import type { ApiKey, Group, Limit } from '../../../gen/tollgate/v1/account_pb.ts';

/** A source of money or tokens. Absent `nano`: it is counted otherwise. */
export interface PayerInOrder {
  readonly name: string;
  readonly nano?: bigint;
}

/** The groups that a key lies in, the nearest first. */
export function groupsAbove({ groupId }: ApiKey, groups: readonly Group[]): readonly Group[] {
  const found: Group[] = [];
  for (let id = groupId; id !== undefined;) {
    const group = groups.find(each => each.groupId === id);
    if (group === undefined || found.includes(group)) break;
    found.push(group);
    id = group.parentGroupId;
  }
  return found;
}

/** What pays a key's requests, in order: a balance of the key or of its nearest group stands in place of the account's. */
export function payersInOrder(
  apiKey: ApiKey,
  groups: readonly Group[],
  accountNanoUsd: bigint,
): readonly PayerInOrder[] {
  const { balanceNanoUsd, useSubsFirst, fallbackToPayg } = apiKey;
  const paying = groups.find(group => group.balanceNanoUsd !== undefined);
  const money: PayerInOrder =
    balanceNanoUsd !== undefined
      ? { name: 'The key’s own balance', nano: balanceNanoUsd }
      : paying?.balanceNanoUsd !== undefined
        ? { name: `The balance of group ${paying.name}`, nano: paying.balanceNanoUsd }
        : { name: 'The account’s balance', nano: accountNanoUsd };
  const free: PayerInOrder = { name: 'Free daily requests of the account’s plan, if it has one' };
  const plan: PayerInOrder = { name: 'The tokens of the account’s plan, if it has one' };
  if (!useSubsFirst) return fallbackToPayg ? [free, money, plan] : [free, plan];
  return fallbackToPayg ? [free, plan, money] : [free, plan];
}

/** What a limit is compared with. */
export interface NextRequest {
  readonly apiKey: ApiKey;
  /** The nearest first. */
  readonly groups: readonly Group[];
  /** Absent: any. */
  readonly model: string | undefined;
}

/** The limits that bind a request: those of the key, of its groups from the nearest up, and of the account. */
export function bindingLimits(limits: readonly Limit[], { apiKey, groups, model }: NextRequest): readonly Limit[] {
  const places: readonly (readonly [string, bigint])[] = [
    ['key', apiKey.apiKeyId],
    ...groups.map(({ groupId }) => ['group', groupId] as const),
    ['account', apiKey.accountId],
  ];
  return places.flatMap(([scope, id]) =>
    limits.filter(limit => limit.scope === scope && limit.scopeId === id && counts(limit, model)),
  );
}

/** Whether a limit counts a model: it counts all, or names it or a pattern of it. */
function counts({ models }: Limit, model: string | undefined): boolean {
  if (models === undefined || model === undefined) return true;
  return models.models.some(pattern => {
    const parts = pattern.split('*');
    if (parts.length === 1) return pattern === model;
    const source = parts.map(part => RegExp.escape(part)).join('.*');
    return new RegExp(`^${source}$`).test(model);
  });
}
