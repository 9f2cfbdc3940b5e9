import type { Command } from 'commander';
import { CommandFailure } from './failure.ts';
import { jsonText } from './output.ts';
import type { CommandLinePorts, RevokedSince, StoredBackup } from './ports.ts';

interface Options {
  readonly json?: true;
  readonly dataDir?: string;
  readonly oldDataDir?: string;
}

/** Adds `backup` and `restore`. */
export function backupCommands(program: Command, ports: CommandLinePorts): void {
  const add = (name: string, description: string): Command =>
    program
      .command(name)
      .description(description)
      .option('--json', 'print one JSON document')
      .option('--data-dir <dir>', 'the data directory (default: TOLLGATE_DATA_DIR, else ./data)');
  const show = ({ tollgate, createdAt, files, bytes }: StoredBackup, { json, ...shown }: Shown): void => {
    const { folder, dataDir, done, more } = shown;
    ports.streams.out(
      json === true
        ? jsonText({ directory: folder, data_dir: dataDir, created_at: createdAt, tollgate, files, bytes, ...more })
        : `${done}: ${files} files, ${bytes} bytes, as of ${createdAt}\n`,
    );
  };
  add('backup', 'copy the data directory, with or without a running gateway')
    .argument('<dir>', 'the folder to create; it holds secrets: protect it like the data directory')
    .action(async (folder: string, { json, dataDir = ports.environment().dataDir }: Options) => {
      const made = await orFailure(ports.makeBackup(dataDir, folder));
      show(made, { json, folder, dataDir, done: `backed up to ${folder}` });
    });
  add('restore', 'put a backup into an empty data directory')
    .argument('<dir>', 'the folder of the backup')
    .option('--old-data-dir <dir>', 'the data directory in use until now: keys that no longer work there are disabled')
    .action(async (folder: string, options: Options) => {
      const { json, dataDir = ports.environment().dataDir, oldDataDir } = options;
      const { revoked, ...restored } = await orFailure(ports.restoreBackup(folder, dataDir, oldDataDir));
      const more = {
        asked: revoked?.asked ?? null,
        disabled_keys: revoked?.disabledKeys ?? null,
        rotated_keys: revoked?.rotatedKeys ?? null,
        ended_sessions: revoked?.endedSessions ?? null,
      };
      show(restored, { json, folder, dataDir, done: `restored ${folder} to ${dataDir}`, more });
      ports.streams.err(revokedText(revoked, restored.createdAt));
    });
}

/** The printed facts about a backup. */
interface Shown {
  readonly json: true | undefined;
  readonly folder: string;
  readonly dataDir: string;
  readonly done: string;
  /** Further members of the JSON. */
  readonly more?: object;
}

/** Returns what the operator must know about rights that ended after the backup. */
function revokedText(revoked: RevokedSince | undefined, createdAt: string): string {
  if (revoked?.asked === undefined) {
    return `WARNING: keys that were revoked, disabled or replaced after ${createdAt} work again, with their limits of then. Revoke them again, or restore with --old-data-dir DIR to have them disabled.\n`;
  }
  const { asked, disabledKeys, rotatedKeys, endedSessions } = revoked;
  return `compared with ${asked}: ${disabledKeys} keys that no longer work there are disabled, ${rotatedKeys} have the secret that they have there; ${endedSessions} sessions were ended. Limits, groups and service tokens are as of ${createdAt}.\n`;
}

async function orFailure<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    throw new CommandFailure(1, [error instanceof Error ? error.message : String(error)], error);
  }
}
