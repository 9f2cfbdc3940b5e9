import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import type { AccountService, GroupSchema, GroupSettings as SettingsMessage } from '../gen/tollgate/v1/account_pb.ts';
import { defined } from '../lib/defined.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { GroupRefusal, GroupRow, GroupSettings, Ledger } from '../ledger/ledger.ts';
import {
  checkText,
  requireRow,
  readId,
  invalidField,
  readGroupId,
  readLowBalance,
  readTags,
} from './account-fields.ts';
import { authenticate, type Caller, type Scope } from './credential.ts';

type Groups = Pick<
  PushedService<typeof AccountService>,
  'listGroups' | 'createGroup' | 'getGroup' | 'updateGroup' | 'deleteGroup'
>;

const nameMax = 200;

/** The methods for groups of the caller's account. */
export function groups(ledger: Ledger): Groups {
  const authenticateAccount = async (caller: Caller, scope: Scope): Promise<number> =>
    (await authenticate(caller, ledger, { scope })).accountId;
  return {
    async listGroups(_request, context) {
      const accountId = await authenticateAccount(context, 'groups:read');
      return { groups: (await ledger.listGroups(accountId)).map(toGroup) };
    },
    async createGroup({ settings: given }, context) {
      const accountId = await authenticateAccount(context, 'groups:write');
      return createGroup(ledger, accountId, given);
    },
    async getGroup({ groupId }, context) {
      const accountId = await authenticateAccount(context, 'groups:read');
      return {
        group: toGroup(requireRow(await ledger.findGroup(readId(groupId, 'group'), accountId), 'group', groupId)),
      };
    },
    async updateGroup({ groupId, settings }, context) {
      return updateGroup(ledger, { groupId, accountId: await authenticateAccount(context, 'groups:write'), settings });
    },
    async deleteGroup({ groupId }, context) {
      return deleteGroup(ledger, { groupId, accountId: await authenticateAccount(context, 'groups:write') });
    },
  };
}

/** Creates a group of an account. Throws if the settings are invalid or the ledger refuses it. */
export async function createGroup(
  ledger: Ledger,
  accountId: number,
  message: SettingsMessage | undefined,
): Promise<{ group: MessageInitShape<typeof GroupSchema> }> {
  const settings = readGroupSettings(message);
  if (settings.name === undefined) throw invalidField('name', 'is required');
  return { group: toGroup(done(await ledger.createGroup({ accountId, settings }), accountId)) };
}

/** Identifies a group. `accountId` undefined: it may belong to any account. */
interface NamedGroup {
  readonly groupId: bigint;
  readonly accountId: number | undefined;
}

/** Changes a group. Throws `not_found`, or the error of a refused change. */
export async function updateGroup(
  ledger: Ledger,
  { groupId: id, accountId, settings: message }: NamedGroup & { readonly settings: SettingsMessage | undefined },
): Promise<{ group: MessageInitShape<typeof GroupSchema> }> {
  const groupId = readId(id, 'group');
  const settings = readGroupSettings(message);
  return { group: toGroup(done(await ledger.updateGroup({ groupId, accountId, settings }), groupId)) };
}

/** Deletes a group. Throws `not_found`, and `conflict` if it still has keys or groups in it. */
export async function deleteGroup(ledger: Ledger, { groupId: id, accountId }: NamedGroup): Promise<object> {
  const groupId = readId(id, 'group');
  const reply = await ledger.deleteGroup({ groupId, accountId });
  if (reply === 'not_found') requireRow(undefined, 'group', groupId);
  if (reply === 'conflict') {
    throw new GatewayError('conflict', `Group ${groupId} has keys or groups in it.`, {
      tip: 'Move or delete them first.',
    });
  }
  return {};
}

function done(reply: GroupRow | GroupRefusal, id: number): GroupRow {
  if (reply !== 'conflict') return requireRow(reply, 'group', id, 'the account or the group');
  throw new GatewayError('conflict', 'Groups can be nested at most 5 deep, and never in themselves.', {
    param: 'parent_group_id',
    tip: 'Choose another parent, or null for none.',
  });
}

function readGroupSettings(message: SettingsMessage | undefined): GroupSettings {
  if (message === undefined) return {};
  const { name, noBalance, balanceNanoUsd } = message;
  if (balanceNanoUsd !== undefined && balanceNanoUsd < 0n) throw invalidField('balance', 'must be 0 or more');
  return defined({
    name: name === undefined ? undefined : checkText('name', name, nameMax),
    parentId: readGroupId(message.parentGroupId, message.noParent),
    tags: readTags(message.tags),
    balance: noBalance ? null : balanceNanoUsd,
    lowBalance: readLowBalance(message.lowBalanceNanoUsd, message.noLowBalance),
  });
}

/** Converts a group to its protobuf message. */
export function toGroup(row: GroupRow): MessageInitShape<typeof GroupSchema> {
  const { parentId, balance } = row;
  return {
    groupId: BigInt(row.groupId),
    accountId: BigInt(row.accountId),
    name: row.name,
    tags: { ...row.tags },
    createdAtMs: BigInt(row.createdAtMs),
    ...(parentId === null ? {} : { parentGroupId: BigInt(parentId) }),
    ...(balance === null ? {} : { balanceNanoUsd: balance }),
    ...(row.lowBalance === null ? {} : { lowBalanceNanoUsd: row.lowBalance }),
  };
}
