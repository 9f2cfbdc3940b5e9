import type { ApiKey, Group, Limit } from '../../gen/tollgate/v1/account_pb.ts';
import { type Account, KeyState } from '../../gen/tollgate/v1/admin_pb.ts';
import type { Webhook } from '../../gen/tollgate/v1/webhook_pb.ts';
import { isoTime } from '../../lib/clock.ts';
import { parseIsoTime } from '../../lib/iso-time.ts';
import { parseJsonDollars } from '../../lib/dollars.ts';
import { CommandFailure } from '../failure.ts';
import type { GatewayClients } from '../gateway.ts';
import { canonical, type Change, type Fields, findChanges, type MadeSecret, type Step } from './steps.ts';
import type { Wanted, WantedAccount, WantedGroup, WantedKey, WantedLimit, WantedWebhook } from './wanted.ts';

type Admin = GatewayClients['admin'];

/** The current content of an account, including what earlier steps have created. */
interface Present {
  readonly name: string;
  id: bigint;
  readonly account: Account | undefined;
  readonly groups: Map<string, Group>;
  readonly keys: ReadonlyMap<string, ApiKey>;
  readonly limits: readonly Limit[];
  readonly webhooks: readonly Webhook[];
}

/**
 * Returns the steps that change the gateway to the state in the file, in order. `prunes`: also delete objects that the file does not name,
 * of the kinds for which the file has a section.
 */
export async function makePlan(admin: Admin, wanted: Wanted, prunes: boolean): Promise<Step[]> {
  const { accounts } = await admin.listAccounts({});
  const steps: Step[] = [];
  for (const each of wanted.accounts) {
    const found = accounts.filter(({ name }) => name === each.name);
    if (found.length > 1) throw ambiguous(`accounts are called ${each.name}`);
    steps.push(...planAccount(await readPresent(admin, each.name, found[0]), each, prunes));
  }
  if (wanted.webhooks !== undefined) {
    const { webhooks } = await admin.listAccountWebhooks({ accountId: 0n });
    const operator = { name: null, getId: () => 0n };
    steps.push(...planWebhooks(operator, webhooks, wanted.webhooks, prunes));
  }
  return steps;
}

function ambiguous(what: string): CommandFailure {
  return new CommandFailure(1, [`Two ${what}: rename one first.`]);
}

async function readPresent(admin: Admin, name: string, account: Account | undefined): Promise<Present> {
  const none = {
    name,
    id: 0n,
    account,
    groups: new Map<string, Group>(),
    keys: new Map<string, ApiKey>(),
    limits: [],
    webhooks: [],
  };
  if (account === undefined) return none;
  const { accountId } = account;
  const [groups, keys, limits, webhooks] = await Promise.all([
    admin.listAccountGroups({ accountId }),
    admin.listApiKeys({ accountId }),
    admin.listAccountLimits({ accountId }),
    admin.listAccountWebhooks({ accountId }),
  ]);
  return {
    ...none,
    id: accountId,
    groups: byName(groups.groups, group => group.name, `groups of account ${name}`),
    keys: byName(keys.keys, key => key.label, `keys of account ${name}`),
    limits: limits.limits,
    webhooks: webhooks.webhooks,
  };
}

/** Indexes objects by name. Objects without a name are left out. Throws if two have the same name. */
function byName<T>(things: readonly T[], readName: (thing: T) => string, what: string): Map<string, T> {
  const named = new Map<string, T>();
  for (const thing of things) {
    const name = readName(thing);
    if (name === '') continue;
    if (named.has(name)) throw ambiguous(`${what} are called ${name}`);
    named.set(name, thing);
  }
  return named;
}

function planAccount(present: Present, wanted: WantedAccount, prunes: boolean): Step[] {
  const { account, name } = present;
  const fields = { low_balance: wanted.low_balance };
  const change = (id: bigint) => ({ accountId: id, ...lowBalance(wanted.low_balance) });
  const steps: Step[] = [];
  const base = { kind: 'account', name, account: name, makesSecret: false } as const;
  if (account === undefined) {
    const changes = findChanges({ opening_balance: wanted.opening_balance, ...fields }, {});
    const run: Step['run'] = async admin => {
      const made = await admin.createAccount({ name, balanceNanoUsd: wanted.opening_balance });
      present.id = made.account?.accountId ?? 0n;
      if (wanted.low_balance !== undefined) await admin.updateAccount(change(present.id));
      return undefined;
    };
    steps.push({ ...base, action: 'create', changes, run });
  } else {
    const changes = findChanges(fields, { low_balance: account.lowBalanceNanoUsd });
    const run: Step['run'] = async admin => void (await admin.updateAccount(change(account.accountId)));
    if (changes.length > 0) steps.push({ ...base, action: 'update', changes, run });
  }
  const { groups, keys, limits, webhooks } = wanted;
  for (const group of groups ?? []) steps.push(...planGroup(present, group, prunes));
  for (const key of keys ?? []) steps.push(...planKey(present, key, prunes));
  if (limits !== undefined) {
    const scope = { type: 'account', name, getId: () => present.id } as const;
    steps.push(...planLimits(present, scope, limits, prunes));
  }
  if (webhooks !== undefined) {
    steps.push(...planWebhooks({ name, getId: () => present.id }, present.webhooks, webhooks, prunes));
  }
  if (prunes) steps.push(...pruneKeys(present, keys), ...pruneGroups(present, groups));
  return steps;
}

function lowBalance(value: bigint | null | undefined) {
  return { lowBalanceNanoUsd: value ?? undefined, noLowBalance: value === null };
}

function balance(value: bigint | null | undefined) {
  return { balanceNanoUsd: value ?? undefined, noBalance: value === null };
}

/** Returns the balance that is compared with the file. An existing balance counts as equal to the wanted one, because it is spent, and applying the same file again must not fill it up. */
function presentBalance(is: bigint | undefined, wanted: bigint | null | undefined): bigint | undefined {
  return is !== undefined && typeof wanted === 'bigint' ? wanted : is;
}

function findGroupName(present: Present, id: bigint | undefined): string | null {
  return [...present.groups.values()].find(({ groupId }) => groupId === id)?.name ?? null;
}

function findGroupId(present: Present, name: string): bigint {
  const found = present.groups.get(name);
  if (found === undefined) throw new CommandFailure(1, [`Account ${present.name} has no group ${name}.`]);
  return found.groupId;
}

/** Returns the wanted values of the fields that change. */
function pick<T extends object>(wanted: T, changes: readonly Change[]): Partial<T> {
  const names = new Set(changes.map(({ field }) => field));
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => names.has(name))) as Partial<T>;
}

function planGroup(present: Present, { limits, ...wanted }: WantedGroup, prunes: boolean): Step[] {
  const { name, ...fields } = wanted;
  const group = present.groups.get(name);
  const is: Fields =
    group === undefined
      ? {}
      : {
          parent: findGroupName(present, group.parentGroupId),
          tags: group.tags,
          balance: presentBalance(group.balanceNanoUsd, wanted.balance),
          low_balance: group.lowBalanceNanoUsd,
        };
  const changes = findChanges(fields, is);
  const changed = pick(fields, changes);
  const toSettings = () => ({
    parentGroupId: typeof changed.parent === 'string' ? findGroupId(present, changed.parent) : undefined,
    noParent: changed.parent === null,
    tags: changed.tags && { tags: changed.tags },
    ...balance(changed.balance),
    ...lowBalance(changed.low_balance),
  });
  const base = { kind: 'group', name, account: present.name, changes, makesSecret: false };
  const steps: Step[] = [];
  if (group === undefined) {
    const run: Step['run'] = async admin => {
      const made = await admin.createAccountGroup({ accountId: present.id, settings: { name, ...toSettings() } });
      if (made.group !== undefined) present.groups.set(name, made.group);
      return undefined;
    };
    steps.push({ ...base, action: 'create', run });
  } else if (changes.length > 0) {
    const { groupId } = group;
    const run: Step['run'] = async admin => void (await admin.updateAccountGroup({ groupId, settings: toSettings() }));
    steps.push({ ...base, action: 'update', run });
  }
  const scope = { type: 'group', name, getId: () => findGroupId(present, name), id: group?.groupId } as const;
  return limits === undefined ? steps : [...steps, ...planLimits(present, scope, limits, prunes)];
}

function planKey(present: Present, { limits, ...wanted }: WantedKey, prunes: boolean): Step[] {
  const { label, ...fields } = wanted;
  const key = present.keys.get(label);
  const changes = findChanges(
    fields,
    key === undefined
      ? { disabled: false }
      : { ...describeKey(present, key), balance: presentBalance(key.balanceNanoUsd, wanted.balance) },
  );
  const { disabled, ...changed } = pick(fields, changes);
  const toSettings = () => ({
    groupId: typeof changed.group === 'string' ? findGroupId(present, changed.group) : undefined,
    noGroup: changed.group === null,
    allowedModels: changed.allowed_models ? { models: changed.allowed_models } : undefined,
    allowAllModels: changed.allowed_models === null,
    expiresAtMs:
      typeof changed.expires_at === 'string' ? BigInt(parseIsoTime(changed.expires_at)?.floorMs ?? 0) : undefined,
    neverExpires: changed.expires_at === null,
    tags: changed.tags && { tags: changed.tags },
    metadataJson: changed.metadata && JSON.stringify(changed.metadata),
    useSubsFirst: changed.use_subs_first,
    fallbackToPayg: changed.fallback_to_payg,
    keepBodies: changed.keep_bodies === null ? '' : changed.keep_bodies,
    paused: changed.paused,
    ...balance(changed.balance),
    ...lowBalance(changed.low_balance),
  });
  let id = key?.apiKeyId;
  const setState = async (admin: Admin): Promise<undefined> => {
    if (disabled === undefined || id === undefined) return undefined;
    await admin.setApiKeyState({ apiKeyId: id, state: disabled ? KeyState.DISABLED : KeyState.ENABLED });
    return undefined;
  };
  const base = { kind: 'key', name: label, account: present.name, changes };
  const steps: Step[] = [];
  if (id === undefined) {
    const run = async (admin: Admin): Promise<MadeSecret> => {
      const made = await admin.createApiKey({ accountId: present.id, settings: { label, ...toSettings() } });
      id = made.key?.apiKeyId ?? 0n;
      return { account: present.name, key: label, id: Number(id), secret: made.key?.key ?? '' };
    };
    steps.push({ ...base, action: 'create', makesSecret: true, run });
    if (disabled === true) {
      const run: Step['run'] = setState;
      steps.push({
        ...base,
        action: 'update',
        changes: [{ field: 'disabled', from: false, to: true }],
        makesSecret: false,
        run,
      });
    }
  } else if (changes.length > 0) {
    const apiKeyId = id;
    const run: Step['run'] = async admin => {
      await admin.updateApiKey({ apiKeyId, settings: toSettings() });
      return setState(admin);
    };
    steps.push({ ...base, action: 'update', makesSecret: false, run });
  }
  const scope = { type: 'key', name: label, getId: () => id ?? 0n, id: key?.apiKeyId } as const;
  return limits === undefined ? steps : [...steps, ...planLimits(present, scope, limits, prunes)];
}

function describeKey(present: Present, key: ApiKey): Fields {
  return {
    group: findGroupName(present, key.groupId),
    allowed_models: key.allowedModels?.models,
    low_balance: key.lowBalanceNanoUsd,
    expires_at: key.expiresAtMs === undefined ? null : isoTime(key.expiresAtMs),
    tags: key.tags,
    metadata: JSON.parse(key.metadataJson || '{}'),
    use_subs_first: key.useSubsFirst,
    fallback_to_payg: key.fallbackToPayg,
    keep_bodies: key.keepBodies === '' ? null : key.keepBodies,
    paused: key.paused,
    disabled: key.disabled,
  };
}

/** The account, group or key that limits belong to. */
interface Scope {
  readonly type: 'account' | 'group' | 'key';
  readonly name: string;
  readonly getId: () => bigint;
  /** Absent if an earlier step creates the object. */
  readonly id?: bigint | undefined;
}

/** Returns a text that identifies a limit within its scope. */
function identify({
  unit,
  window,
  models,
  endUsers,
  action,
}: {
  unit: string;
  window: string | null;
  models: readonly string[] | null;
  endUsers: string;
  action: string;
}): string {
  return canonical([unit, window, models === null ? null : [...models].sort(), endUsers, action]);
}

function nameLimit(
  scope: Scope,
  { unit, window, models }: { unit: string; window: string | null; models: readonly string[] | null },
): string {
  const of = models === null ? '' : ` of ${models.join(', ')}`;
  return `${unit}${window === null ? '' : ` a ${window}`}${of} of ${scope.type} ${scope.name}`;
}

function planLimits(present: Present, scope: Scope, wanted: readonly WantedLimit[], prunes: boolean): Step[] {
  const id = scope.type === 'account' ? present.account?.accountId : scope.id;
  const mine = present.limits.filter(
    limit => limit.scope === scope.type && limit.scopeId === id && !isFreeWindow(limit),
  );
  const left = new Map(mine.map(limit => [identify(toIdentity(limit)), limit]));
  const matched = new Map(wanted.map(each => [each, take(left, identify({ ...each, endUsers: each.end_users }))]));
  const steps = wanted.flatMap((each): Step[] => {
    const other = each.action === 'alert' ? 'refuse' : 'alert';
    // A limit of which only the action differs is changed, unless the file has it too.
    const limit = matched.get(each) ?? take(left, identify({ ...each, endUsers: each.end_users, action: other }));
    return planLimit(present, scope, each, limit);
  });
  if (!prunes) return steps;
  for (const limit of left.values()) {
    const { limitId } = limit;
    const run: Step['run'] = async admin => void (await admin.deleteAccountLimit({ limitId }));
    const name = nameLimit(scope, toIdentity(limit));
    steps.push({ action: 'delete', kind: 'limit', name, account: present.name, changes: [], makesSecret: false, run });
  }
  return steps;
}

/** Removes an entry of a map, and returns it. */
function take<T>(map: Map<string, T>, name: string): T | undefined {
  const found = map.get(name);
  map.delete(name);
  return found;
}

/** The windows of free models exist in every account and are never pruned. */
function isFreeWindow({ locked, scope, unit, models }: Limit): boolean {
  return (
    locked && scope === 'account' && unit === 'requests' && models?.models.length === 1 && models.models[0] === '*:free'
  );
}

function toIdentity({ unit, window, models, endUsers, action }: Limit) {
  return { unit, window: window === '' ? null : window, models: models?.models ?? null, endUsers, action };
}

function planLimit(present: Present, scope: Scope, wanted: WantedLimit, limit: Limit | undefined): Step[] {
  const { unit, window, models, end_users: endUsers, action, time_zone: timeZone, locked } = wanted;
  const max = unit === 'usd' ? (parseJsonDollars(String(wanted.max)) ?? 0n) : BigInt(Math.round(wanted.max));
  const amount = unit === 'usd' ? { maxNanoUsd: max } : { max };
  const show = (value: bigint): unknown => (unit === 'usd' ? value : Number(value));
  const fields = { max: show(max), time_zone: timeZone, action };
  // Only a new limit can differ in these.
  const fixed = { models, end_users: endUsers, locked };
  const changes =
    limit === undefined
      ? findChanges({ ...fields, ...fixed }, {})
      : findChanges(fields, { max: show(limit.max), time_zone: limit.timeZone, action: limit.action });
  if (limit !== undefined && changes.length === 0) return [];
  const base = { kind: 'limit', name: nameLimit(scope, wanted), account: present.name, changes, makesSecret: false };
  if (limit !== undefined) {
    const { limitId } = limit;
    const run: Step['run'] = async admin =>
      void (await admin.updateAccountLimit({ limitId, settings: { ...amount, timeZone, action } }));
    return [{ ...base, action: 'update', run }];
  }
  const settings = { ...amount, timeZone, models: models === null ? undefined : { models }, endUsers, action };
  const run: Step['run'] = async admin => {
    const made = { scope: scope.type, scopeId: scope.getId(), unit, window: window ?? '', settings };
    return void (await admin.createAccountLimit({ accountId: present.id, limit: made, locked }));
  };
  return [{ ...base, action: 'create', run }];
}

interface WebhookOwner {
  /** The account's name; null for the operator. */
  readonly name: string | null;
  readonly getId: () => bigint;
}

function planWebhooks(
  owner: WebhookOwner,
  present: readonly Webhook[],
  wanted: readonly WantedWebhook[],
  prunes: boolean,
): Step[] {
  const steps = wanted.flatMap(({ url, events, disabled }): Step[] => {
    const webhook = present.find(each => each.url === url);
    const is: Fields =
      webhook === undefined ? { disabled: false } : { events: [...webhook.events].sort(), disabled: webhook.disabled };
    const changes = findChanges({ events: events && [...events].sort(), disabled }, is);
    const settings = { disabled, events: events && { types: events } };
    const base = { kind: 'webhook', name: url, account: owner.name, changes };
    if (webhook === undefined) {
      const run = async (admin: Admin): Promise<MadeSecret> => {
        const made = await admin.createAccountWebhook({ accountId: owner.getId(), settings: { url, ...settings } });
        return {
          account: owner.name,
          webhook: url,
          id: Number(made.webhook?.webhookId ?? 0n),
          secret: made.webhook?.secret ?? '',
        };
      };
      return [{ ...base, action: 'create', makesSecret: true, run }];
    }
    if (changes.length === 0) return [];
    const { webhookId } = webhook;
    const run: Step['run'] = async admin => void (await admin.updateAccountWebhook({ webhookId, settings }));
    return [{ ...base, action: 'update', makesSecret: false, run }];
  });
  if (!prunes) return steps;
  for (const { webhookId, url } of present.filter(each => !wanted.some(({ url: kept }) => kept === each.url))) {
    const run: Step['run'] = async admin => void (await admin.deleteAccountWebhook({ webhookId }));
    steps.push({
      action: 'delete',
      kind: 'webhook',
      name: url,
      account: owner.name,
      changes: [],
      makesSecret: false,
      run,
    });
  }
  return steps;
}

/** Returns the steps that delete keys that the file does not name. Keys without a label stay, because a file can't name them. */
function pruneKeys(present: Present, wanted: readonly WantedKey[] | undefined): Step[] {
  if (wanted === undefined) return [];
  const kept = new Set(wanted.map(({ label }) => label));
  return [...present.keys]
    .filter(([label]) => !kept.has(label))
    .map(([label, { apiKeyId }]): Step => {
      const run: Step['run'] = async admin => void (await admin.setApiKeyState({ apiKeyId, state: KeyState.REVOKED }));
      return {
        action: 'delete',
        kind: 'key',
        name: label,
        account: present.name,
        changes: [],
        makesSecret: false,
        run,
      };
    });
}

/** Returns the steps that delete groups that the file does not name; a group is deleted before its parent. */
function pruneGroups(present: Present, wanted: readonly WantedGroup[] | undefined): Step[] {
  if (wanted === undefined) return [];
  const kept = new Set(wanted.map(({ name }) => name));
  const gone = [...present.groups.values()].filter(({ name }) => !kept.has(name));
  const measureDepth = (group: Group): number => {
    const parent = [...present.groups.values()].find(({ groupId }) => groupId === group.parentGroupId);
    return parent === undefined ? 0 : 1 + measureDepth(parent);
  };
  return gone
    .sort((a, b) => measureDepth(b) - measureDepth(a))
    .map(({ name, groupId }): Step => {
      const run: Step['run'] = async admin => void (await admin.deleteAccountGroup({ groupId }));
      return { action: 'delete', kind: 'group', name, account: present.name, changes: [], makesSecret: false, run };
    });
}
