import { Code, ConnectError } from '@connectrpc/connect';
import type { Account } from '../../gen/tollgate/v1/admin_pb.ts';
import { dollarsText } from '../../lib/dollars.ts';
import type { GatewayClients } from '../gateway.ts';
import type { Wanted, WantedAccount } from './wanted.ts';

/**
 * Finds what the gateway would refuse while the file is applied, before anything is changed: unknown models and groups, names that are too long, and balances that the account
 * can't pay for.
 */

/** The most characters of a name. */
const nameMax = 200;

/** Returns the refusals in words, each with its account; empty: none is expected. */
export async function findRefusals({ admin, catalog }: GatewayClients, wanted: Wanted): Promise<string[]> {
  const { accounts } = await admin.listAccounts({});
  const unknown = await findUnknownModels(catalog, wanted);
  const found: string[] = [];
  for (const each of wanted.accounts) {
    const account = accounts.find(({ name }) => name === each.name);
    const present = account === undefined ? nothing : await readPresent(admin, account);
    const problems = [
      ...checkNames(each),
      ...checkGroups(each, present.groups),
      ...listModels(each).flatMap(({ of, model }) => (unknown.has(model) ? [`${of}: there is no model ${model}`] : [])),
      ...checkFunds(each, account, present),
    ];
    found.push(...problems.map(problem => `account ${each.name}: ${problem}`));
  }
  return found;
}

/** The names of an account's objects that have a balance of their own, and of all its groups. */
interface Present {
  readonly groups: ReadonlySet<string>;
  readonly funded: ReadonlySet<string>;
}

const nothing: Present = { groups: new Set(), funded: new Set() };

async function readPresent(admin: GatewayClients['admin'], { accountId }: Account): Promise<Present> {
  const [{ groups }, { keys }] = await Promise.all([
    admin.listAccountGroups({ accountId }),
    admin.listApiKeys({ accountId }),
  ]);
  const funded = [
    ...groups.filter(({ balanceNanoUsd }) => balanceNanoUsd !== undefined).map(({ name }) => `group ${name}`),
    ...keys.filter(({ balanceNanoUsd }) => balanceNanoUsd !== undefined).map(({ label }) => `key ${label}`),
  ];
  return { groups: new Set(groups.map(({ name }) => name)), funded: new Set(funded) };
}

function checkNames({ name, groups = [], keys = [] }: WantedAccount): string[] {
  const names = [
    ['its name', name],
    ...groups.map(each => [`group ${each.name}`, each.name]),
    ...keys.map(({ label }) => [`key ${label}`, label]),
  ];
  return names.flatMap(([of = '', text = '']) =>
    text.length > nameMax ? [`${of.slice(0, 40)}… has more than ${nameMax} characters`] : [],
  );
}

/** A group must exist, or be created by an earlier line of the file. */
function checkGroups({ groups = [], keys = [] }: WantedAccount, present: ReadonlySet<string>): string[] {
  const known = new Set(present);
  const problems: string[] = [];
  for (const { name, parent } of groups) {
    if (typeof parent === 'string' && !known.has(parent)) {
      problems.push(`group ${name}: its parent ${parent} does not exist and is not listed before it`);
    }
    known.add(name);
  }
  for (const { label, group } of keys) {
    if (typeof group === 'string' && !known.has(group)) problems.push(`key ${label}: there is no group ${group}`);
  }
  return problems;
}

/** Returns the models that an account's keys and limits name, without patterns. */
function listModels({ groups = [], keys = [], limits = [] }: WantedAccount) {
  const named = [
    ...keys.map(({ label, allowed_models: models }) => ({ of: `key ${label}`, models: models ?? [] })),
    ...[
      ...limits.map(limit => ({ of: 'a limit of the account', limit })),
      ...groups.flatMap(({ name, limits: own = [] }) => own.map(limit => ({ of: `a limit of group ${name}`, limit }))),
      ...keys.flatMap(({ label, limits: own = [] }) => own.map(limit => ({ of: `a limit of key ${label}`, limit }))),
    ].map(({ of, limit }) => ({ of, models: limit.models ?? [] })),
  ];
  return named.flatMap(({ of, models }) => models.filter(model => !model.includes('*')).map(model => ({ of, model })));
}

async function findUnknownModels(catalog: GatewayClients['catalog'], wanted: Wanted): Promise<ReadonlySet<string>> {
  const unknown = new Set<string>();
  for (const id of new Set(wanted.accounts.flatMap(listModels).map(({ model }) => model))) {
    try {
      await catalog.getModel({ id });
    } catch (error) {
      if (ConnectError.from(error).code === Code.Unavailable) throw error;
      unknown.add(id);
    }
  }
  return unknown;
}

/** Balances of groups, and of keys whose group has none, are moved out of the account's. */
function checkFunds(
  { opening_balance: opening, groups = [], keys = [] }: WantedAccount,
  account: Account | undefined,
  { funded }: Present,
): string[] {
  const available = account === undefined ? opening : account.balanceNanoUsd - account.heldNanoUsd;
  const own = new Set(groups.filter(({ balance }) => typeof balance === 'bigint').map(({ name }) => name));
  const paid = [
    ...groups.map(({ name, balance }) => ({ of: `group ${name}`, balance })),
    ...keys
      .filter(({ group }) => typeof group !== 'string' || (!own.has(group) && !funded.has(`group ${group}`)))
      .map(({ label, balance }) => ({ of: `key ${label}`, balance })),
  ].filter(({ of }) => !funded.has(of));
  const needed = paid.reduce((sum, { balance }) => sum + (typeof balance === 'bigint' ? balance : 0n), 0n);
  if (needed <= available) return [];
  return [`its groups and keys get $${dollarsText(needed)}, and it has $${dollarsText(available)}`];
}
