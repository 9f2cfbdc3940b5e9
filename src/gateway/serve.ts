import { flushCompileCache } from 'node:module';
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { BackupError } from './backup/backup-error.ts';
import type { Environment } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { simulatorModels } from '../simulator/models.ts';
import { version } from '../lib/version.ts';
import { LedgerStartError } from '../lib/sqlite/start-error.ts';
import { createLogger } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { lowerV8Priority } from '../lib/threads/thread-priority.ts';
import { readOtelSettings } from '../telemetry/otel/settings.ts';
import { banner } from './banner.ts';
import type { Gateway, GatewayResources } from './gateway.ts';
import { readConfig } from './read-config.ts';
import { startFacts } from './start-line.ts';
import { StorageHealth } from './storage-health.ts';
import { shareLimits } from './workers/share-limits.ts';
import type { Workers, WorkersOptions } from './workers/workers.ts';
import { openDatabaseStores, openStores } from './stores.ts';

/** The options of the command `serve`. */
export interface ServeOptions {
  /** The path of the configuration file; absent: the one that the environment names. */
  readonly configPath?: string;
}

/** How long the banner waits until servers have listed their models. */
const serversMs = 1_500;

/** Runs the gateway until a signal has stopped it. Returns the exit code. Throws `ConfigError`. */
export async function serve(environment: Environment, { configPath }: ServeOptions): Promise<number> {
  // Only the operator may read the files (with balances and hashes of keys), even if others can enter the data directory.
  process.umask(0o077);
  // The workers, and this thread.
  const threads = environment.workers === 1 ? 1 : environment.workers + 1;
  const rereadConfig = async (): Promise<Config> => shareLimits(await readConfig(environment, configPath), threads);
  const config = await rereadConfig();
  // Signals are handled before anything is opened, because whoever reads the banner or /readyz may stop the gateway immediately.
  const stopped = stopSignals();
  const logger = createLogger({ level: config.logLevel });
  const health = new StorageHealth({ dataDir: environment.dataDir, logger });
  const otel = readOtelSettings(environment.telemetry);
  const exported = otel === undefined ? undefined : (await openExport()).openOpenTelemetry(otel, version, logger);
  const start = {
    environment,
    config,
    configPath,
    logger,
    health,
    rereadConfig,
    otel,
    exported,
    startTrace: exported?.startTrace,
  };
  // If storage has lost writes, the process ends without closing the stores.
  return Promise.race([run(start, stopped), health.lost.then(() => 1)]);
}

/** Runs the gateway until it is stopped. Returns the exit code. */
async function run(start: Start, stopped: ReturnType<typeof stopSignals>): Promise<number> {
  const { environment, config, health, logger, otel, exported } = start;
  let gateway: Gateway;
  try {
    gateway = await openAll(start);
  } catch (thrown) {
    const reason = startFailure(thrown, environment);
    if (reason === undefined) throw thrown;
    process.stderr.write(`${reason}\n`);
    return isNewerDatabase(thrown, environment) ? 2 : 1;
  }
  // Writes the compile cache now. Node.js writes it only at the end of a process, so after `kill -9` every start would compile everything again.
  flushCompileCache();
  // Sets V8's default again, which `src/main.ts` has lowered for the start, so that the young generation can grow enough for answers.
  setFlagsFromString('--semi-space-growth-factor=2');
  // Collects the old generation when it has grown by a third. By default V8 lets it grow to several times what is in use, which takes 50 MB under full load; few objects get into it, so that a collection remains rare.
  setFlagsFromString('--heap-growing-percent=30');
  lowerV8Priority();
  process.on('SIGHUP', () => gateway.reload());
  const { publicUrl, rpcUrl, firstKeys, dashboard } = gateway;
  const providers = await gateway.findProviders(serversMs);
  const ownModel = config.simulator.enabled ? simulatorModels[0]?.id : config.models[0]?.id;
  const model = providers.find(({ models }) => models.length > 0)?.models[0] ?? ownModel;
  const facts = { publicUrl, rpcUrl, dashboard, dataDir: environment.dataDir, providers, model };
  process.stdout.write(banner(firstKeys === undefined ? facts : { ...facts, firstKeys }));
  logger.info(startFacts({ environment, config, otel }, gateway), 'started');
  const { signal, stoppedMs, isStored } = await stopped(gateway);
  health.close();
  await exported?.close();
  logger.info({ version, signal, stopping_ms: stoppedMs, uptime_s: Math.round(process.uptime()) }, 'stopped');
  return isStored ? 0 : 1;
}

/** Loaded only if telemetry is exported. */
const openExport = () => import('../telemetry/otel/open.ts');

/** The options of a gateway's start. */
type Start = Pick<GatewayResources, 'environment' | 'config' | 'logger' | 'rereadConfig' | 'startTrace'> & {
  readonly health: StorageHealth;
  readonly configPath: string | undefined;
  readonly otel: ReturnType<typeof readOtelSettings>;
  readonly exported: ReturnType<Awaited<ReturnType<typeof openExport>>['openOpenTelemetry']> | undefined;
};

/** Opens the stores and the gateway. The stores open on other threads while the rest of the program is loaded, which saves a tenth of a second. Throws the error of opening. */
async function openAll(start: Start): Promise<Gateway> {
  const { environment, config, configPath, logger, health, startTrace, rereadConfig } = start;
  const { databaseUrl, workers: count } = environment;
  const metrics = new Metrics(version);
  const dependencies = { metrics, logger, health };
  const resources = { environment, config, logger, metrics, health, startTrace, rereadConfig };
  if (databaseUrl !== undefined) {
    const stores = await openDatabaseStores({ ...environment, databaseUrl }, config, dependencies);
    metrics.add(() => health.metrics.text());
    await health.start();
    const { openGateway } = await import('./gateway.ts');
    return openGateway({ ...resources, stores, instance: stores.ledger.instanceNumber });
  }
  const [stores, { openGateway }] = await Promise.all([
    openStores(environment, config, dependencies),
    import('./gateway.ts'),
  ]);
  metrics.add(() => health.metrics.text());
  await health.start();
  const workers = await openWorkers({ count, configPath, stores, logger, health });
  return openGateway({ ...resources, workers, stores });
}

/** Opens the worker threads; returns undefined if this thread serves HTTP. Throws `LedgerStartError` if this system can't run workers. */
async function openWorkers(options: WorkersOptions): Promise<Workers | undefined> {
  if (options.count === 1) return undefined;
  const { refuseWithoutSharedPorts, Workers: Threads } = await import('./workers/workers.ts');
  refuseWithoutSharedPorts();
  return new Threads(options);
}

const addressCalls = new Set(['listen', 'bind', 'getaddrinfo']);

/** Returns in words why a gateway can't start; undefined if the reason is a defect of the program. */
function startFailure(thrown: unknown, environment: Environment): string | undefined {
  if (thrown instanceof LedgerStartError || thrown instanceof BackupError) return thrown.message;
  if (thrown instanceof Error && thrown.name === 'ConnectionLost') {
    return `${thrown.message}. See TOLLGATE_DATABASE_URL.`;
  }
  // Only errors of the operating system have the name of a system call.
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return undefined;
  if (addressCalls.has(String(thrown.syscall))) {
    return `${thrown.message}. Choose other addresses with TOLLGATE_HOST, TOLLGATE_PORT (${environment.port}), TOLLGATE_RPC_HOST and TOLLGATE_RPC_PORT (${environment.rpcPort}).`;
  }
  return `The data directory ${environment.dataDir} can’t be used: ${thrown.message}. Choose another with TOLLGATE_DATA_DIR.`;
}

/** Returns whether the gateway can't start because a newer version has upgraded the database. Restarting it would not help. */
function isNewerDatabase(thrown: unknown, { databaseUrl }: Environment): boolean {
  return databaseUrl !== undefined && thrown instanceof LedgerStartError && thrown.code === 'newer';
}

/** Why a gateway stopped, and how long the stop took. */
interface Stopped {
  readonly signal: NodeJS.Signals;
  /** True if everything was stored. */
  readonly isStored: boolean;
  readonly stoppedMs: number;
}

/** A second signal within this time counts as the same one. A terminal sends Ctrl-C to npm and to the gateway, and npm passes it on to the gateway again. */
const repeatedSignalMs = 1_000;

/**
 * Handles SIGTERM and SIGINT from now on. The returned function takes the started gateway; its promise resolves when a signal (even one during the start) has stopped that gateway. A second signal ends the grace period.
 */
function stopSignals(): (gateway: Gateway) => Promise<Stopped> {
  const first = Promise.withResolvers<NodeJS.Signals>();
  const second = Promise.withResolvers<void>();
  let firstAtMs: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    if (firstAtMs === undefined) {
      firstAtMs = performance.now();
      first.resolve(signal);
    } else if (performance.now() - firstAtMs > repeatedSignalMs) {
      second.resolve();
    }
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  return async gateway => {
    const signal = await first.promise;
    void second.promise.then(() => gateway.hurry());
    const beganAtMs = performance.now();
    const isStored = await gateway.stop();
    return { signal, isStored, stoppedMs: Math.round(performance.now() - beganAtMs) };
  };
}
