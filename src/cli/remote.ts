import type { Command } from 'commander';
import { portArgument } from './arguments.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from './gateway.ts';
import { type Document, jsonText, resourceText, tableText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';

/** What commands that ask the running gateway need. */
export type RemotePorts = Pick<CommandLinePorts, 'streams' | 'environment'>;

/** Options of every command that asks the running gateway. */
export type RemoteOptions = GatewayOptions & { readonly json?: true };

/** Adds the options of a command that asks the running gateway. */
export function remote(command: Command): Command {
  return command
    .option('--json', 'print one JSON document')
    .option('--rpc-host <host>', 'the gateway’s internal listener (default: TOLLGATE_RPC_HOST, else 127.0.0.1)')
    .option('--rpc-port <port>', 'its port (default: TOLLGATE_RPC_PORT, else 9090)', portArgument)
    .option('--data-dir <dir>', 'where the operator token is (default: TOLLGATE_DATA_DIR, else ./data)');
}

/** Asks the gateway for one resource and prints it. */
export async function printResource(
  ports: RemotePorts,
  options: RemoteOptions,
  ask: (clients: GatewayClients) => Promise<Document>,
): Promise<void> {
  const resource = await askGateway(options, ports.environment(), ask);
  ports.streams.out(options.json === true ? jsonText(resource) : resourceText(resource));
}

/** A list to print: the documents for programs, rows (the documents where absent) and columns for people. */
export interface Listing {
  readonly data: readonly Document[];
  readonly rows?: readonly Document[];
  readonly columns: readonly string[];
}

/** Asks the gateway for a list and prints it: `{data: […]}`, or a table. */
export async function printList(
  ports: RemotePorts,
  options: RemoteOptions,
  ask: (clients: GatewayClients) => Promise<Listing>,
): Promise<void> {
  const { data, rows = data, columns } = await askGateway(options, ports.environment(), ask);
  ports.streams.out(options.json === true ? jsonText({ data }) : tableText(rows, columns));
}

/** The resource in an answer. The contract promises it: its absence means another version of the gateway. */
export function present<T>(resource: T | undefined): T {
  if (resource === undefined) throw new Error('the gateway answered without the resource');
  return resource;
}
