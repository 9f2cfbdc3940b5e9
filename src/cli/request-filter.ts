import { type Command, InvalidArgumentError } from 'commander';
import { idArgument } from './arguments.ts';

/** Options that choose requests; absent: any. */
export interface RequestFilterOptions {
  readonly key?: bigint;
  readonly model?: string;
  readonly group?: bigint;
  readonly tag?: string;
  readonly endUser?: string;
  readonly provider?: string;
  readonly endpoint?: string;
}

/** Adds the options that choose requests: those that pass all of them. */
export function addRequestFilter(command: Command): Command {
  return command
    .option('--key <key_id>', 'only of this API key', idArgument)
    .option('--model <id>', 'only of this model')
    .option('--group <group_id>', 'only of this group and the groups in it', idArgument)
    .option('--tag <name:value>', 'only with this tag', tagArgument)
    .option('--end-user <name>', 'only for this end user')
    .option('--provider <name>', 'only those that this provider answered')
    .option('--endpoint <path>', 'only on this path, such as /v1/messages');
}

/** Returns the filter as the gateway takes it. */
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
