import type { Command } from 'commander';
import { KeyState, type ManagementKey } from '../gen/tollgate/v1/admin_pb.ts';
import { idArgument, wordsArgument } from './arguments.ts';
import type { Document } from './output.ts';
import { present, printList, printResource, remote, type RemoteOptions, type RemotePorts } from './remote.ts';
import { managementKeyColumns, managementKeyDocument } from './resources.ts';

/** `management-keys create | list | set-scopes | disable | enable | revoke`. */
export function managementKeyCommands(program: Command, ports: RemotePorts): void {
  const keys = program.command('management-keys').description('management keys, which manage an account');
  remote(keys.command('create'))
    .description('make a management key; its full text is shown this once')
    .requiredOption('--account <account_id>', 'the account', idArgument)
    .requiredOption('--scopes <scopes>', 'what it may do: all, or scopes with commas between them', wordsArgument)
    .action((options: RemoteOptions & { account: bigint; scopes: string[] }) =>
      printResource(ports, options, async ({ admin }) => {
        const answer = await admin.createManagementKey({ accountId: options.account, scopes: options.scopes });
        return shown(answer.key);
      }),
    );
  remote(keys.command('list'))
    .description('list an account’s management keys')
    .requiredOption('--account <account_id>', 'the account', idArgument)
    .action((options: RemoteOptions & { account: bigint }) =>
      printList(ports, options, async ({ admin }) => {
        const answer = await admin.listManagementKeys({ accountId: options.account });
        return { data: answer.keys.map(managementKeyDocument), columns: managementKeyColumns };
      }),
    );
  remote(keys.command('set-scopes'))
    .description('replace the scopes of a management key')
    .argument('<key_id>', 'the key', idArgument)
    .argument('<scopes>', 'all, or scopes with commas between them', wordsArgument)
    .action((managementKeyId: bigint, scopes: string[], options: RemoteOptions) =>
      printResource(ports, options, async ({ admin }) => {
        const answer = await admin.setManagementKeyScopes({ managementKeyId, scopes });
        return shown(answer.key);
      }),
    );
  addState(keys, ports, { name: 'disable', state: KeyState.DISABLED, what: 'refuse a key until it is enabled' });
  addState(keys, ports, { name: 'enable', state: KeyState.ENABLED, what: 'let a disabled key work again' });
  addState(keys, ports, { name: 'revoke', state: KeyState.REVOKED, what: 'end a key for good' });
}

function addState(keys: Command, ports: RemotePorts, command: { name: string; state: KeyState; what: string }): void {
  remote(keys.command(command.name))
    .description(command.what)
    .argument('<key_id>', 'the key', idArgument)
    .action((managementKeyId: bigint, options: RemoteOptions) =>
      printResource(ports, options, async ({ admin }) => {
        const answer = await admin.setManagementKeyState({ managementKeyId, state: command.state });
        return shown(answer.key);
      }),
    );
}

function shown(key: ManagementKey | undefined): Document {
  return managementKeyDocument(present(key));
}
