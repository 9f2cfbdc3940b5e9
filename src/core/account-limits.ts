import { GatewayError } from '../errors/gateway-error.ts';
import type { AccountService, ListLimitsRequest } from '../gen/tollgate/v1/account_pb.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { Ledger, LimitFilter, LimitRefusal, LimitRow, LimitScope } from '../ledger/ledger.ts';
import { requireRow, readId, invalidField, type FindListedId, notFound } from './account-fields.ts';
import { authenticate, type Caller, type Scope } from './credential.ts';
import { readLimitChange, readNewLimit, toLimit } from './limit-fields.ts';

type Limits = Pick<
  PushedService<typeof AccountService>,
  'listLimits' | 'createLimit' | 'getLimit' | 'updateLimit' | 'deleteLimit'
>;

const scopes: readonly LimitScope[] = ['account', 'group', 'key'];

/** The methods for limits of the caller's account. Limits that the operator made are listed, but the account can't change them. */
export function limits(ledger: Ledger, findListedId: FindListedId): Limits {
  const authenticateAccount = async (caller: Caller, scope: Scope): Promise<number> =>
    (await authenticate(caller, ledger, { scope })).accountId;
  return {
    async listLimits(request, context) {
      const accountId = await authenticateAccount(context, 'limits:read');
      return { limits: (await ledger.listLimits(readFilter(request, accountId))).map(toLimit) };
    },
    async createLimit({ limit }, context) {
      const accountId = await authenticateAccount(context, 'limits:write');
      const wanted = readNewLimit(limit, { accountId, locked: false, findListedId });
      await checkPatterns(ledger, wanted);
      return { limit: toLimit(made(await ledger.createLimit(wanted))) };
    },
    async getLimit({ limitId }, context) {
      const accountId = await authenticateAccount(context, 'limits:read');
      return {
        limit: toLimit(requireRow(await ledger.findLimit(readId(limitId, 'limit'), accountId), 'limit', limitId)),
      };
    },
    async updateLimit({ limitId: id, settings }, context) {
      const accountId = await authenticateAccount(context, 'limits:write');
      const limitId = readId(id, 'limit');
      const row = requireRow(await ledger.findLimit(limitId, accountId), 'limit', limitId);
      const change = readLimitChange(settings, row.unit, findListedId);
      await checkPatterns(ledger, { ...row, models: change.models ?? null });
      return { limit: toLimit(unlocked(await ledger.updateLimit({ limitId, accountId, change }), limitId)) };
    },
    async deleteLimit({ limitId: id }, context) {
      const accountId = await authenticateAccount(context, 'limits:write');
      const limitId = readId(id, 'limit');
      unlocked(await ledger.deleteLimit({ limitId, accountId }), limitId);
      return {};
    },
  };
}

function readFilter({ scope, scopeId }: ListLimitsRequest, accountId: number): LimitFilter {
  if (scope === '' && scopeId === 0n) return { accountId };
  const type = scopes.find(each => each === scope);
  if (type === undefined) throw invalidField('scope', `must be one of ${scopes.join(', ')}`, scope);
  return { accountId, scope: type, ...(scopeId === 0n ? {} : { scopeId: Number(scopeId) }) };
}

/** The most patterns with `*` in all limits that can count one request. Source: docs/security.md "Limits of size and time". */
const patternsMax = 1_000;

/** Throws `validation_error` if a request could be counted by more than `patternsMax` patterns: those of the account, of its key, and of its group with the groups above it. */
export async function checkPatterns(
  ledger: Pick<Ledger, 'listLimits' | 'listGroups'>,
  limit: Pick<LimitRow, 'accountId' | 'scope' | 'scopeId'> & {
    readonly models?: readonly string[] | null;
    readonly limitId?: number;
  },
): Promise<void> {
  if (limit.models?.some(isPattern) !== true) return;
  const { accountId } = limit;
  const rows = (await ledger.listLimits({ accountId })).filter(each => each.limitId !== limit.limitId);
  const counts = new Map<string, number>();
  for (const { scope, scopeId, models } of [...rows, limit]) {
    const name = `${scope} ${scopeId}`;
    counts.set(name, (counts.get(name) ?? 0) + (models?.filter(isPattern).length ?? 0));
  }
  const groups = new Map((await ledger.listGroups(accountId)).map(each => [each.groupId, each.parentId]));
  const chains = Array.from(groups.keys(), first => {
    let sum = 0;
    for (let id: number | null | undefined = first; id !== null && id !== undefined; id = groups.get(id)) {
      sum += counts.get(`group ${id}`) ?? 0;
    }
    return sum;
  });
  const keys = [...counts].filter(([name]) => name.startsWith('key ')).map(([, count]) => count);
  const most = (counts.get(`account ${accountId}`) ?? 0) + Math.max(0, ...chains) + Math.max(0, ...keys);
  if (most <= patternsMax) return;
  throw invalidField('models', `must leave at most ${patternsMax} patterns with * in all limits that count a request`);
}

function isPattern(model: string): boolean {
  return model.includes('*');
}

/** Returns the created limit. Throws `not_found` if the account has no such scope, and `conflict` if the scope has too many limits. */
export function made(reply: LimitRow | 'not_found' | 'too_many'): LimitRow {
  if (reply === 'not_found') throw new GatewayError('not_found', 'There is no such scope.', { param: 'scope.id' });
  if (reply === 'too_many') {
    throw new GatewayError('conflict', 'The scope has the maximum number of limits.', {
      tip: 'Change or delete one of its limits first.',
    });
  }
  return reply;
}

/** Returns the ledger's reply (the changed limit, or 'deleted') if the change was not refused. Throws `not_found`, and `permission_denied` for a limit that the caller can't change. */
export function unlocked<Done extends LimitRow | 'deleted'>(reply: Done | LimitRefusal, limitId: number): Done {
  if (reply === 'not_found') throw notFound('limit', limitId);
  if (reply === 'fixed') {
    const message = `Limit ${limitId} is a window of free models, which is the same for every account and can’t be changed.`;
    throw new GatewayError('permission_denied', message, { tip: 'Make another, lower limit in addition.' });
  }
  if (reply !== 'locked') return reply;
  throw new GatewayError(
    'permission_denied',
    `Limit ${limitId} was made by the operator; the account can’t change it.`,
    {
      tip: `Ask the operator: npx tollgate limits update ${limitId} --max N.`,
    },
  );
}
