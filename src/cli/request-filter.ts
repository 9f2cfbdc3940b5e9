import { type Command, InvalidArgumentError } from 'commander';
import { idArgument } from './arguments.ts';
import { groupArgument } from './names.ts';

/** Options that filter requests; an absent option filters nothing. */
export interface RequestFilterOptions {
  readonly key?: bigint;
  readonly model?: string;
  readonly group?: bigint;
  readonly tag?: string;
  readonly endUser?: string;
  readonly provider?: string;
  readonly endpoint?: string;
}

/** Adds the options that filter requests; a request must match all that are given. */
export function addRequestFilter(command: Command): Command {
  return command
    .option('--key <key_id>', 'only of this API key', idArgument)
    .option('--model <id>', 'only of this model')
    .option('--group <group>', 'only of this group and the groups in it', groupArgument)
    .option('--tag <name:value>', 'only with this tag', tagArgument)
    .option('--end-user <name>', 'only for this end user')
    .option('--provider <name>', 'only those that this provider answered')
    .option('--endpoint <path>', 'only on this path, such as /v1/messages');
}

/** Returns the options as fields of a request to the gateway. */
export function toRequestFilter({ key, model, group, tag, endUser, provider, endpoint }: RequestFilterOptions) {
  return {
    apiKeyId: key ?? 0n,
    model: model ?? '',
    groupId: group ?? 0n,
    tag: tag ?? '',
    endUser: endUser ?? '',
    provider: provider ?? '',
    endpoint: endpoint ?? '',
  };
}

function tagArgument(text: string): string {
  if (text.indexOf(':') < 1) throw new InvalidArgumentError('It must be a name and a value, such as team:search.');
  return text;
}
