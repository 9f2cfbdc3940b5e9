import type { Command } from 'commander';
import type { ApiKey } from '../gen/tollgate/v1/account_pb.ts';
import { KeyState } from '../gen/tollgate/v1/admin_pb.ts';
import { balanceArgument, dollarsOrNone, idArgument, limitArgument, wordsArgument } from './arguments.ts';
import type { Document } from './output.ts';
import { present, printList, printResource, remote, type RemoteOptions, type RemotePorts } from './remote.ts';
import { apiKeyColumns, apiKeyDocument } from './resources.ts';

interface CreateOptions extends RemoteOptions {
  readonly account: bigint;
  readonly label?: string;
  readonly dailyLimit?: bigint;
  readonly minuteLimit?: bigint;
  readonly allowedModels?: string[];
  readonly balance?: bigint;
  readonly subsFirst: boolean;
  readonly fallback: boolean;
}

/** `keys create | list | disable | enable | revoke | monthly-limit`. */
export function keyCommands(program: Command, ports: RemotePorts): void {
  const keys = program.command('keys').description('API keys, which generate');
  addCreate(keys, ports);
  remote(keys.command('list'))
    .description('list an account’s API keys')
    .requiredOption('--account <account_id>', 'the account', idArgument)
    .action((options: RemoteOptions & { account: bigint }) =>
      printList(ports, options, async ({ admin }) => {
        const answer = await admin.listApiKeys({ accountId: options.account });
        return { data: answer.keys.map(apiKeyDocument), columns: apiKeyColumns };
      }),
    );
  addState(keys, ports, { name: 'disable', state: KeyState.DISABLED, what: 'refuse an API key until it is enabled' });
  addState(keys, ports, { name: 'enable', state: KeyState.ENABLED, what: 'let a disabled API key work again' });
  addState(keys, ports, { name: 'revoke', state: KeyState.REVOKED, what: 'end an API key for good' });
  remote(keys.command('monthly-limit'))
    .description('set or lift the hard limit of an API key in a UTC month')
    .argument('<key_id>', 'the key', idArgument)
    .argument('<dollars|none>', 'the most it may spend', dollarsOrNone)
    .action((apiKeyId: bigint, { limit }: { limit: bigint | undefined }, options: RemoteOptions) =>
      printResource(ports, options, async ({ admin }) => {
        const answer = await admin.setMonthlyLimit({
          apiKeyId,
          ...(limit === undefined ? {} : { limitNanoUsd: limit }),
        });
        return shown(answer.key);
      }),
    );
}

function addCreate(keys: Command, ports: RemotePorts): void {
  remote(keys.command('create'))
    .description('make an API key; its full text is shown this once')
    .requiredOption('--account <account_id>', 'the account', idArgument)
    .option('--label <text>', 'a name for people')
    .option(
      '--daily-limit <number>',
      'the most a UTC day, in dollars or requests as configured; 0: none',
      limitArgument,
    )
    .option('--minute-limit <number>', 'the most requests in 60 seconds; 0: none', limitArgument)
    .option('--allowed-models <ids>', 'the models it may use, with commas between them', wordsArgument)
    .option('--balance <dollars>', 'money of its own, moved out of the account', balanceArgument)
    .option('--no-subs-first', 'money pays before the plan')
    .option('--no-fallback', 'money does not pay when the plan is used up')
    .action((options: CreateOptions) =>
      printResource(ports, options, async ({ admin }) => {
        const { label, dailyLimit, minuteLimit, allowedModels, balance } = options;
        const answer = await admin.createApiKey({
          accountId: options.account,
          settings: {
            useSubsFirst: options.subsFirst,
            fallbackToPayg: options.fallback,
            ...(label === undefined ? {} : { label }),
            ...(dailyLimit === undefined ? {} : { dailyLimit }),
            ...(minuteLimit === undefined ? {} : { minuteLimit }),
            ...(allowedModels === undefined ? {} : { allowedModels: { models: allowedModels } }),
            ...(balance === undefined ? {} : { balanceNanoUsd: balance }),
          },
        });
        return shown(answer.key);
      }),
    );
}

function addState(keys: Command, ports: RemotePorts, command: { name: string; state: KeyState; what: string }): void {
  remote(keys.command(command.name))
    .description(command.what)
    .argument('<key_id>', 'the key', idArgument)
    .action((apiKeyId: bigint, options: RemoteOptions) =>
      printResource(ports, options, async ({ admin }) => {
        const answer = await admin.setApiKeyState({ apiKeyId, state: command.state });
        return shown(answer.key);
      }),
    );
}

function shown(key: ApiKey | undefined): Document {
  return apiKeyDocument(present(key));
}
