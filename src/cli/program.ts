import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config/config-error.ts';
import { CommandFailure } from './failure.ts';
import type { CommandLinePorts } from './ports.ts';
import { defined } from '../lib/defined.ts';
import { version } from '../lib/version.ts';

/**
 * Runs a command and returns the exit code: 0, 1 (failed) or 2 (wrong use, wrong configuration). `args`: the arguments without the program's
 * name. Throws only for defects of the program. Source: docs/command-line.md.
 */
export async function runCommandLine(args: readonly string[], ports: CommandLinePorts): Promise<number> {
  let exitCode = 0;
  const exitWith = (code: number): void => {
    exitCode = code;
  };
  const program = args[0] === 'serve' ? buildProgram(ports, exitWith) : await makeProgram(ports, exitWith);
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

/** Returns the program with all its commands. `exitWith` is called with the exit code of a command that chooses it. */
export async function makeProgram(ports: CommandLinePorts, exitWith: (code: number) => void): Promise<Command> {
  const program = buildProgram(ports, exitWith);
  const { addCommands } = await import('./add-commands.ts');
  addCommands(program, ports, exitWith);
  return program;
}

/** Returns the program with only the command `serve`. `exitWith` is called with its exit code. */
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
  return program;
}
