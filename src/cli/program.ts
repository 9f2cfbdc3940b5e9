import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config/config-error.ts';
import { applyCommand } from './apply/apply.ts';
import { connectCommand } from './agents/connect.ts';
import { runCommand } from './agents/run.ts';
import { backupCommands } from './backups.ts';
import {
  accountCommands,
  creditCommands,
  keyCommands,
  managementKeyCommands,
  modelCommands,
  subscriptionCommands,
} from './commands.ts';
import { groupCommands, limitCommands } from './control-commands.ts';
import { CommandFailure } from './failure.ts';
import { completionCommand } from './completion.ts';
import { doctorCommand, reloadCommand, statusCommand } from './health.ts';
import { configCommands, ledgerCommands } from './local.ts';
import { migrateStoreCommand } from './migrate-store.ts';
import { historyCommands } from './history-commands.ts';
import type { CommandLinePorts } from './ports.ts';
import { defined } from '../lib/defined.ts';
import { version } from '../lib/version.ts';
import { holdCommands, requestCommands } from './request-commands.ts';
import { dashboardCommands } from './dashboard-commands.ts';
import { storageCommand } from './running-config.ts';
import { usageCommand } from './usage.ts';
import { webhookCommands } from './webhook-commands.ts';
import { providerCommands } from './provider-commands.ts';

/**
 * Runs a command and returns the exit code: 0, 1 (failed) or 2 (wrong use, wrong configuration). `args`: the arguments without the program's
 * name. Throws only for defects of the program. Source: docs/operations.md "The command line".
 */
export async function runCommandLine(args: readonly string[], ports: CommandLinePorts): Promise<number> {
  let exitCode = 0;
  const program = buildProgram(ports, code => {
    exitCode = code;
  });
  try {
    await program.parseAsync([...args], { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof CommandFailure) && !(error instanceof ConfigError)) throw error;
    for (const line of error.lines) ports.streams.err(`${line}\n`);
    return error instanceof ConfigError ? 2 : error.exitCode;
  }
}

/** Builds all commands; `exitWith` is called with the exit code of `serve`. */
function buildProgram(ports: CommandLinePorts, exitWith: (code: number) => void): Command {
  const program = new Command('tollgate')
    .description('A self-hosted gateway to AI models: one address, one credential, every request paid for exactly.')
    .version(version)
    .exitOverride()
    .configureOutput({ writeOut: text => ports.streams.out(text), writeErr: text => ports.streams.err(text) })
    .showHelpAfterError('(add --help to see how the command is used)');
  program
    .command('serve')
    .description('run the gateway')
    .option('--config <file>', 'configuration file (default: TOLLGATE_CONFIG, else ./tollgate.yaml if it exists)')
    .option('--workers <count>', 'threads that serve HTTP (default: TOLLGATE_WORKERS, else 1)')
    .action(async ({ config, workers }: { config?: string; workers?: string }) => {
      exitWith(await ports.serve(defined({ configPath: config, workers })));
    });
  configCommands(program, ports);
  ledgerCommands(program, ports);
  backupCommands(program, ports);
  migrateStoreCommand(program, ports);
  modelCommands(program, ports);
  providerCommands(program, ports);
  accountCommands(program, ports);
  creditCommands(program, ports);
  keyCommands(program, ports);
  groupCommands(program, ports);
  limitCommands(program, ports);
  managementKeyCommands(program, ports);
  subscriptionCommands(program, ports);
  applyCommand(program, ports);
  webhookCommands(program, ports);
  historyCommands(program, ports);
  dashboardCommands(program, ports);
  usageCommand(program, ports);
  requestCommands(program, ports);
  holdCommands(program, ports);
  statusCommand(program, ports);
  doctorCommand(program, ports);
  reloadCommand(program, ports);
  storageCommand(program, ports);
  completionCommand(program, ports);
  runCommand(program, ports, exitWith);
  connectCommand(program, ports);
  return program;
}
