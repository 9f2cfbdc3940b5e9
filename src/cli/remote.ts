import type { Command } from 'commander';
import { portArgument } from './arguments.ts';
import { CommandFailure } from './failure.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from './gateway.ts';
import { jsonText, resourceText, tableText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';
import { resolveNames } from './names.ts';
import type { ResourceView } from './resources.ts';

/** The ports of commands that call the running gateway. */
export type RemotePorts = Pick<CommandLinePorts, 'streams' | 'environment'>;

/** Calls the gateway; `given`: the command's arguments, then its options. */
type GatewayCall<Arguments extends readonly unknown[], Answer> = (
  clients: GatewayClients,
  ...given: Arguments
) => Promise<Answer>;

/** How a command asks and prints. */
interface Printed<Arguments extends readonly unknown[], Answer> {
  readonly ask: GatewayCall<Arguments, Answer>;
  readonly print: (answer: Answer, asJson: boolean) => string;
  /** Returns why the command fails although it was answered; undefined: it does not. */
  readonly findFailure?: (answer: Answer) => string | undefined;
}

/** Adds the options of every command that calls the running gateway. */
export function addGatewayOptions(command: Command): Command {
  return command
    .option('--json', 'print one JSON document')
    .option('--rpc-host <host>', 'the gateway’s internal listener (default: TOLLGATE_RPC_HOST, else 127.0.0.1)')
    .option('--rpc-port <port>', 'its port (default: TOLLGATE_RPC_PORT, else 9090)', portArgument)
    .option(
      '--data-dir <dir>',
      'the data directory, with the operator token (default: TOLLGATE_DATA_DIR, else ./data)',
    );
}

/** Adds a group of commands that ask the running gateway for one kind of object. */
export class ResourceCommands<T> {
  readonly #group: Command;
  readonly #ports: RemotePorts;
  readonly #view: ResourceView<T>;

  constructor(group: Command, ports: RemotePorts, view: ResourceView<T>) {
    this.#group = group;
    this.#ports = ports;
    this.#view = view;
  }

  /** Adds a command that prints one object. The caller adds the command's arguments and options. */
  one<Arguments extends readonly unknown[]>(
    name: string,
    description: string,
    ask: GatewayCall<Arguments, T | undefined>,
  ): Command {
    return this.#add<Arguments, T | undefined>(name, description, {
      ask,
      print: (resource, asJson) => {
        // A gateway of this version always returns it.
        if (resource === undefined) throw new Error('the gateway answered without the resource');
        const { document, text = document } = this.#view;
        return asJson ? jsonText(document(resource)) : resourceText(text(resource));
      },
      findFailure: resource => resource && this.#view.failure?.(resource),
    });
  }

  /** Adds a command that prints `{data: […]}` or a table. */
  list<Arguments extends readonly unknown[]>(
    description: string,
    ask: GatewayCall<Arguments, readonly T[]>,
    name = 'list',
  ): Command {
    const { document, columns, row = document } = this.#view;
    return this.#add<Arguments, readonly T[]>(name, description, {
      ask,
      print: (resources, asJson) =>
        asJson ? jsonText({ data: resources.map(document) }) : tableText(resources.map(row), columns),
    });
  }

  /** Adds a command whose result is not an object; prints `{message}` or the message. */
  done<Arguments extends readonly unknown[]>(
    name: string,
    description: string,
    ask: GatewayCall<Arguments, string>,
  ): Command {
    return this.#add<Arguments, string>(name, description, {
      ask,
      print: (message, asJson) => (asJson ? jsonText({ message }) : `${message}\n`),
    });
  }

  #add<Arguments extends readonly unknown[], Answer>(
    name: string,
    description: string,
    { ask, print, findFailure }: Printed<Arguments, Answer>,
  ): Command {
    const { streams, environment } = this.#ports;
    // The name of a group alone lists its objects: `tollgate accounts`.
    const command = this.#group.command(name, { isDefault: name === 'list' }).description(description);
    return addGatewayOptions(command).action(async (...given: Arguments) => {
      // The library passes the arguments, the options and the command.
      const options = given.at(-2) as GatewayOptions & { readonly json?: true };
      const answer = await askGateway(options, environment(), async clients =>
        ask(clients, ...(await resolveNames(clients.admin, this.#group.name(), given))),
      );
      streams.out(print(answer, options.json === true));
      const failure = findFailure?.(answer);
      if (failure !== undefined) throw new CommandFailure(1, [failure]);
    });
  }
}
