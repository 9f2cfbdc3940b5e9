import { constants } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import type { Command } from 'commander';
import type { Environment } from '../config/env.ts';
import type { ListRoutesResponse, ProviderStatus } from '../gen/tollgate/v1/admin_pb.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { version } from '../lib/version.ts';
import { CommandFailure } from './failure.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from './gateway.ts';
import { type Document, jsonText, resourceText, tableText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';
import { addGatewayOptions } from './remote.ts';

/** The commands `status`, `doctor` and `reload`, which show the state of a gateway, check it, and reload its configuration. */

type Ports = Pick<CommandLinePorts, 'streams' | 'environment' | 'loadConfig' | 'verifyLedger'>;
type Options = GatewayOptions & { readonly json?: true };

/** How long the gateway may take to answer. */
const answerTimeoutMs = 3000;
/** The free space below which the gateway reports that it is not ready. */
const freeBytesMin = 16 * 1024 ** 2;
/** The percentage of free space below which `doctor` warns. */
const freePercentMin = 5;

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
async function readReadiness(publicUrl: string): Promise<string> {
  const answer = await ask(`${publicUrl}/readyz`);
  if (answer === undefined) return `${publicUrl} can’t be reached from this machine`;
  const { error } = answer.body as { error?: { message?: string } };
  return answer.ok ? 'yes' : (error?.message ?? 'no');
}

/** Returns the version of the gateway at an address; null if none answers there or it does not say. */
async function readVersion(publicUrl: string): Promise<string | null> {
  const found = (await ask(publicUrl))?.body['version'];
  return typeof found === 'string' ? found : null;
}

type Outcome = 'ok' | 'warning' | 'failed';

/** The result of a check. `detail` says what was found and, for some problems, what to do. */
interface CheckResult {
  readonly outcome: Outcome;
  readonly detail: string;
}

/** A result with the name of its check. */
type NamedCheckResult = CheckResult & { readonly check: string };

/** Adds `doctor`, which checks everything that a gateway needs. The exit code is 1 if a check fails. */
export function doctorCommand(program: Command, ports: Ports): void {
  const command = program
    .command('doctor')
    .description('check the configuration, the data directory, the ledger, the gateway and its providers');
  addGatewayOptions(command).action(async (options: Options) => {
    const environment = ports.environment();
    const dataDir = options.dataDir ?? environment.dataDir;
    const results = [
      await checkConfig(ports),
      await checkDirectory(dataDir),
      await checkDisk(dataDir),
      await checkLedger(ports, dataDir),
      ...(await checkGateway(options, environment)),
    ];
    const failed = results.filter(({ outcome }) => outcome === 'failed');
    const document = { version, healthy: failed.length === 0, checks: results };
    ports.streams.out(
      options.json === true
        ? jsonText(document)
        : tableText(
            results.map(result => ({ ...result })),
            ['outcome', 'check', 'detail'],
          ),
    );
    if (failed.length > 0)
      throw new CommandFailure(
        1,
        failed.map(({ check, detail }) => `${check}: ${detail}`),
      );
  });
}

/** Runs a check. If it throws, the result is `failed` with the error's message. */
async function runCheck(check: string, run: () => Promise<CheckResult>): Promise<NamedCheckResult> {
  try {
    return { check, ...(await run()) };
  } catch (error) {
    const lines =
      error instanceof CommandFailure ? error.lines : [error instanceof Error ? error.message : String(error)];
    return { check, outcome: 'failed', detail: lines.join(' ') };
  }
}

const good = (detail: string): CheckResult => ({ outcome: 'ok', detail });

function checkConfig({ loadConfig }: Ports): Promise<NamedCheckResult> {
  return runCheck('configuration', async () => {
    const { file, providers, models } = await loadConfig(undefined);
    return good(`${file ?? 'no file'}: ${providers.length} providers, ${models.length} models`);
  });
}

function checkDirectory(dataDir: string): Promise<NamedCheckResult> {
  return runCheck('data directory', async () => {
    const { mode } = await stat(dataDir);
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    if ((mode & 0o077) === 0) return good(dataDir);
    return {
      outcome: 'warning',
      detail: `Other users can read ${dataDir}, which holds secrets: run chmod 700 ${dataDir}`,
    };
  });
}

function checkDisk(dataDir: string): Promise<NamedCheckResult> {
  return runCheck('disk', async () => {
    const { bavail, bsize, blocks } = await statfs(dataDir);
    const free = bavail * bsize;
    const detail = `${Math.floor(free / 1024 ** 2)} MiB free (${Math.floor((100 * bavail) / Math.max(1, blocks))} %)`;
    if (free < freeBytesMin)
      return { outcome: 'failed', detail: `${detail}: too little, so the gateway reports that it is not ready` };
    return 100 * bavail < freePercentMin * blocks ? { outcome: 'warning', detail } : good(detail);
  });
}

function checkLedger({ verifyLedger }: Ports, dataDir: string): Promise<NamedCheckResult> {
  return runCheck('ledger', async () => {
    const violations = await verifyLedger(dataDir);
    if (violations.length === 0) return good('all invariants hold');
    const found = violations.length === 1 ? '1 broken invariant' : `${violations.length} broken invariants`;
    return { outcome: 'failed', detail: `${found}: run \`tollgate ledger verify\` for details` };
  });
}

async function checkGateway(options: GatewayOptions, environment: Environment): Promise<NamedCheckResult[]> {
  let known: { providers: readonly ProviderStatus[]; routes: ListRoutesResponse['routes'] } | undefined;
  const gateway = await runCheck('gateway', async () => {
    const address = await askGateway(options, environment, async ({ admin }) => {
      const [{ providers }, { routes }] = await Promise.all([admin.listProviders({}), admin.listRoutes({})]);
      known = { providers, routes };
      return (await admin.describeGateway({})).publicUrl;
    });
    const ready = await readReadiness(address);
    if (ready !== 'yes') return { outcome: 'failed', detail: ready };
    const running = await readVersion(address);
    if (running === version) return good(`${address}, version ${version}`);
    return {
      outcome: 'warning',
      detail: `${address} runs version ${running ?? 'unknown'}, this command is ${version}`,
    };
  });
  if (known === undefined) return [gateway];
  return [gateway, checkProviders(known.providers), checkRoutes(known.routes)];
}

function checkProviders(providers: readonly ProviderStatus[]): NamedCheckResult {
  const bad = providers.filter(
    ({ state, keys }) => state === 'no_key' || state === 'failing' || keys.some(key => key.state !== 'working'),
  );
  if (bad.length === 0) return { check: 'providers', ...good(`${providers.length} providers, all keys work`) };
  const detail = bad.map(describeProblems).join('; ');
  return { check: 'providers', outcome: 'warning', detail: `${detail}: run \`tollgate providers\` for details` };
}

/** Returns what is wrong with a provider: its own state, if that is bad, and the state of each key that does not work. */
function describeProblems({ name, state, keys }: ProviderStatus): string {
  const own = state === 'no_key' || state === 'failing' ? [state] : [];
  const badKeys = keys.filter(key => key.state !== 'working').map(key => `key ${key.number} is ${key.state}`);
  return `${name}: ${[...own, ...badKeys].join(', ')}`;
}

function checkRoutes(routes: ListRoutesResponse['routes']): NamedCheckResult {
  const bad = routes.filter(({ state }) => state !== 'available');
  if (bad.length === 0) return { check: 'routes', ...good(`${routes.length} routes, all available`) };
  return {
    check: 'routes',
    outcome: 'warning',
    detail: `${bad.length} of ${routes.length} are not available: run \`tollgate routes\` for details`,
  };
}
