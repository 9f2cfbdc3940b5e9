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
import { readOtelSettings } from '../telemetry/otel/settings.ts';
import { banner } from './banner.ts';
import type { Gateway, Ground } from './gateway.ts';
import { readConfig } from './read-config.ts';
import { startFacts } from './start-line.ts';
import { StorageHealth } from './storage-health.ts';
import { openStores } from './stores.ts';

/** What the command line says of a start. */
export interface ServeOptions {
  /** The configuration file; absent: as the environment says. */
  readonly configPath?: string;
}

/** How long the banner waits for servers to tell their models. */
const serversMs = 1_500;

/** Runs the gateway until a signal has stopped it. Answers the exit code. Throws `ConfigError`. */
export async function serve(environment: Environment, { configPath }: ServeOptions): Promise<number> {
  // Balances and hashes of keys are the operator's alone, also in a data directory that others can enter.
  process.umask(0o077);
  const config = await readConfig(environment, configPath);
  // Before anything is opened: whoever reads the banner, or /readyz, may stop the gateway at once.
  const stopped = stopSignals();
  const logger = createLogger({ level: config.logLevel });
  const health = new StorageHealth({ dataDir: environment.dataDir, logger });
  const readAgain = (): Promise<Config> => readConfig(environment, configPath);
  const otel = readOtelSettings(environment.variables);
  const exported = otel === undefined ? undefined : (await openExport()).openOpenTelemetry(otel, version, logger);
  const start = { environment, config, logger, health, readAgain, otel, exported, startTrace: exported?.startTrace };
  // The stores must not even be closed when the disk has lost writes.
  return Promise.race([run(start, stopped), health.lost.then(() => 1)]);
}

/** Runs the gateway until it is stopped; returns the exit code. */
async function run(start: Start, stopped: ReturnType<typeof stopSignals>): Promise<number> {
  const { environment, config, health, logger, otel, exported } = start;
  let gateway: Gateway;
  try {
    gateway = await opened(start);
  } catch (thrown) {
    const reason = startFailure(thrown, environment);
    if (reason === undefined) throw thrown;
    process.stderr.write(`${reason}\n`);
    return 1;
  }
  // V8's default, which `src/main.ts` has lowered: answers are what the young generation is for.
  setFlagsFromString('--semi-space-growth-factor=2');
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

/** Loaded only where it is switched on. */
const openExport = () => import('../telemetry/otel/open.ts');

/** What a gateway is started with. */
type Start = Pick<Ground, 'environment' | 'config' | 'logger' | 'health' | 'readAgain' | 'startTrace'> & {
  readonly otel: ReturnType<typeof readOtelSettings>;
  readonly exported: ReturnType<Awaited<ReturnType<typeof openExport>>['openOpenTelemetry']> | undefined;
};

/** The stores open on threads of their own while the rest of the program is loaded: a tenth of a second less. Throws what opening throws. */
async function opened({ environment, config, logger, health, startTrace, readAgain }: Start): Promise<Gateway> {
  const metrics = new Metrics(version);
  const [stores, { openGateway }] = await Promise.all([
    openStores(environment, config, { metrics, logger, health }),
    import('./gateway.ts'),
  ]);
  metrics.add(() => health.metrics.text());
  await health.start();
  return openGateway({ environment, config, stores, logger, metrics, health, startTrace, readAgain });
}

const addressCalls = new Set(['listen', 'bind', 'getaddrinfo']);

/** What keeps a gateway from starting and is no defect, in words; undefined for anything else. */
function startFailure(thrown: unknown, environment: Environment): string | undefined {
  if (thrown instanceof LedgerStartError || thrown instanceof BackupError) return thrown.message;
  // An error of the operating system: it names the call.
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return undefined;
  if (addressCalls.has(String(thrown.syscall))) {
    return `${thrown.message}. Choose other addresses with TOLLGATE_HOST, TOLLGATE_PORT (${environment.port}), TOLLGATE_RPC_HOST and TOLLGATE_RPC_PORT (${environment.rpcPort}).`;
  }
  return `The data directory ${environment.dataDir} can’t be used: ${thrown.message}. Choose another with TOLLGATE_DATA_DIR.`;
}

/** What stopped a gateway, and how long that took. */
interface Stopped {
  readonly signal: NodeJS.Signals;
  /** All that was answered is on the disk. */
  readonly isStored: boolean;
  readonly stoppedMs: number;
}

/** A terminal sends Ctrl-C to npm and to the gateway, and npm passes it on: what comes so soon is the same wish. */
const sameWishMs = 1_000;

/**
 * Takes SIGTERM and SIGINT from now on. What it answers resolves when a signal has stopped the gateway, one that came while it started too, with whether all was stored; a second one, later,
 * ends the grace of the first.
 */
function stopSignals(): (gateway: Gateway) => Promise<Stopped> {
  const first = Promise.withResolvers<NodeJS.Signals>();
  const second = Promise.withResolvers<void>();
  let firstAtMs: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    if (firstAtMs === undefined) {
      firstAtMs = performance.now();
      first.resolve(signal);
    } else if (performance.now() - firstAtMs > sameWishMs) {
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
