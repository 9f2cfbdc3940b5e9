import type { Limit } from '../gen/tollgate/v1/account_pb.ts';
import type { GatewayClients } from './gateway.ts';
import { type Command, InvalidArgumentError } from 'commander';
import { defined } from '../lib/defined.ts';
import { parseDollars } from '../lib/dollars.ts';
import { parseIsoTime } from '../lib/iso-time.ts';
import { balanceOrNone, idArgument, nameArgument, requireChange, tagsArgument, wordsArgument } from './arguments.ts';
import { type RemotePorts, ResourceCommands } from './remote.ts';
import { groupView, limitView, listedGroupView, type ListedLimit, listedLimitView } from './resources.ts';
import { accountArgument, groupOrNone, groupPath, scopeArgument } from './names.ts';

/** The commands of limits and groups. */

const scopes = { account: 'account', group: 'group', key: 'key' } as const;
const units = { usd: 'usd', requests: 'requests', tokens: 'tokens', concurrent: 'concurrent' } as const;
const windows = { minute: 'minute', hour: 'hour', day: 'day', week: 'week', month: 'month', total: 'total' } as const;
const endUsers = { all: 'all', each: 'each' } as const;
const actions = { refuse: 'refuse', alert: 'alert' } as const;

/** A maximum as dollars and, if it is an integer, also as a count. The gateway uses the one that fits the limit's unit. */
interface Max {
  readonly max?: bigint;
  readonly maxNanoUsd: bigint;
}

const nanoPerDollar = 1_000_000_000n;

function maxArgument(text: string): Max {
  const maxNanoUsd = parseDollars(text);
  if (maxNanoUsd === undefined || maxNanoUsd < 0n) {
    throw new InvalidArgumentError('It must be a number, 0 or more: dollars with the unit usd, else a count.');
  }
  return { maxNanoUsd, ...(maxNanoUsd % nanoPerDollar === 0n ? { max: maxNanoUsd / nanoPerDollar } : {}) };
}

function timeArgument(text: string): bigint {
  const time = parseIsoTime(text);
  if (time === undefined) throw new InvalidArgumentError('It must be an ISO 8601 time, such as 2026-12-31T23:59:59Z.');
  return BigInt(time.floorMs);
}

interface LimitOptions {
  readonly max?: Max;
  readonly timeZone?: string;
  readonly models?: string[];
  readonly endUsers?: string;
  readonly action?: string;
  readonly raisedMax?: Max;
  readonly raisedUntil?: bigint;
  readonly raised?: boolean;
}

function toSettings({ max, timeZone, models, endUsers: users, action, ...raise }: LimitOptions) {
  const { raisedMax, raisedUntil, raised } = raise;
  return {
    ...max,
    timeZone,
    models: models === undefined || models.includes('all') ? undefined : { models },
    allModels: models?.includes('all') === true || undefined,
    endUsers: users,
    action,
    raised: raisedMax && { ...raisedMax, untilMs: raisedUntil ?? 0n },
    notRaised: raised === false || undefined,
  };
}

/** Adds the options that creating and changing a limit have in common. */
function withSettings(command: Command): Command {
  return command
    .option('--time-zone <name>', 'time zone of its calendar windows, such as Europe/Berlin (default: UTC)')
    .option('--models <ids>', 'count only these models: ids and patterns separated by commas, or all', wordsArgument)
    .option(
      '--end-users <all|each>',
      'one maximum for all end users together, or one for each (default: all)',
      nameArgument(endUsers),
    )
    .option(
      '--action <refuse|alert>',
      'refuse requests, or only send an event, when it is reached (default: refuse)',
      nameArgument(actions),
    )
    .option('--raised-max <number>', 'a temporary maximum, in force until --raised-until', maxArgument)
    .option('--raised-until <time>', 'when the temporary maximum ends', timeArgument);
}

interface CreateLimitOptions extends LimitOptions {
  readonly account: bigint;
  readonly scope: keyof typeof scopes;
  readonly id?: bigint;
  readonly unit: keyof typeof units;
  readonly window?: keyof typeof windows;
  readonly locked?: boolean;
}

/** Adds `limits create | list | update | delete`. */
export function limitCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('limits').description('limits of accounts, groups and keys');
  const limits = new ResourceCommands(group, ports, limitView);
  withSettings(
    limits
      .one('create', 'create a limit', async ({ admin }, { account: accountId, ...given }: CreateLimitOptions) => {
        const { scope, id: scopeId = scope === 'account' ? accountId : 0n, unit, window = '', locked = false } = given;
        const limit = { scope, scopeId, unit, window, settings: defined(toSettings(given)) };
        return (await admin.createAccountLimit({ accountId, limit, locked })).limit;
      })
      .requiredOption('--account <account>', 'the account', accountArgument)
      .requiredOption('--scope <account|group|key>', 'what it limits', nameArgument(scopes))
      .option('--id <id>', 'the group or key, with --scope group or key: its id or name', scopeArgument)
      .requiredOption('--unit <usd|requests|tokens|concurrent>', 'what it counts', nameArgument(units))
      .option(
        '--window <minute|hour|day|week|month|total>',
        'the period that it counts; not with --unit concurrent',
        nameArgument(windows),
      )
      .requiredOption('--max <number>', 'the maximum: dollars with the unit usd, else a count', maxArgument)
      .option('--locked', 'the account’s management keys can see it but not change it'),
  );
  new ResourceCommands(group, ports, listedLimitView)
    .list('list an account’s limits', async ({ admin }, { account }: { account: bigint }) => listLimits(admin, account))
    .requiredOption('--account <account>', 'the account', accountArgument);
  withSettings(
    limits
      .one('update', 'change a limit', async ({ admin }, limitId: bigint, given: LimitOptions) => {
        const settings = requireChange('limits update', toSettings(given));
        const { limit } = await admin.updateAccountLimit({ limitId, settings });
        return limit;
      })
      .argument('<limit_id>', 'the limit', idArgument)
      .option('--max <number>', 'the maximum: dollars with the unit usd, else a count', maxArgument),
  ).option('--no-raised', 'end the temporary maximum now');
  limits
    .done('delete', 'delete a limit', async ({ admin }, limitId: bigint) => {
      await admin.deleteAccountLimit({ limitId });
      return `limit ${limitId} deleted`;
    })
    .argument('<limit_id>', 'the limit', idArgument);
}

/** Returns the limits of an account, with the names of what they limit. */
async function listLimits(admin: GatewayClients['admin'], accountId: bigint): Promise<ListedLimit[]> {
  const [{ limits }, { account }, { groups }, { keys }] = await Promise.all([
    admin.listAccountLimits({ accountId }),
    admin.getAccount({ accountId }),
    admin.listAccountGroups({ accountId }),
    admin.listApiKeys({ accountId }),
  ]);
  const findName = ({ scope, scopeId }: Limit): string | undefined => {
    if (scope === 'account') return account?.name;
    if (scope === 'key') return keys.find(({ apiKeyId }) => apiKeyId === scopeId)?.label;
    const group = groups.find(({ groupId }) => groupId === scopeId);
    return group && groupPath(group, groups);
  };
  return limits.map(limit => ({ limit, name: findName(limit) ?? '' }));
}

interface GroupOptions {
  readonly name?: string;
  readonly parent?: { readonly id: bigint | undefined };
  readonly tags?: Record<string, string>;
  readonly balance?: ReturnType<typeof balanceOrNone>;
}

function toGroupSettings({ name, parent, tags, balance }: GroupOptions) {
  return {
    name,
    parentGroupId: parent?.id,
    noParent: parent && parent.id === undefined,
    tags: tags && { tags },
    balanceNanoUsd: balance?.nanoUsd,
    noBalance: balance && balance.nanoUsd === undefined,
  };
}

function withGroupSettings(command: Command): Command {
  return command
    .option('--parent <group|none>', 'its parent group', groupOrNone)
    .option('--tags <tags>', 'tags of its requests, such as team=search,env=prod', tagsArgument)
    .option('--balance <dollars|none>', 'its own balance, moved out of the account’s', balanceOrNone);
}

/** Adds `groups create | list | update | delete`. */
export function groupCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('groups').description('groups of keys, with limits and balances of their own');
  const groups = new ResourceCommands(group, ports, groupView);
  withGroupSettings(
    groups
      .one('create', 'create a group', async ({ admin }, given: GroupOptions & { account: bigint }) => {
        const settings = defined(toGroupSettings(given));
        return (await admin.createAccountGroup({ accountId: given.account, settings })).group;
      })
      .requiredOption('--account <account>', 'the account', accountArgument)
      .requiredOption('--name <name>', 'a name for people'),
  );
  new ResourceCommands(group, ports, listedGroupView)
    .list('list an account’s groups', async ({ admin }, { account: accountId }: { account: bigint }) => {
      const { groups: listed } = await admin.listAccountGroups({ accountId });
      return listed.map(each => ({
        group: each,
        parent: listed.find(({ groupId }) => groupId === each.parentGroupId)?.name,
      }));
    })
    .requiredOption('--account <account>', 'the account', accountArgument);
  withGroupSettings(
    groups
      .one('update', 'change a group', async ({ admin }, groupId: bigint, given: GroupOptions) => {
        const settings = requireChange('groups update', toGroupSettings(given));
        const answer = await admin.updateAccountGroup({ groupId, settings });
        return answer.group;
      })
      .argument('<group_id>', 'the group', idArgument)
      .option('--name <name>', 'a name for people'),
  );
  groups
    .done('delete', 'delete a group that has no keys and no groups', async ({ admin }, groupId: bigint) => {
      await admin.deleteAccountGroup({ groupId });
      return `group ${groupId} deleted`;
    })
    .argument('<group_id>', 'the group', idArgument);
}
