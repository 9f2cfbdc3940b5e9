import type { Command } from 'commander';
import { jsonDollars } from '../lib/dollars.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from './gateway.ts';
import { type Document, jsonText, resourceText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';
import { addGatewayOptions } from './remote.ts';

/** The commands `status` and `reload`, which show the state of a gateway, and reload its configuration. */

type Ports = Pick<CommandLinePorts, 'streams' | 'environment'>;
type Options = GatewayOptions & { readonly json?: true };

/** How long the gateway may take to answer. */
const answerTimeoutMs = 3000;
/** Adds `status`, which shows the state of the gateway in a few lines. */
export function statusCommand(program: Command, { streams, environment }: Ports): void {
  const command = program.command('status').description('show the state of the running gateway');
  addGatewayOptions(command).action(async (options: Options) => {
    const document = await askGateway(options, environment(), readStatus);
    streams.out(options.json === true ? jsonText(document) : resourceText(document));
  });
}

/** Adds `reload`, which makes the gateway read its configuration again. An invalid file changes nothing. */
export function reloadCommand(program: Command, { streams, environment }: Ports): void {
  const command = program
    .command('reload')
    .description('make the running gateway reload its configuration, as SIGHUP does; an invalid file changes nothing');
  addGatewayOptions(command).action(async (options: Options) => {
    const reloaded = await askGateway(options, environment(), ({ admin }) => admin.reloadConfiguration({}));
    const document = {
      file: reloaded.file === '' ? null : reloaded.file,
      providers: reloaded.providers,
      models: reloaded.models,
      needs_restart: reloaded.needsRestart,
    };
    streams.out(options.json === true ? jsonText(document) : resourceText(document));
  });
}

async function readStatus({ admin }: GatewayClients): Promise<Document> {
  const [{ publicUrl }, { accounts }, { providers }, { routes }] = await Promise.all([
    admin.describeGateway({}),
    admin.listAccounts({}),
    admin.listProviders({}),
    admin.listRoutes({}),
  ]);
  return {
    public_url: publicUrl,
    version: await readVersion(publicUrl),
    ready: await readReadiness(publicUrl),
    accounts: accounts.length,
    balance: jsonDollars(accounts.reduce((sum, { balanceNanoUsd }) => sum + balanceNanoUsd, 0n)),
    held: jsonDollars(accounts.reduce((sum, { heldNanoUsd }) => sum + heldNanoUsd, 0n)),
    providers: countStates(providers),
    routes: countStates(routes),
  };
}

function countStates(things: readonly { readonly state: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { state } of things) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

async function ask(address: string): Promise<{ ok: boolean; body: Document } | undefined> {
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(answerTimeoutMs) });
    return { ok: answer.ok, body: (await answer.json()) as Document };
  } catch {
    // No gateway answers at this address: no connection, a timeout, or an answer that is not JSON.
    return undefined;
  }
}

/** Returns "yes", or why the gateway is not known to be ready: the reason that it gives, or that it can't be reached. */
export async function readReadiness(publicUrl: string): Promise<string> {
  const answer = await ask(`${publicUrl}/readyz`);
  if (answer === undefined) return `${publicUrl} can’t be reached from this machine`;
  const { error } = answer.body as { error?: { message?: string } };
  return answer.ok ? 'yes' : (error?.message ?? 'no');
}

/** Returns the version of the gateway at an address; null if none answers there or it does not say. */
export async function readVersion(publicUrl: string): Promise<string | null> {
  const found = (await ask(publicUrl))?.body['version'];
  return typeof found === 'string' ? found : null;
}
