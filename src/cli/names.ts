import { InvalidArgumentError } from 'commander';
import type { ApiKey, Group } from '../gen/tollgate/v1/account_pb.ts';
import type { Account } from '../gen/tollgate/v1/admin_pb.ts';
import { idArgument } from './arguments.ts';
import { CommandFailure } from './failure.ts';
import type { GatewayClients } from './gateway.ts';

/** Options that take the id of an account, group or key, or its name. A text of digits is an id. */

type Admin = GatewayClients['admin'];

/** A name that an option has instead of an id, until the gateway is asked for the id. */
export class ObjectName {
  readonly kind: 'account' | 'group' | 'scope';
  readonly text: string;

  constructor(kind: 'account' | 'group' | 'scope', text: string) {
    this.kind = kind;
    this.text = text;
  }
}

function parse(kind: ObjectName['kind'], text: string): bigint | ObjectName {
  if (text === '') throw new InvalidArgumentError('It must be an id or a name.');
  return /^\d+$/.test(text) ? idArgument(text) : new ObjectName(kind, text);
}

/** Parses the id or name of an account. */
export const accountArgument = (text: string): bigint | ObjectName => parse('account', text);

/** Parses the id, name or PARENT/NAME of a group. */
export const groupArgument = (text: string): bigint | ObjectName => parse('group', text);

/** Parses the id or name of what `--scope` names. */
export const scopeArgument = (text: string): bigint | ObjectName => parse('scope', text);

/** Parses the id, name or PARENT/NAME of a group; undefined for `none`. */
export function groupOrNone(text: string): { readonly id: bigint | ObjectName | undefined } {
  return { id: text === 'none' ? undefined : groupArgument(text) };
}

/** Returns the id of the account with an id or name. Throws `CommandFailure` (wrong use) if there is none, or more than one. */
export async function findAccountId(admin: Admin, account: bigint | ObjectName): Promise<bigint> {
  if (typeof account === 'bigint') return account;
  const { accounts } = await admin.listAccounts({});
  const found = accounts.filter(({ name, closedAtMs }) => name === account.text && closedAtMs === undefined);
  return only(found, { kind: 'account', account, findId: each => each.accountId, describe: each => each.name });
}

/**
 * Returns the arguments of a command with ids instead of names. `command`: the group of commands (`keys`); `given`: its arguments, then its options and the command.
 * Throws `CommandFailure` (wrong use) if a name is unknown, or several objects have it.
 */
export async function resolveNames<Arguments extends readonly unknown[]>(
  admin: Admin,
  command: string,
  given: Arguments,
): Promise<Arguments> {
  if (!given.some(hasName)) return given;
  const options = given.at(-2) as Readonly<Record<string, unknown>>;
  const named = options['account'];
  const accountId = named instanceof ObjectName ? await findAccountId(admin, named) : named;
  const places: Places = {
    accountId: typeof accountId === 'bigint' ? accountId : await findOwner(admin, command, given[0]),
    scope: String(options['scope']),
  };
  const resolved = await Promise.all(given.map(async each => resolve(admin, each, places)));
  return resolved as unknown as Arguments;
}

/** Where a name is looked up. */
interface Places {
  /** undefined: in all accounts. */
  readonly accountId: bigint | undefined;
  readonly scope: string;
}

function hasName(value: unknown): boolean {
  if (value instanceof ObjectName) return true;
  return isPlain(value) && Object.values(value).some(each => hasName(each));
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

async function resolve(admin: Admin, value: unknown, places: Places): Promise<unknown> {
  if (value instanceof ObjectName) return findId(admin, value, places);
  if (!isPlain(value)) return value;
  const members = Object.entries(value).map(async ([name, each]) => [name, await resolve(admin, each, places)]);
  return Object.fromEntries((await Promise.all(members)) as [string, unknown][]);
}

/** Returns the account of the key or group that a command changes; undefined: unknown. */
async function findOwner(admin: Admin, command: string, id: unknown): Promise<bigint | undefined> {
  if (typeof id !== 'bigint') return undefined;
  if (command === 'keys') return (await admin.getApiKey({ apiKeyId: id })).key?.accountId;
  if (command !== 'groups') return undefined;
  return (await listGroups(admin, undefined)).find(({ groupId }) => groupId === id)?.accountId;
}

async function findId(admin: Admin, name: ObjectName, { accountId, scope }: Places): Promise<bigint> {
  const kind = name.kind === 'scope' ? scope : name.kind;
  if (kind === 'account') return findAccountId(admin, name);
  if (kind === 'key') {
    const keys = (await listKeys(admin, accountId)).filter(({ label }) => label === name.text);
    return only(keys, { kind, account: name, findId: each => each.apiKeyId, describe: each => each.key });
  }
  const groups = await listGroups(admin, accountId);
  const describe = (group: Group): string => groupPath(group, groups);
  const found = groups.filter(group => group.name === name.text || describe(group) === name.text);
  return only(found, { kind: 'group', account: name, findId: each => each.groupId, describe });
}

async function listAccounts(
  admin: Admin,
  accountId: bigint | undefined,
): Promise<readonly Pick<Account, 'accountId'>[]> {
  return accountId === undefined ? (await admin.listAccounts({})).accounts : [{ accountId }];
}

async function listKeys(admin: Admin, accountId: bigint | undefined): Promise<ApiKey[]> {
  const keys: ApiKey[] = [];
  for (const each of await listAccounts(admin, accountId)) keys.push(...(await admin.listApiKeys(each)).keys);
  return keys;
}

async function listGroups(admin: Admin, accountId: bigint | undefined): Promise<Group[]> {
  const groups: Group[] = [];
  for (const each of await listAccounts(admin, accountId)) groups.push(...(await admin.listAccountGroups(each)).groups);
  return groups;
}

/** Returns a group's name after those of the groups that it is in: `search/prod`. */
export function groupPath(group: Group, groups: readonly Group[]): string {
  const parent = groups.find(({ groupId }) => groupId === group.parentGroupId);
  return parent === undefined ? group.name : `${groupPath(parent, groups)}/${group.name}`;
}

interface Described<T> {
  readonly kind: string;
  readonly account: ObjectName;
  readonly findId: (thing: T) => bigint;
  readonly describe: (thing: T) => string;
}

function only<T>(found: readonly T[], { kind, account: { text }, findId: idOf, describe }: Described<T>): bigint {
  const [first, ...more] = found;
  if (first === undefined) throw new CommandFailure(2, [`There is no ${kind} called ${text}.`]);
  if (more.length === 0) return idOf(first);
  const ids = found.map(each => `${idOf(each)} (${describe(each)})`).join(', ');
  throw new CommandFailure(2, [`${found.length} ${kind}s are called ${text}: give one of the ids ${ids}.`]);
}
