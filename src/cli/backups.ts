import type { Command } from 'commander';
import { CommandFailure } from './failure.ts';
import { jsonText } from './output.ts';
import type { CommandLinePorts, StoredBackup } from './ports.ts';

interface Options {
  readonly json?: true;
  readonly dataDir?: string;
}

/** Adds `backup` and `restore`. */
export function backupCommands(program: Command, ports: CommandLinePorts): void {
  const add = (
    name: string,
    description: string,
    run: (folder: string, dataDir: string) => Promise<StoredBackup>,
    say: (folder: string, dataDir: string) => string,
  ): Command =>
    program
      .command(name)
      .description(description)
      .option('--json', 'print one JSON document')
      .option('--data-dir <dir>', 'the data directory (default: TOLLGATE_DATA_DIR, else ./data)')
      .action(async (folder: string, { json, dataDir = ports.environment().dataDir }: Options) => {
        const { tollgate, createdAt, files, bytes } = await orFailure(run(folder, dataDir));
        ports.streams.out(
          json === true
            ? jsonText({ directory: folder, data_dir: dataDir, created_at: createdAt, tollgate, files, bytes })
            : `${say(folder, dataDir)}: ${files} files, ${bytes} bytes, as of ${createdAt}\n`,
        );
      });
  add(
    'backup',
    'copy the data directory, with or without a running gateway',
    (folder, dataDir) => ports.makeBackup(dataDir, folder),
    folder => `backed up to ${folder}`,
  ).argument('<dir>', 'the folder to create; it holds secrets: protect it like the data directory');
  add(
    'restore',
    'put a backup into an empty data directory',
    (folder, dataDir) => ports.restoreBackup(folder, dataDir),
    (folder, dataDir) => `restored ${folder} to ${dataDir}`,
  ).argument('<dir>', 'the folder of the backup');
}

async function orFailure<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    throw new CommandFailure(1, [error instanceof Error ? error.message : String(error)], error);
  }
}
