import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { CheckConfigurationResponse, GetStorageResponse } from '../gen/tollgate/v1/admin_pb.ts';
import { problemLine } from '../config/config-error.ts';
import { isoTime } from '../lib/clock.ts';
import { CommandFailure } from './failure.ts';
import { askGateway, type GatewayOptions } from './gateway.ts';
import { type Document, jsonText, resourceText, tableText } from './output.ts';
import { addGatewayOptions, type RemotePorts } from './remote.ts';

type Options = GatewayOptions & { readonly json?: true };

/** Adds `config running`, which shows the configuration that the running gateway uses, and `config diff`, which compares a file with it. */
export function runningConfigCommands(config: Command, { streams, environment }: RemotePorts): void {
  const running = config
    .command('running')
    .description('show the configuration that the running gateway uses; secrets are shown as ***');
  addGatewayOptions(running).action(async ({ json, ...options }: Options) => {
    const read = await askGateway(options, environment(), ({ admin }) => admin.getConfiguration({}));
    const document = {
      file: read.file === '' ? null : read.file,
      read_at: isoTime(read.readAtMs),
      needs_restart: read.needsRestart,
      settings: JSON.parse(read.settingsJson) as Document,
    };
    // Loaded on demand, because it would slow down every other command.
    const { stringify } = await import('yaml');
    streams.out(json === true ? jsonText(document) : stringify(document));
  });
  const diff = config
    .command('diff')
    .description('check a configuration file on the running gateway, and show which settings it would change')
    .argument('<file>', 'the file');
  addGatewayOptions(diff).action(async (path: string, { json, ...options }: Options) => {
    const text = readText(path);
    const checked = await askGateway(options, environment(), ({ admin }) => admin.checkConfiguration({ text }));
    if (json === true) streams.out(jsonText(toDocument(checked)));
    const problems = checked.problems.map(({ line, ...problem }) =>
      problemLine({ ...problem, file: path, ...(line > 0 && { line }) }),
    );
    if (problems.length > 0) throw new CommandFailure(2, problems);
    if (json !== true) streams.out(toText(checked));
  });
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CommandFailure(
      2,
      [`${path} can't be read: ${error instanceof Error ? error.message : String(error)}`],
      error,
    );
  }
}

function toDocument({ problems, changes, changeCount, needsRestart, providers, models }: CheckConfigurationResponse) {
  return {
    valid: problems.length === 0,
    problems: problems.map(({ line, path, message }) => ({ ...(line > 0 && { line }), path, message })),
    providers,
    models,
    changes: changes.map(({ path, before, after }) => ({ path, before: parsed(before), after: parsed(after) })),
    change_count: changeCount,
    needs_restart: needsRestart,
  };
}

/** Parses a value; null if it is absent. */
function parsed(json: string | undefined): unknown {
  return json === undefined ? null : JSON.parse(json);
}

function toText({ changes, changeCount, needsRestart }: CheckConfigurationResponse): string {
  if (changeCount === 0) return 'no setting would change\n';
  const rows = changes.map(({ path, before, after }) => ({ setting: path, in_use: before, in_file: after }));
  const more = changeCount > changes.length ? `and ${changeCount - changes.length} more\n` : '';
  const waits = needsRestart.length === 0 ? '' : `only after a restart: ${needsRestart.join(', ')}\n`;
  return `${tableText(rows, ['setting', 'in_use', 'in_file'])}${more}${waits}`;
}

/** Adds `storage`, which shows how much the running gateway stores, how much space is left, and how long data is kept. */
export function storageCommand(program: Command, { streams, environment }: RemotePorts): void {
  const command = program
    .command('storage')
    .description('show what the running gateway stores, the free space, and how long data is kept');
  addGatewayOptions(command).action(async ({ json, ...options }: Options) => {
    const storage = await askGateway(options, environment(), ({ admin }) => admin.getStorage({}));
    streams.out(json === true ? jsonText(storageDocument(storage)) : storageText(storage));
  });
}

const dayMs = 86_400_000;

function storageDocument({ engine, dataDir, problem, freeBytes, totalBytes, parts, retention }: GetStorageResponse) {
  return {
    engine,
    data_dir: dataDir,
    problem: problem === '' ? null : problem,
    free_bytes: Number(freeBytes),
    total_bytes: Number(totalBytes),
    parts: parts.map(({ name, bytes }) => ({ name, bytes: Number(bytes) })),
    retention: retention.map(({ name, lifetimeMs, setting }) => ({
      name,
      days: Number(lifetimeMs) / dayMs,
      setting: setting === '' ? null : setting,
    })),
  };
}

function storageText(storage: GetStorageResponse): string {
  const { parts, retention, ...facts } = storageDocument(storage);
  const stored = tableText(parts, ['name', 'bytes']);
  return `${resourceText(facts)}\n${stored}\n${tableText(retention, ['name', 'days', 'setting'])}`;
}
