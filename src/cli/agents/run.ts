import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { KeyState, type ModelUsage } from '../../gen/tollgate/v1/admin_pb.ts';
import { isoTime, systemClock } from '../../lib/clock.ts';
import { dollarsText } from '../../lib/dollars.ts';
import { balanceArgument, portArgument, spanArgument } from '../arguments.ts';
import { CommandFailure } from '../failure.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from '../gateway.ts';
import { tableText } from '../output.ts';
import type { CommandLinePorts } from '../ports.ts';
import { type Access, findAccess } from './access.ts';
import { programCommand, programEnvironment } from './environment.ts';
import { accountArgument, findAccountId, type ObjectName } from '../names.ts';

/** The dependencies of `run` from its environment. */
export type RunPorts = Pick<CommandLinePorts, 'streams' | 'environment' | 'runProgram'>;

interface RunOptions extends GatewayOptions {
  readonly account: bigint | ObjectName;
  readonly budget?: bigint;
  readonly for: number;
  readonly model?: string;
  readonly url?: string;
}

/** A key that was created for one command. */
interface MadeKey extends Access {
  readonly keyId: bigint;
  readonly expiresAtMs: number;
}

const twoHoursMs = 2 * 3_600_000;
const labelMax = 200;

/** Adds `run [--budget DOLLARS] [--model ID] [--for 2h] -- COMMAND…`; its exit code is that of the command. */
export function runCommand(program: Command, ports: RunPorts, exitWith: (code: number) => void): void {
  program
    .command('run')
    .description('run a command with a temporary API key, which is revoked when the command ends')
    .argument('<command...>', 'the command, after --')
    .option(
      '--budget <dollars>',
      'the most it may spend, moved out of the account’s balance (default: no budget of its own)',
      balanceArgument,
    )
    .option('--model <id>', 'the model to use (default: the first that can call tools)')
    .addOption(
      new Option('--for <span>', 'how long the key is valid at most').argParser(spanArgument).default(twoHoursMs, '2h'),
    )
    .addOption(new Option('--account <account>', 'the account that pays').argParser(accountArgument).default(1n, '1'))
    .option('--url <url>', 'the gateway’s public address (default: the one that the gateway reports)')
    .option('--rpc-host <host>', 'the gateway’s internal listener (default: TOLLGATE_RPC_HOST, else 127.0.0.1)')
    .option('--rpc-port <port>', 'its port (default: TOLLGATE_RPC_PORT, else 9090)', portArgument)
    .option('--data-dir <dir>', 'the data directory, with the operator token (default: TOLLGATE_DATA_DIR, else ./data)')
    .action(async (command: string[], options: RunOptions) => {
      exitWith(await run(command, options, ports));
    });
}

async function run(command: readonly string[], options: RunOptions, ports: RunPorts): Promise<number> {
  const environment = ports.environment();
  const ask = <T>(call: (clients: GatewayClients) => Promise<T>): Promise<T> => askGateway(options, environment, call);
  const made = await ask(clients => makeKey(clients, command, options));
  const budget = options.budget === undefined ? 'the account’s balance' : `$${dollarsText(options.budget)}`;
  ports.streams.err(
    `tollgate: ${made.model} at ${made.url}; budget: ${budget}; key ${made.keyId} expires at ${isoTime(made.expiresAtMs)}\n`,
  );
  try {
    return await ports.runProgram(
      programCommand(command, made),
      programEnvironment(environment.variables, made, command),
    );
  } finally {
    await end(made, { ask, options, streams: ports.streams });
  }
}

async function makeKey(
  clients: GatewayClients,
  command: readonly string[],
  { account, budget, for: spanMs, ...target }: RunOptions,
): Promise<MadeKey> {
  const accountId = await findAccountId(clients.admin, account);
  const found = await findAccess(clients, target);
  const expiresAtMs = systemClock.now() + spanMs;
  const { key } = await clients.admin.createApiKey({
    accountId,
    settings: {
      // Only the program: its arguments can have secrets, and the label is in the audit and in webhooks.
      label: `run: ${basename(command[0] ?? '')}`.slice(0, labelMax),
      expiresAtMs: BigInt(expiresAtMs),
      ...(budget === undefined ? {} : { balanceNanoUsd: budget }),
    },
  });
  if (key === undefined) throw new Error('the gateway answered without the key');
  return { ...found, key: key.key, keyId: key.apiKeyId, expiresAtMs };
}

/** The arguments of `end` besides the key. */
interface EndContext {
  readonly ask: <T>(call: (clients: GatewayClients) => Promise<T>) => Promise<T>;
  readonly options: RunOptions;
  readonly streams: RunPorts['streams'];
}

/**
 * Revokes the key, which moves the rest of its balance back to the account, and prints the cost. A `CommandFailure` is printed, and does not
 * change the exit code; other errors are thrown.
 */
async function end({ keyId, expiresAtMs }: MadeKey, { ask, options, streams }: EndContext): Promise<void> {
  try {
    await ask(({ admin }) => admin.setApiKeyState({ apiKeyId: keyId, state: KeyState.REVOKED }));
    const models = await settledUsage(() =>
      ask(
        async ({ admin }) =>
          (await admin.getApiKeyUsage({ accountId: await findAccountId(admin, options.account), apiKeyId: keyId }))
            .models,
      ),
    );
    streams.err(summary(models, options.budget));
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    streams.err(
      `tollgate: the key could not be revoked, or its usage could not be read: ${error.lines.join(' ')}\n` +
        `tollgate: if it is not revoked, it expires at ${isoTime(expiresAtMs)}, and the rest of its balance then goes back to the account\n`,
    );
  }
}

const settleWaitMs = 250;
const settleReadsMax = 12;

/** Returns the usage once the number of requests no longer changes, or after 12 reads: requests that the command left unfinished are settled shortly after its end. */
async function settledUsage(read: () => Promise<ModelUsage[]>): Promise<ModelUsage[]> {
  let before = await read();
  for (let reads = 1; reads < settleReadsMax; reads += 1) {
    await sleep(settleWaitMs);
    const now = await read();
    if (countRequests(now) === countRequests(before)) return now;
    before = now;
  }
  return before;
}

function countRequests(models: readonly ModelUsage[]): number {
  return models.reduce((sum, { requests }) => sum + requests, 0);
}

function summary(models: readonly ModelUsage[], budget: bigint | undefined): string {
  const spent = models.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
  const rows = models.map(each => ({
    model: each.model,
    requests: each.requests,
    input_tokens: each.inputTokens.toString(),
    output_tokens: each.outputTokens.toString(),
    spent: `$${dollarsText(each.costNanoUsd)}`,
  }));
  const table =
    rows.length === 0 ? '' : tableText(rows, ['model', 'requests', 'input_tokens', 'output_tokens', 'spent']);
  const rest =
    budget === undefined ? '' : `, $${dollarsText(budget - spent)} of $${dollarsText(budget)} returned to the account`;
  return `${table}tollgate: $${dollarsText(spent)} spent${rest}; the key is revoked\n`;
}
