/**
 * Writes docs/command-line.md from the commands (`npm run generate`). test/docs/command-names.test.ts fails if the page differs from its output.
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Argument, Command, Option } from 'commander';
import type { CommandLinePorts } from '../src/cli/ports.ts';
import { makeProgram } from '../src/cli/program.ts';

const path = resolve(import.meta.dirname, '../docs/command-line.md');

/** The options of every command that calls the running gateway; they are described once. */
const common = ['--json', '--rpc-host', '--rpc-port', '--data-dir'];

const introduction = `# Command line

<!-- Written by scripts/command-line-doc.ts from src/cli: change the commands, then run \`npm run generate\`. -->

\`npx tollgate COMMAND\` in a checkout, \`tollgate COMMAND\` after an installation and in the container. \`tollgate COMMAND --help\` explains a command. The name of a group alone lists its
objects: \`tollgate accounts\`.

Exit codes: 0; 1: it failed, or \`provider test\`, \`doctor\`, \`ledger verify\` found something wrong; 2: wrong use or wrong configuration. Messages are printed on the standard error.

Commands for the running gateway use the operator token of its data directory, and have these options in addition to their own:

| option | meaning |
| --- | --- |
| \`--json\` | print one JSON document |
| \`--rpc-host <host>\`, \`--rpc-port <port>\` | the internal listener (default: \`TOLLGATE_RPC_HOST\`, \`TOLLGATE_RPC_PORT\`, else the socket of the data directory, else 127.0.0.1:9090) |
| \`--data-dir <dir>\` | the data directory with the operator token (default: \`TOLLGATE_DATA_DIR\`, else ./data) |

\`--account\`, \`--group\`, \`--parent\` and \`--id\` take ids or names; \`PARENT/NAME\` names a group in another one.
`;

/** The ports of a program whose commands are only described. */
const ports: CommandLinePorts = {
  streams: { out: () => undefined, err: () => undefined },
  environment: unused,
  serve: unused,
  loadConfig: unused,
  runProgram: unused,
  openBrowser: unused,
  verifyLedger: unused,
  makeBackup: unused,
  migrateStore: unused,
  restoreBackup: unused,
};

function unused(): never {
  throw new Error('a command was run');
}

/** Returns the text of the page. */
export async function commandLineDoc(): Promise<string> {
  const program = await makeProgram(ports, unused);
  const groups = program.commands.map(command => {
    const leaves = command.commands.length === 0 ? [] : command.commands;
    const own = leaves.length === 0 ? [describe(command, command.name())] : [sentence(command.description())];
    const parts = leaves.map(leaf => describe(leaf, `${command.name()} ${leaf.name()}`));
    return [`## ${command.name()}`, ...own, ...parts].join('\n\n');
  });
  return `${[introduction.trimEnd(), ...groups].join('\n\n')}\n`;
}

function describe(command: Command, name: string): string {
  const options = command.options.filter(({ long }) => !common.includes(long ?? ''));
  const rows = [
    ...command.registeredArguments.map(each => row(argumentText(each), each.description)),
    ...options.map(each => row(each.flags, optionText(each))),
  ];
  const usage = ['tollgate', name, ...command.registeredArguments.map(argumentText), ...options.map(usageText)];
  const table = rows.length === 0 ? [] : [['| argument or option | meaning |', '| --- | --- |', ...rows].join('\n')];
  return [`    ${usage.join(' ')}`, sentence(command.description()), ...table].join('\n\n');
}

function argumentText(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

/** Returns an option as it is used; optional ones without their values, which the table has. */
function usageText({ flags, long, mandatory }: Option): string {
  return mandatory ? flags : `[${long ?? flags}]`;
}

function optionText({ description, defaultValueDescription: standard }: Option): string {
  return standard === undefined ? description : `${description} (default: ${standard})`;
}

function row(name: string, meaning: string): string {
  return `| \`${name.replaceAll('|', '\\|')}\` | ${meaning.replaceAll('|', '\\|')} |`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** Writes the page. */
export async function writeCommandLineDoc(): Promise<void> {
  writeFileSync(path, await commandLineDoc());
}

if (import.meta.main) await writeCommandLineDoc();
