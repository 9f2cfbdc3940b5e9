import type { Command } from 'commander';
import { CommandFailure } from './failure.ts';
import { jsonText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';

interface Options {
  readonly from: string;
  readonly to: string;
  readonly json?: true;
}

/** Adds `migrate-store`, which moves a stopped gateway's data to PostgreSQL. */
export function migrateStoreCommand(program: Command, ports: CommandLinePorts): void {
  program
    .command('migrate-store')
    .description('move the data of a stopped gateway to PostgreSQL; repeat the command to continue an interrupted run')
    .requiredOption('--from <store>', 'sqlite:DIR, the data directory')
    .requiredOption('--to <url>', 'postgres://…, an empty database')
    .option('--json', 'print one JSON document')
    .action(async ({ from, to, json }: Options) => {
      const dataDir = /^sqlite:(.+)$/.exec(from)?.[1];
      if (dataDir === undefined) throw new CommandFailure(2, [`--from is "${from}", but must be sqlite:DIR`]);
      if (!/^postgres(?:ql)?:\/\//.test(to)) throw new CommandFailure(2, ['--to must begin with postgres://']);
      const report = (table: string, rows: number): void => {
        if (json !== true) ports.streams.out(`${table}: ${rows} rows\n`);
      };
      const { already, rows } = await orFailure(ports.migrateStore(dataDir, to, report));
      const summary = already
        ? 'everything had been moved before; nothing was changed'
        : `moved ${rows} rows, with equal sums on both sides`;
      ports.streams.out(json === true ? jsonText({ already, rows }) : `${summary}\n`);
    });
}

async function orFailure<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    throw new CommandFailure(1, [error instanceof Error ? error.message : String(error)], error);
  }
}
