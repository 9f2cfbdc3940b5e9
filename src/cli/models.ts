import type { Command } from 'commander';
import { printList, remote, type RemoteOptions, type RemotePorts } from './remote.ts';
import { modelColumns, modelDocument, modelRow } from './resources.ts';

/** `models list`. */
export function modelCommands(program: Command, ports: RemotePorts): void {
  const models = program.command('models').description('the catalogue');
  remote(models.command('list'))
    .description('list the models; prices in dollars per 1 million tokens, of a picture in dollars')
    .action((options: RemoteOptions) =>
      printList(ports, options, async ({ catalog }) => {
        const answer = await catalog.listModels({});
        return {
          data: answer.models.map(modelDocument),
          rows: answer.models.map(modelRow),
          columns: modelColumns,
        };
      }),
    );
}
