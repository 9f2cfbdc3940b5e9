import { closeSync, fchmodSync, fsyncSync, openSync, writeSync } from 'node:fs';
import type { Command } from 'commander';
import { dollarsText } from '../../lib/dollars.ts';
import { CommandFailure } from '../failure.ts';
import { askGateway, type GatewayClients, type GatewayOptions, RepeatableFailure } from '../gateway.ts';
import { jsonText, visible } from '../output.ts';
import { addGatewayOptions, type RemotePorts } from '../remote.ts';
import type { MadeSecret, Step } from './steps.ts';

interface ApplyOptions extends GatewayOptions {
  readonly dryRun?: true;
  readonly prune?: true;
  readonly secrets?: string;
  readonly json?: true;
}

/** Adds `apply`. */
export function applyCommand(program: Command, { streams, environment }: RemotePorts): void {
  const command = program
    .command('apply')
    .description(
      'create and change accounts, groups, keys, limits and webhooks as a file describes; prints the differences first',
    )
    .argument('<file>', 'the file, in YAML')
    .option('--dry-run', 'print the differences and change nothing')
    .option('--prune', 'also delete objects that the file’s sections do not name')
    .option('--secrets <file>', 'file that secrets of new keys and webhooks are appended to (default: FILE.secrets)');
  addGatewayOptions(command).action(async (path: string, options: ApplyOptions) => {
    // Loaded on demand, because the libraries of the configuration would slow down every other command.
    const [{ countWanted, readWanted }, { makePlan }, { findRefusals }] = await Promise.all([
      import('./wanted.ts'),
      import('./plan.ts'),
      import('./check.ts'),
    ]);
    const wanted = readWanted(path);
    await askGateway(options, environment(), async clients => {
      const { admin } = clients;
      const steps = await makePlan(admin, wanted, options.prune === true);
      const refusals = await findRefusals(clients, wanted);
      const changes = options.dryRun !== true && refusals.length === 0;
      if (options.json !== true) streams.out(planText(steps));
      if (changes) await run(admin, steps, options.secrets ?? `${path}.secrets`);
      if (options.json === true) streams.out(jsonText({ data: steps.map(toDocument), applied: changes }));
      else streams.out(`${changes ? '' : 'nothing was changed: '}${countsText(steps, countWanted(wanted))}\n`);
      if (refusals.length > 0) throw new CommandFailure(1, ['The gateway would refuse this file:', ...refusals]);
    });
  });
}

/** Returns the line of counts. An object that is created with one step and changed with another counts as created. */
function countsText(steps: readonly Step[], wanted: number): string {
  const named = (action: Step['action']): ReadonlySet<string> =>
    new Set(
      steps.filter(step => step.action === action).map(({ kind, name, account }) => `${kind} ${name} ${account ?? ''}`),
    );
  const created = named('create');
  const changed = named('update').difference(created);
  const unchanged = Math.max(0, wanted - created.size - changed.size);
  return `${created.size} created, ${changed.size} changed, ${named('delete').size} removed, ${unchanged} unchanged`;
}

const signs = { create: '+', update: '~', delete: '-' } as const;

function planText(steps: readonly Step[]): string {
  return steps
    .map(({ action, kind, name, account, changes }) => {
      const owner = account === null ? 'the operator' : `account ${account}`;
      // The name of an account's limit already ends with the name of the account.
      const of = kind === 'account' || name.endsWith(owner) ? '' : ` of ${owner}`;
      const lines = changes.map(({ field, from, to }) => {
        const change = action === 'create' ? shown(to) : `${shown(from)} → ${shown(to)}`;
        return `    ${field}: ${visible(change)}\n`;
      });
      return `${signs[action]} ${kind} ${visible(name)}${visible(of)}\n${lines.join('')}`;
    })
    .join('');
}

/** Returns a field's value as text. Only amounts of money are bigints. */
function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(toPlain(value));
}

function toPlain(value: unknown): unknown {
  return typeof value === 'bigint' ? JSON.rawJSON(dollarsText(value)) : value;
}

function toDocument({ action, kind, name, account, changes }: Step) {
  return {
    action,
    kind,
    name,
    account,
    changes: changes.map(({ field, from, to }) => ({ field, from: toPlain(from), to: toPlain(to) })),
  };
}

/** Runs the steps in order. `findRefusals` has found none; if one fails anyway, the message says what was done before it. The file for secrets is opened first, because a secret that can't be stored would be lost. */
async function run(admin: GatewayClients['admin'], steps: readonly Step[], path: string): Promise<void> {
  const file = steps.some(({ makesSecret }) => makesSecret) ? openSecrets(path) : undefined;
  try {
    for (const [done, step] of steps.entries()) {
      const made = await runStep(step, admin, `${done} of ${steps.length} steps were done`);
      if (made !== undefined && file !== undefined) addSecret(file, made);
    }
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

async function runStep(step: Step, admin: GatewayClients['admin'], progress: string): Promise<MadeSecret | undefined> {
  try {
    return await step.run(admin);
  } catch (error) {
    const repeat = `${progress} before ${step.kind} ${step.name}: correct the file and apply it again, which continues there.`;
    throw new RepeatableFailure(repeat, error, true);
  }
}

function openSecrets(path: string): number {
  try {
    const file = openSync(path, 'a', 0o600);
    fchmodSync(file, 0o600);
    return file;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CommandFailure(
      1,
      [`Secrets can't be written to ${path}: ${reason}.`, 'Name another file with --secrets.'],
      error,
    );
  }
}

/** Appends a secret to the file, as one line of JSON. */
function addSecret(file: number, made: MadeSecret): void {
  writeSync(file, `${JSON.stringify(made)}\n`);
  fsyncSync(file);
}
