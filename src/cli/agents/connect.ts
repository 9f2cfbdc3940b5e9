import { type Command, Option } from 'commander';
import { KeyState } from '../../gen/tollgate/v1/admin_pb.ts';
import { nameArgument, portArgument } from '../arguments.ts';
import { CommandFailure } from '../failure.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from '../gateway.ts';
import type { RemotePorts } from '../remote.ts';
import { type Access, findAccess } from './access.ts';
import { type ClientName, clientNames } from './client-names.ts';
import type { ClientProgram } from './clients.ts';
import { readSettings, restoreSettings, writeSettings } from './settings-file.ts';
import { makeTestCall } from './test-call.ts';
import { accountArgument, findAccountId, type ObjectName } from '../names.ts';

interface ConnectOptions extends GatewayOptions {
  readonly account: bigint | ObjectName;
  readonly key?: string;
  readonly model?: string;
  readonly url?: string;
  readonly print?: true;
  readonly undo?: true;
}

type GatewayCaller = <T>(call: (clients: GatewayClients) => Promise<T>) => Promise<T>;

/** The arguments of connecting a client. */
interface Connecting {
  readonly name: string;
  readonly client: ClientProgram;
  readonly options: ConnectOptions;
  readonly ask: GatewayCaller;
  readonly streams: RemotePorts['streams'];
}

/** Printed instead of a key, if no key is created. */
const keyPlace = 'YOUR_TOLLGATE_API_KEY';

/** Adds `connect CLIENT [--print] [--undo]`. */
export function connectCommand(program: Command, ports: RemotePorts): void {
  const names = Object.fromEntries(clientNames.map(name => [name, name]));
  program
    .command('connect')
    .description('point a client at the gateway: copies its old settings, writes new ones, and makes a test call')
    .argument('<client>', Object.keys(names).join(', '), nameArgument(names))
    .option('--print', 'print the settings and change nothing')
    .option('--undo', 'restore the old settings, and revoke the client’s keys')
    .option('--model <id>', 'the model to use (default: the first that can call tools)')
    .option('--key <key>', 'an API key to use (default: a new one)')
    .addOption(
      new Option('--account <account>', 'the account of the new key').argParser(accountArgument).default(1n, '1'),
    )
    .option('--url <url>', 'the gateway’s public address (default: the one that the gateway reports)')
    .option('--rpc-host <host>', 'the gateway’s internal listener (default: TOLLGATE_RPC_HOST, else 127.0.0.1)')
    .option('--rpc-port <port>', 'its port (default: TOLLGATE_RPC_PORT, else 9090)', portArgument)
    .option('--data-dir <dir>', 'the data directory, with the operator token (default: TOLLGATE_DATA_DIR, else ./data)')
    .action(async (name: ClientName, options: ConnectOptions) => {
      const environment = ports.environment();
      const { clientPrograms } = await import('./clients.ts');
      const client = clientPrograms(environment.variables)[name];
      const ask: GatewayCaller = call => askGateway(options, environment, call);
      const connecting = { name, client, options, ask, streams: ports.streams };
      if (options.undo === true) await undo(connecting);
      else if (options.print === true) await print(connecting);
      else await connect(connecting);
    });
}

async function print({ client, options, ask, streams }: Connecting): Promise<void> {
  const place = await ask(clients => findAccess(clients, options));
  const access = { ...place, key: options.key ?? keyPlace };
  for (const { path, change } of client.files) {
    streams.out(`# ${path}\n${changed(path, () => change(undefined, access))}`);
  }
  for (const step of client.steps(access)) streams.out(`${step}\n`);
}

async function connect({ name, client, options, ask, streams }: Connecting): Promise<void> {
  const place = await ask(clients => findAccess(clients, options));
  // All files are read before a key is created, so that no key is left if a file can't be read.
  const old = client.files.map(file => ({ ...file, text: readSettings(file.path) }));
  for (const { path, change, text } of old) changed(path, () => change(text, { ...place, key: keyPlace }));
  const access: Access = { ...place, key: options.key ?? (await makeKey({ name, options, ask })) };
  for (const { path, change, text } of old) {
    const copy = writeSettings(path, change(text, access));
    streams.out(`wrote ${path}${copy === undefined ? '' : `; the old file is ${copy}`}\n`);
  }
  for (const step of client.steps(access)) streams.out(`${step}\n`);
  const { isGood, line } = await makeTestCall(access, client.uses);
  if (!isGood)
    throw new CommandFailure(1, [line, `Restore the old settings with: npx tollgate connect ${name} --undo`]);
  streams.out(`${line}\n`);
}

/** Calls `change`, and adds the file's path to its error. */
function changed(path: string, change: () => string): string {
  try {
    return change();
  } catch (error) {
    if (error instanceof CommandFailure) throw new CommandFailure(error.exitCode, [`${path}:`, ...error.lines], error);
    throw error;
  }
}

const makeLabel = (name: string): string => `connect: ${name}`;

/** Creates a key for the client, and revokes those that earlier runs created for it. */
async function makeKey({ name, options, ask }: Pick<Connecting, 'name' | 'options' | 'ask'>): Promise<string> {
  await revokeKeys({ name, options, ask });
  const settings = { label: makeLabel(name) };
  const { key } = await ask(async ({ admin }) =>
    admin.createApiKey({ accountId: await findAccountId(admin, options.account), settings }),
  );
  if (key === undefined) throw new Error('the gateway answered without the key');
  return key.key;
}

async function revokeKeys({ name, options, ask }: Pick<Connecting, 'name' | 'options' | 'ask'>): Promise<number> {
  const { keys } = await ask(async ({ admin }) =>
    admin.listApiKeys({ accountId: await findAccountId(admin, options.account) }),
  );
  const own = keys.filter(({ label }) => label === makeLabel(name));
  for (const { apiKeyId } of own) await ask(({ admin }) => admin.setApiKeyState({ apiKeyId, state: KeyState.REVOKED }));
  return own.length;
}

async function undo({ name, client, options, ask, streams }: Connecting): Promise<void> {
  for (const { path } of client.files) {
    const undone = restoreSettings(path);
    streams.out(undone ? `restored ${path}\n` : `${path} was not changed by connect\n`);
  }
  const revoked = await revokeKeys({ name, options, ask });
  streams.out(`${revoked} ${revoked === 1 ? 'key' : 'keys'} revoked\n`);
}
