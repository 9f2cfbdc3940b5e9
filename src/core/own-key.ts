import type { MessageInitShape } from '@bufbuild/protobuf';
import { type GetOwnKeyResponseSchema, Payer } from '../gen/tollgate/v1/account_pb.ts';
import type { Clock } from '../lib/clock.ts';
import type { GroupRow, KeyRow, Ledger, LimitRow } from '../ledger/ledger.ts';
import { requireRow } from './account-fields.ts';
import { toLimit } from './limit-fields.ts';

/** Returns what the holder of a key may see: the key, the limits of the key, its groups and its account, and who would pay for its next request. */
export async function readOwnKey(
  ledger: Ledger,
  { keyId, accountId }: { readonly keyId: number; readonly accountId: number },
  clock: Clock,
): Promise<MessageInitShape<typeof GetOwnKeyResponseSchema>> {
  const nowMs = clock.now();
  const key = requireRow(await ledger.findKey(keyId, accountId), 'API key', keyId);
  const groups = findPath(await ledger.listGroups(accountId), key.groupId);
  const all = await ledger.listLimits({ accountId });
  const month = new Date(nowMs);
  const startMs = Date.UTC(month.getUTCFullYear(), month.getUTCMonth(), 1);
  const span = { accountId, keyId, startMs, endMs: undefined, groupBy: 'none' } as const;
  const sums = await ledger.analytics({ ...span, granularity: 'day', limit: 100 });
  const spentMonth = typeof sums === 'string' ? 0n : sums.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  const { expiresAtMs, allowedModels } = key;
  const [group] = groups;
  return {
    apiKeyId: BigInt(keyId),
    key: key.masked,
    label: key.label,
    limits: all.filter(limit => binds(limit, key, groups)).map(toLimit),
    paysFrom: await choosePaying(ledger, key, groups),
    spendTodayNanoUsd: key.usageToday,
    spendMonthNanoUsd: spentMonth,
    ...(group === undefined ? {} : { group: group.name }),
    ...(expiresAtMs === undefined ? {} : { expiresAtMs: BigInt(expiresAtMs) }),
    ...(allowedModels === null ? {} : { allowedModels: { models: [...allowedModels] } }),
  };
}

/** Returns a group and all groups above it, nearest first. */
function findPath(all: readonly GroupRow[], groupId: number | null): GroupRow[] {
  const group = all.find(each => each.groupId === groupId);
  return group === undefined ? [] : [group, ...findPath(all, group.parentId)];
}

function binds({ scope, scopeId }: LimitRow, key: KeyRow, groups: readonly GroupRow[]): boolean {
  if (scope === 'key') return scopeId === key.keyId;
  return scope === 'account' || groups.some(({ groupId }) => groupId === scopeId);
}

/** Returns who would pay first for a text request to a model of the plan; unspecified if no funds are left. */
async function choosePaying(ledger: Ledger, key: KeyRow, groups: readonly GroupRow[]): Promise<Payer> {
  const plan = await ledger.findSubscription(key.accountId);
  if (plan !== undefined && plan.freeLeftToday > 0) return Payer.FREE;
  const hasPlan = plan !== undefined && plan.tokens > plan.tokensUsed + plan.tokensHeld;
  const money = await chooseMoney(ledger, key, groups);
  if (key.fallbackToPayg && money !== undefined && !(hasPlan && key.useSubsFirst)) return money;
  return hasPlan ? Payer.SUBSCRIPTION : Payer.UNSPECIFIED;
}

/** Returns whose balance would pay; undefined if that balance is spent, or held by running requests. */
async function chooseMoney(ledger: Ledger, key: KeyRow, groups: readonly GroupRow[]): Promise<Payer | undefined> {
  if (key.balance !== null) return key.balance > key.held ? Payer.KEY_BALANCE : undefined;
  const group = groups.find(({ balance }) => balance !== null);
  if (group !== undefined) return (group.balance ?? 0n) > group.held ? Payer.GROUP_BALANCE : undefined;
  const account = await ledger.findAccount(key.accountId);
  return account !== undefined && account.balance > account.held ? Payer.ACCOUNT : undefined;
}
