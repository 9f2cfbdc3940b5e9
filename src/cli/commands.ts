import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { ApiKey } from '../gen/tollgate/v1/account_pb.ts';
import { KeyState } from '../gen/tollgate/v1/admin_pb.ts';
import {
  balanceArgument,
  balanceOrNone,
  creditArgument,
  dollarsOrNone,
  expiryArgument,
  expiryOrNone,
  idArgument,
  jsonArgument,
  limitArgument,
  nameArgument,
  requireChange,
  secondsArgument,
  tagsArgument,
  wordsArgument,
} from './arguments.ts';
import { RepeatableFailure } from './gateway.ts';
import { entryView, toPage, withPage } from './history-commands.ts';
import { nextCommand } from './next-command.ts';
import { findKeys, type ListedKey, listedKeyView, listKeys } from './key-list.ts';
import { priceChangeView, readPriceChanges } from './price-history.ts';
import { type RemotePorts, ResourceCommands } from './remote.ts';
import {
  accountView,
  apiKeyView,
  managementKeyView,
  modelView,
  planPeriods,
  planView,
  plans,
  subscriptionView,
} from './resources.ts';
import { accountArgument, groupArgument, groupOrNone } from './names.ts';

/** The commands that call the running gateway; each function adds a group of them. */

/** Adds `models list` and `models history`. */
export function modelCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('models').description('the models that clients can use');
  const models = new ResourceCommands(group, ports, modelView);
  models.list(
    'list the models; prices in dollars: per 1 million tokens, per image, per search',
    async ({ catalog }) => (await catalog.listModels({})).models,
  );
  new ResourceCommands(group, ports, priceChangeView)
    .list(
      'list the changes of prices, newest first: what changed, when, and who reloaded the configuration',
      async (clients, model: string | undefined) => readPriceChanges(clients, model),
      'history',
    )
    .argument('[model]', 'only of this model');
}

type LowBalance = ReturnType<typeof balanceOrNone>;

/** Adds `accounts create | list | show | update | rename | close | resume`. */
export function accountCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('accounts').description('accounts and their balances');
  const accounts = new ResourceCommands(group, ports, accountView);
  accounts
    .one(
      'create',
      'create an account',
      async ({ admin }, { name, balance = 0n }: { name: string; balance?: bigint }) => {
        const { account } = await admin.createAccount({ name, balanceNanoUsd: balance });
        return account;
      },
    )
    .requiredOption('--name <name>', 'a name for people')
    .option('--balance <dollars>', 'its opening balance (default: 0)', balanceArgument);
  accounts.list('list all accounts', async ({ admin }) => (await admin.listAccounts({})).accounts);
  accounts
    .one('show', 'show an account', async ({ admin }, accountId: bigint) => {
      const { account } = await admin.getAccount({ accountId });
      return account;
    })
    .argument('<account_id>', 'the account', idArgument);
  accounts
    .one(
      'update',
      'change an account’s name, or the balance below which its webhooks get an event',
      async ({ admin }, accountId: bigint, { name, lowBalance }: { name?: string; lowBalance?: LowBalance }) => {
        const changes = requireChange('accounts update', {
          name,
          lowBalanceNanoUsd: lowBalance?.nanoUsd,
          noLowBalance: lowBalance && lowBalance.nanoUsd === undefined,
        });
        return (await admin.updateAccount({ accountId, ...changes })).account;
      },
    )
    .argument('<account_id>', 'the account', idArgument)
    .option('--name <name>', 'a name for people')
    .option('--low-balance <dollars|none>', 'send an event when the balance falls below this', balanceOrNone);
  accounts
    .one('rename', 'change the name of an account', async ({ admin }, accountId: bigint, name: string) => {
      const { account } = await admin.updateAccount({ accountId, name });
      return account;
    })
    .argument('<account_id>', 'the account', idArgument)
    .argument('<name>', 'a name for people');
  accounts
    .one(
      'close',
      'close an account and revoke all its keys for good; debit the remaining balance with a negative credit',
      async ({ admin }, accountId: bigint) => (await admin.closeAccount({ accountId })).account,
    )
    .argument('<account_id>', 'the account', idArgument);
  accounts
    .one('resume', 'let a suspended account send requests again', async ({ admin }, accountId: bigint) => {
      const { account } = await admin.resumeAccount({ accountId });
      return account;
    })
    .argument('<account_id>', 'the account', idArgument);
}

type CreditFilter = Parameters<typeof toPage>[0] & { readonly account: bigint };

/** Adds `credits add | list`. */
export function creditCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('credits').description('money that is added to accounts or taken from them');
  const credits = new ResourceCommands(group, ports, accountView);
  credits
    .one(
      'add',
      'add dollars to an account’s balance; a negative amount is debited',
      async ({ admin }, accountId: bigint, amountNanoUsd: bigint, options: { note?: string; reference?: string }) => {
        const { note = '', reference = randomUUID() } = options;
        try {
          return (await admin.addCredit({ accountId, amountNanoUsd, note, reference })).account;
        } catch (thrown) {
          const repeat = `The credit may have been added. To make sure, repeat the command with --reference ${reference}; it is added only once.`;
          throw new RepeatableFailure(repeat, thrown);
        }
      },
    )
    .argument('<account_id>', 'the account', idArgument)
    .argument('<dollars>', 'the amount', creditArgument)
    .option('--note <text>', 'the reason, shown in lists')
    .option('--reference <text>', 'a unique name of this credit: repeating the command with it adds nothing');
  withPage(
    new ResourceCommands(group, ports, entryView)
      .list('list an account’s credits, newest first', async ({ admin }, given: CreditFilter) => {
        const kinds = ['opening', 'credit'];
        return (await admin.listAccountEntries({ accountId: given.account, query: toPage(given), kinds })).entries;
      })
      .requiredOption('--account <account>', 'the account', accountArgument),
  );
}

interface CreateKeyOptions {
  readonly account: bigint;
  readonly label?: string;
  readonly dailyLimit?: bigint;
  readonly minuteLimit?: bigint;
  readonly allowedModels?: string[];
  readonly balance?: bigint;
  readonly expires?: bigint;
  readonly group?: bigint;
  readonly tags?: Record<string, string>;
  readonly metadata?: string;
  readonly subsFirst: boolean;
  readonly fallback: boolean;
  readonly keepBodies?: string;
  readonly paused?: boolean;
}

type IdOrNone = { readonly id: bigint | undefined };

type UpdateKeyOptions = Partial<
  Omit<CreateKeyOptions, 'account' | 'balance' | 'group' | 'expires' | 'allowedModels'>
> & {
  readonly balance?: ReturnType<typeof balanceOrNone>;
  readonly group?: IdOrNone;
  readonly expires?: ReturnType<typeof expiryOrNone>;
  readonly allowedModels?: string[];
};

/** Returns the changes of `keys update`: only the options that are given. */
function toKeyChanges({ label, dailyLimit, minuteLimit, allowedModels, balance, group, ...given }: UpdateKeyOptions) {
  const { expires, tags, metadata, subsFirst, fallback, keepBodies, paused } = given;
  const isAll = allowedModels?.includes('all') === true;
  return {
    label,
    dailyLimit,
    minuteLimit,
    allowedModels: allowedModels === undefined || isAll ? undefined : { models: allowedModels },
    allowAllModels: isAll || undefined,
    balanceNanoUsd: balance?.nanoUsd,
    noBalance: balance && balance.nanoUsd === undefined,
    groupId: group?.id,
    noGroup: group && group.id === undefined,
    expiresAtMs: expires?.ms,
    neverExpires: expires && expires.ms === undefined,
    tags: tags && { tags },
    metadataJson: metadata,
    useSubsFirst: subsFirst,
    fallbackToPayg: fallback,
    keepBodies: keepBodies === 'default' ? '' : keepBodies,
    paused,
  };
}

/** Adds `keys update`. */
function addKeyChanges(keys: ResourceCommands<ApiKey>): void {
  keys
    .one(
      'update',
      'change an API key; settings without an option stay unchanged',
      async ({ admin }, apiKeyId: bigint, given: UpdateKeyOptions) => {
        const settings = requireChange('keys update', toKeyChanges(given));
        return (await admin.updateApiKey({ apiKeyId, settings })).key;
      },
    )
    .argument('<key_id>', 'the key', idArgument)
    .option('--label <text>', 'a name for people')
    .option(
      '--daily-limit <number>',
      'the maximum per UTC day, in dollars or requests as configured; 0: no limit',
      limitArgument,
    )
    .option('--minute-limit <number>', 'the maximum of requests in 60 seconds; 0: no limit', limitArgument)
    .option('--allowed-models <ids|all>', 'the models that it may use, separated by commas', wordsArgument)
    .option('--balance <dollars|none>', 'its own balance, moved out of the account’s', balanceOrNone)
    .option('--expires <time|none>', 'when it expires: a time, or a time span from now (2h)', expiryOrNone)
    .option('--group <group|none>', 'its group', groupOrNone)
    .option('--tags <tags>', 'tags of its requests, such as team=search,env=prod', tagsArgument)
    .option('--metadata <json>', 'a JSON object of your own', jsonArgument)
    .option('--subs-first', 'the plan pays before the balance')
    .option('--no-subs-first', 'the balance pays before the plan')
    .option('--fallback', 'the balance pays when the plan is used up')
    .option('--no-fallback', 'requests are refused when the plan is used up')
    .option('--keep-bodies <off|errors|all|default>', 'which requests’ bodies are kept')
    .option('--paused', 'refuse its requests until --no-paused')
    .option('--no-paused', 'accept its requests again');
}

/** Adds `keys create | list | update | find | rotate | move | disable | enable | revoke | monthly-limit`. */
export function keyCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('keys').description('API keys, with which clients send requests');
  const keys = new ResourceCommands(group, ports, apiKeyView);
  keys
    .one(
      'create',
      'create an API key; the full key is shown only once',
      async ({ admin }, { account: accountId, ...given }: CreateKeyOptions) => {
        const { label, dailyLimit, minuteLimit, allowedModels, balance: balanceNanoUsd } = given;
        const settings = {
          useSubsFirst: given.subsFirst,
          fallbackToPayg: given.fallback,
          label,
          dailyLimit,
          minuteLimit,
          allowedModels: allowedModels && { models: allowedModels },
          balanceNanoUsd,
          expiresAtMs: given.expires,
          groupId: given.group,
          tags: given.tags && { tags: given.tags },
          metadataJson: given.metadata,
        };
        return (await admin.createApiKey({ accountId, settings })).key;
      },
    )
    .requiredOption('--account <account>', 'the account', accountArgument)
    .option('--label <text>', 'a name for people')
    .option(
      '--daily-limit <number>',
      'the maximum per UTC day, in dollars or requests as configured; 0: no limit',
      limitArgument,
    )
    .option('--minute-limit <number>', 'the maximum of requests in 60 seconds; 0: no limit', limitArgument)
    .option('--allowed-models <ids>', 'the models that it may use, separated by commas', wordsArgument)
    .option('--balance <dollars>', 'its own balance, moved out of the account’s', balanceArgument)
    .option(
      '--expires <time>',
      'when it expires: a time (2026-12-31T23:59Z), or a time span from now (2h)',
      expiryArgument,
    )
    .option('--group <group>', 'its group', groupArgument)
    .option('--tags <tags>', 'tags of its requests, such as team=search,env=prod', tagsArgument)
    .option('--metadata <json>', 'a JSON object of your own', jsonArgument)
    .option('--no-subs-first', 'the balance pays before the plan')
    .option('--no-fallback', 'requests are refused when the plan is used up');
  listKeyCommands(new ResourceCommands(group, ports, listedKeyView));
  changeKeyCommands(keys);
  nextCommand(group, ports);
}

/** Adds `keys list` and `keys find`. */
function listKeyCommands(keys: ResourceCommands<ListedKey>): void {
  keys
    .list(
      'list an account’s API keys',
      async ({ admin }, { account, all = false }: { account: bigint; all?: boolean }) => listKeys(admin, account, all),
    )
    .requiredOption('--account <account>', 'the account', accountArgument)
    .option('--all', 'also keys that were revoked');
  keys
    .list(
      'find API keys of all accounts, also revoked ones, by part of the name or by the last characters of the key, also of one that was rotated',
      async ({ admin }, text: string) => findKeys(admin, text),
      'find',
    )
    .argument(
      '<text>',
      'part of the name, or the last characters; never the whole key, which a list of processes would show',
    );
}

/** Adds the commands that show and change existing API keys. */
function changeKeyCommands(keys: ResourceCommands<ApiKey>): void {
  keys
    .one('show', 'show an API key', async ({ admin }, apiKeyId: bigint) => (await admin.getApiKey({ apiKeyId })).key)
    .argument('<key_id>', 'the key', idArgument);
  keys
    .one(
      'rotate',
      'replace the secret of an API key; the new one is shown only once, the old one can stay valid for a while',
      async ({ admin }, apiKeyId: bigint, { overlapSeconds = 0 }: { overlapSeconds?: number }) =>
        (await admin.rotateApiKey({ apiKeyId, overlapSeconds })).key,
    )
    .argument('<key_id>', 'the key', idArgument)
    .option('--overlap-seconds <number>', 'how long the old secret stays valid (default: 0)', secondsArgument);
  keys
    .one(
      'move',
      'move an API key to a group, or out of its group',
      async ({ admin }, apiKeyId: bigint, group: IdOrNone) => {
        const settings = { groupId: group.id, noGroup: group.id === undefined };
        return (await admin.updateApiKey({ apiKeyId, settings })).key;
      },
    )
    .argument('<key_id>', 'the key', idArgument)
    .argument('<group|none>', 'the group', groupOrNone);
  addKeyChanges(keys);
  const setState = (name: string, description: string, state: KeyState): Command =>
    keys
      .one(name, description, async ({ admin }, apiKeyId: bigint) => {
        const { key } = await admin.setApiKeyState({ apiKeyId, state });
        return key;
      })
      .argument('<key_id>', 'the key', idArgument);
  setState('disable', 'refuse an API key until it is enabled', KeyState.DISABLED);
  setState('enable', 'let a disabled API key work again', KeyState.ENABLED);
  setState('revoke', 'revoke an API key for good', KeyState.REVOKED);
  keys
    .one(
      'monthly-limit',
      'set or remove the most that an API key may spend in a UTC month',
      async ({ admin }, apiKeyId: bigint, { limit: limitNanoUsd }: ReturnType<typeof dollarsOrNone>) =>
        (await admin.setMonthlyLimit({ apiKeyId, limitNanoUsd })).key,
    )
    .argument('<key_id>', 'the key', idArgument)
    .argument('<dollars|none>', 'the most it may spend', dollarsOrNone);
}

/** Adds `management-keys create | list | set-scopes | disable | enable | revoke`. */
export function managementKeyCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('management-keys').description('management keys, which manage an account');
  const keys = new ResourceCommands(group, ports, managementKeyView);
  keys
    .one(
      'create',
      'create a management key; the full key is shown only once',
      async ({ admin }, { account: accountId, scopes }: { account: bigint; scopes: string[] }) =>
        (await admin.createManagementKey({ accountId, scopes })).key,
    )
    .requiredOption('--account <account>', 'the account', accountArgument)
    .requiredOption('--scopes <scopes>', 'what it may do: all, or scopes separated by commas', wordsArgument);
  keys
    .list('list an account’s management keys', async ({ admin }, { account: accountId }: { account: bigint }) => {
      const answer = await admin.listManagementKeys({ accountId });
      return answer.keys;
    })
    .requiredOption('--account <account>', 'the account', accountArgument);
  keys
    .one(
      'set-scopes',
      'replace the scopes of a management key',
      async ({ admin }, managementKeyId: bigint, scopes: string[]) =>
        (await admin.setManagementKeyScopes({ managementKeyId, scopes })).key,
    )
    .argument('<key_id>', 'the key', idArgument)
    .argument('<scopes>', 'all, or scopes separated by commas', wordsArgument);
  const setState = (name: string, description: string, state: KeyState): Command =>
    keys
      .one(name, description, async ({ admin }, managementKeyId: bigint) => {
        const { key } = await admin.setManagementKeyState({ managementKeyId, state });
        return key;
      })
      .argument('<key_id>', 'the key', idArgument);
  setState('disable', 'refuse a key until it is enabled', KeyState.DISABLED);
  setState('enable', 'let a disabled key work again', KeyState.ENABLED);
  setState('revoke', 'revoke a key for good', KeyState.REVOKED);
}

interface StartOptions {
  readonly plan: (typeof plans)[keyof typeof plans];
  readonly period: (typeof planPeriods)[keyof typeof planPeriods];
}

/** Adds `subscriptions plans | start | show | cancel`. */
export function subscriptionCommands(program: Command, ports: RemotePorts): void {
  const group = program.command('subscriptions').description('plans of accounts');
  const subscriptions = new ResourceCommands(group, ports, subscriptionView);
  new ResourceCommands(group, ports, planView).list(
    'list the plans, their prices and what they include',
    async ({ admin }) => (await admin.listPlans({})).plans,
    'plans',
  );
  subscriptions
    .one(
      'start',
      'start a plan: its price is debited from the account now and at each renewal',
      async ({ admin }, accountId: bigint, { plan, period }: StartOptions) =>
        (await admin.startSubscription({ accountId, plan, period })).subscription,
    )
    .argument('<account_id>', 'the account', idArgument)
    .requiredOption('--plan <plan>', 'core or core_pro', nameArgument(plans))
    .requiredOption('--period <period>', 'biweekly or monthly', nameArgument(planPeriods));
  subscriptions
    .one(
      'show',
      'show an account’s plan and its remaining tokens',
      async ({ admin }, accountId: bigint) => (await admin.getSubscription({ accountId })).subscription,
    )
    .argument('<account_id>', 'the account', idArgument);
  subscriptions
    .one(
      'cancel',
      'cancel an account’s plan: it ends with its current period',
      async ({ admin }, accountId: bigint) => (await admin.cancelSubscription({ accountId })).subscription,
    )
    .argument('<account_id>', 'the account', idArgument);
}
