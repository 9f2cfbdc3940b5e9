import { constants } from 'node:fs';
import { access, readFile, stat, statfs } from 'node:fs/promises';
import type { Command } from 'commander';
import type {
  GetConfigurationResponse,
  GetStorageResponse,
  ListRoutesResponse,
  ProviderStatus,
} from '../gen/tollgate/v1/admin_pb.ts';
import { version } from '../lib/version.ts';
import { CommandFailure } from './failure.ts';
import { askGateway, type GatewayClients, type GatewayOptions } from './gateway.ts';
import { readReadiness, readVersion } from './health.ts';
import { jsonText, tableText } from './output.ts';
import type { CommandLinePorts } from './ports.ts';
import { addGatewayOptions } from './remote.ts';

/**
 * The command `doctor`, which checks everything that a gateway needs. It asks the running gateway about its own file, storage and providers; if none answers, it checks
 * what a gateway that is started here would use.
 */

type Ports = Pick<CommandLinePorts, 'streams' | 'environment' | 'loadConfig' | 'verifyLedger'>;
type Options = GatewayOptions & { readonly json?: true };

/** The free space below which the gateway reports that it is not ready. */
const freeBytesMin = 16 * 1024 ** 2;
/** The percentage of free space below which `doctor` warns. */
const freePercentMin = 5;
/** How long a gateway may take to check its ledger. */
const verifyTimeoutMs = 600_000;

type Outcome = 'ok' | 'warning' | 'failed';

/** The result of a check. `detail` says what was found and, for some problems, what to do. */
interface CheckResult {
  readonly outcome: Outcome;
  readonly detail: string;
}

/** A result with the name of its check. */
type NamedCheckResult = CheckResult & { readonly check: string };

/** The running gateway's report about itself. */
interface Reported {
  readonly publicUrl: string;
  readonly configuration: GetConfigurationResponse;
  readonly storage: GetStorageResponse;
  readonly providers: readonly ProviderStatus[];
  readonly routes: ListRoutesResponse['routes'];
}

type AskGateway = <T>(call: (clients: GatewayClients) => Promise<T>) => Promise<T>;

/** Adds `doctor`. The exit code is 1 if a check fails. */
export function doctorCommand(program: Command, ports: Ports): void {
  const command = program
    .command('doctor')
    .description('check the configuration, the data directory, the ledger, the gateway and its providers');
  addGatewayOptions(command).action(async (options: Options) => {
    const environment = ports.environment();
    const dataDir = options.dataDir ?? environment.dataDir;
    const ask: AskGateway = call => askGateway(options, environment, call);
    let reported: Reported | undefined;
    const gateway = await runCheck('gateway', async () => {
      reported = await ask(readReport);
      return checkGateway(reported.publicUrl);
    });
    const results = [
      gateway,
      await checkConfig(ports, reported, ask),
      await checkDirectory(dataDir),
      await checkDisk(dataDir, reported?.storage),
      await checkLedger(ports, { dataDir, storage: reported?.storage, ask }),
      ...(reported === undefined ? [] : [checkProviders(reported), checkRoutes(reported.routes)]),
    ];
    const failed = results.filter(({ outcome }) => outcome === 'failed');
    const document = { version, healthy: failed.length === 0, checks: results };
    const rows = results.map(result => ({ ...result }));
    ports.streams.out(options.json === true ? jsonText(document) : tableText(rows, ['outcome', 'check', 'detail']));
    if (failed.length > 0) {
      throw new CommandFailure(
        1,
        failed.map(({ check, detail }) => `${check}: ${detail}`),
      );
    }
  });
}

async function readReport({ admin }: GatewayClients): Promise<Reported> {
  const [{ publicUrl }, configuration, storage, { providers }, { routes }] = await Promise.all([
    admin.describeGateway({}),
    admin.getConfiguration({}),
    admin.getStorage({}),
    admin.listProviders({}),
    admin.listRoutes({}),
  ]);
  return { publicUrl, configuration, storage, providers, routes };
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
const warn = (detail: string): CheckResult => ({ outcome: 'warning', detail });
const bad = (detail: string): CheckResult => ({ outcome: 'failed', detail });

async function checkGateway(address: string): Promise<CheckResult> {
  const ready = await readReadiness(address);
  if (ready !== 'yes') return bad(ready);
  const running = await readVersion(address);
  if (running === version) return good(`${address}, version ${version}`);
  return warn(`${address} runs version ${running ?? 'unknown'}, this command is ${version}`);
}

/** Checks the file of the running gateway, or without one the file that `serve` would use. */
function checkConfig(
  { loadConfig }: Ports,
  reported: Reported | undefined,
  ask: AskGateway,
): Promise<NamedCheckResult> {
  return runCheck('configuration', async () => {
    if (reported === undefined) {
      const { file, providers, models } = await loadConfig(undefined);
      return good(`${file ?? 'no file'}: ${counted(providers.length, 'provider')}, ${counted(models.length, 'model')}`);
    }
    const { file, needsRestart } = reported.configuration;
    if (file === '') return good('the gateway uses no file');
    const text = await readLocal(file);
    if (text === undefined) return good(`${file}, which the gateway uses, is not on this machine`);
    const { problems, changeCount } = await ask(({ admin }) => admin.checkConfiguration({ text }));
    if (problems.length > 0) {
      return bad(`${file} has ${counted(problems.length, 'problem')}: run \`tollgate config check ${file}\``);
    }
    if (needsRestart.length > 0) return warn(`${file}: restart the gateway to apply ${needsRestart.join(', ')}`);
    if (changeCount === 0) return good(`${file}, as the gateway uses it`);
    return warn(
      `${file} has changed since it was read: run \`tollgate config diff ${file}\`, then \`tollgate reload\``,
    );
  });
}

/** Returns the text of a file; undefined if it can't be read here, because the gateway runs elsewhere. */
async function readLocal(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    return undefined;
  }
}

function checkDirectory(dataDir: string): Promise<NamedCheckResult> {
  return runCheck('data directory', async () => {
    const { mode } = await stat(dataDir);
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    if ((mode & 0o077) === 0) return good(dataDir);
    return warn(`Other users can read ${dataDir}, which holds secrets: run chmod 700 ${dataDir}`);
  });
}

function checkDisk(dataDir: string, storage: GetStorageResponse | undefined): Promise<NamedCheckResult> {
  return runCheck('disk', async () => {
    if (storage !== undefined && storage.problem !== '') return bad(storage.problem);
    const { free, total } =
      storage === undefined
        ? await readSpace(dataDir)
        : { free: Number(storage.freeBytes), total: Number(storage.totalBytes) };
    const detail = `${Math.floor(free / 1024 ** 2)} MiB free (${Math.floor((100 * free) / Math.max(1, total))} %)`;
    if (free < freeBytesMin) return bad(`${detail}: too little, so the gateway reports that it is not ready`);
    return 100 * free < freePercentMin * total ? warn(detail) : good(detail);
  });
}

async function readSpace(dataDir: string): Promise<{ free: number; total: number }> {
  const { bavail, bsize, blocks } = await statfs(dataDir);
  return { free: bavail * bsize, total: blocks * bsize };
}

/** Checks the ledger's invariants: a gateway that stores in PostgreSQL checks its own database, a file is checked here. */
function checkLedger(
  { verifyLedger }: Ports,
  { dataDir, storage, ask }: { dataDir: string; storage: GetStorageResponse | undefined; ask: AskGateway },
): Promise<NamedCheckResult> {
  return runCheck('ledger', async () => {
    const isRemote = storage?.engine === 'postgres';
    const violations = isRemote
      ? (await ask(({ admin }) => admin.verifyLedger({}, { timeoutMs: verifyTimeoutMs }))).violations
      : await verifyLedger(dataDir);
    if (violations.length === 0) return good(`all invariants hold (${isRemote ? 'PostgreSQL' : 'SQLite'})`);
    const command = isRemote ? 'tollgate ledger verify --running' : 'tollgate ledger verify';
    return bad(`${counted(violations.length, 'broken invariant')}: run \`${command}\` for details`);
  });
}

/**
 * Checks the providers by what they have answered since the start. A provider fails if it has no usable key, if the circuit breakers of all its routes are open, or if it has
 * answered nothing but errors. One that was not asked yet is named, and not called good.
 */
function checkProviders({ providers, routes }: Reported): NamedCheckResult {
  const found = providers.map(provider => describeProvider(provider, routes));
  const named = (kind: Outcome | 'unasked'): string[] =>
    found.filter(each => each.kind === kind).map(({ detail }) => detail);
  const failed = named('failed');
  const warnings = named('warning');
  const unasked = named('unasked');
  const answered = named('ok');
  const answering = `${answered.length + warnings.length} of ${counted(providers.length, 'provider')} answered`;
  const detail = [
    ...failed,
    ...warnings,
    answering,
    ...(unasked.length === 0 ? [] : [`not asked since the start: ${unasked.join(', ')}`]),
  ].join('; ');
  const hint = failed.length + warnings.length === 0 ? '' : ': run `tollgate providers` for details';
  const outcome = failed.length > 0 ? 'failed' : warnings.length > 0 ? 'warning' : 'ok';
  return { check: 'providers', outcome, detail: detail + hint };
}

function describeProvider(
  { name, state, keys, lastError }: ProviderStatus,
  routes: Reported['routes'],
): { readonly kind: Outcome | 'unasked'; readonly detail: string } {
  const own = routes.filter(({ provider }) => provider === name);
  const attempts = own.reduce((sum, route) => sum + route.attempts, 0n);
  const failures = own.reduce((sum, route) => sum + route.failures, 0n);
  const said =
    lastError === undefined ? '' : ` (${lastError.message || lastError.result}${statusText(lastError.status)})`;
  if (state === 'no_key' || state === 'failing') return { kind: 'failed', detail: `${name}: ${state}${said}` };
  if (attempts === 0n) return { kind: 'unasked', detail: name };
  if (attempts === failures)
    return { kind: 'failed', detail: `${name} has answered only errors since the start${said}` };
  const resting = keys.filter(key => key.state !== 'working').map(key => `key ${key.number} is ${key.state}`);
  if (resting.length > 0) return { kind: 'warning', detail: `${name}: ${resting.join(', ')}${said}` };
  return { kind: 'ok', detail: name };
}

const statusText = (status: number): string => (status === 0 ? '' : `, status ${status}`);

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

function checkRoutes(routes: ListRoutesResponse['routes']): NamedCheckResult {
  const unavailable = routes.filter(({ state }) => state !== 'available').length;
  if (unavailable === 0) return { check: 'routes', ...good(`${counted(routes.length, 'route')}, none is closed`) };
  return {
    check: 'routes',
    ...warn(`${unavailable} of ${routes.length} are not available: run \`tollgate routes\` for details`),
  };
}
