import type { Command } from 'commander';
import { balanceArgument, creditArgument, idArgument } from './arguments.ts';
import { present, printList, printResource, remote, type RemoteOptions, type RemotePorts } from './remote.ts';
import { accountColumns, accountDocument } from './resources.ts';

/** `accounts create | list | show`. */
export function accountCommands(program: Command, ports: RemotePorts): void {
  const accounts = program.command('accounts').description('accounts and their balances');
  remote(accounts.command('create'))
    .description('make an account')
    .requiredOption('--name <name>', 'a name for people')
    .option('--balance <dollars>', 'its first balance', balanceArgument)
    .action((options: RemoteOptions & { name: string; balance?: bigint }) =>
      printResource(ports, options, async ({ admin }) => {
        const { account } = await admin.createAccount({ name: options.name, balanceNanoUsd: options.balance ?? 0n });
        return accountDocument(present(account));
      }),
    );
  remote(accounts.command('list'))
    .description('list all accounts')
    .action((options: RemoteOptions) =>
      printList(ports, options, async ({ admin }) => {
        const answer = await admin.listAccounts({});
        return { data: answer.accounts.map(accountDocument), columns: accountColumns };
      }),
    );
  remote(accounts.command('show'))
    .description('show an account')
    .argument('<account_id>', 'the account', idArgument)
    .action((accountId: bigint, options: RemoteOptions) =>
      printResource(ports, options, async ({ admin }) => {
        const { account } = await admin.getAccount({ accountId });
        return accountDocument(present(account));
      }),
    );
}

/** `credits add`. */
export function creditCommands(program: Command, ports: RemotePorts): void {
  const credits = program.command('credits').description('money of accounts');
  remote(credits.command('add'))
    .description('add dollars to an account’s balance, or take them from it with a minus')
    .argument('<account_id>', 'the account', idArgument)
    .argument('<dollars>', 'how much', creditArgument)
    .option('--note <text>', 'why, for people')
    .action((accountId: bigint, amountNanoUsd: bigint, options: RemoteOptions & { note?: string }) =>
      printResource(ports, options, async ({ admin }) => {
        const { account } = await admin.addCredit({ accountId, amountNanoUsd, note: options.note ?? '' });
        return accountDocument(present(account));
      }),
    );
}
