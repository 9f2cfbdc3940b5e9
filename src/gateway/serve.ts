import process from 'node:process';
import type { Environment } from '../config/env.ts';
import { simulatorModels } from '../simulator/models.ts';
import { LedgerStartError } from '../store/start-error.ts';
import { banner } from './banner.ts';
import { type Gateway, openGateway } from './gateway.ts';
import { readConfig } from './read-config.ts';

/** What the command line says of a start. */
export interface ServeOptions {
  /** The configuration file; absent: as the environment says. */
  readonly configPath?: string;
}

/** Runs the gateway until a signal has stopped it. Answers the exit code. Throws `ConfigError`. */
export async function serve(environment: Environment, { configPath }: ServeOptions): Promise<number> {
  // Balances and hashes of keys are the operator's alone, also in a data directory that others can enter.
  process.umask(0o077);
  const config = readConfig(environment, configPath);
  let gateway: Gateway;
  try {
    gateway = await openGateway(environment, config, () => readConfig(environment, configPath));
  } catch (thrown) {
    const reason = startFailure(thrown, environment);
    if (reason === undefined) throw thrown;
    process.stderr.write(`${reason}\n`);
    return 1;
  }
  const { publicUrl, rpcUrl, firstKeys } = gateway;
  const model = config.simulator.enabled ? simulatorModels[0]?.id : config.models[0]?.id;
  const facts = { publicUrl, rpcUrl, dataDir: environment.dataDir, model };
  process.stdout.write(banner(firstKeys === undefined ? facts : { ...facts, firstKeys }));
  process.on('SIGHUP', () => gateway.reload());
  await stopSignal(gateway);
  return 0;
}

const addressCalls = new Set(['listen', 'bind', 'getaddrinfo']);

/** What keeps a gateway from starting and is no defect, in words; undefined for anything else. */
function startFailure(thrown: unknown, environment: Environment): string | undefined {
  if (thrown instanceof LedgerStartError) return thrown.message;
  // An error of the operating system: it names the call.
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return undefined;
  if (addressCalls.has(String(thrown.syscall))) {
    return `${thrown.message}. Choose other addresses with TOLLGATE_HOST, TOLLGATE_PORT (${environment.port}), TOLLGATE_RPC_HOST and TOLLGATE_RPC_PORT (${environment.rpcPort}).`;
  }
  return `The data directory ${environment.dataDir} can’t be used: ${thrown.message}. Choose another with TOLLGATE_DATA_DIR.`;
}

/** A terminal sends Ctrl-C to npm and to the gateway, and npm passes it on: what comes so soon is the same wish. */
const sameWishMs = 1_000;

/** Resolves when a signal has stopped the gateway; a second one, later, ends the grace of the first. */
async function stopSignal(gateway: Gateway): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let firstAtMs: number | undefined;
    const stop = (): void => {
      if (firstAtMs === undefined) {
        firstAtMs = performance.now();
        gateway.stop().then(resolve, reject);
      } else if (performance.now() - firstAtMs > sameWishMs) {
        gateway.hurry();
      }
    };
    process.on('SIGTERM', stop);
    process.on('SIGINT', stop);
  });
}
