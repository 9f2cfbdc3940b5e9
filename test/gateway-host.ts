/**
 * A process that runs gateways of tests, one after the other and several at once, and commands of the command line. Its parent is a worker of the tests (`hosted-gateway.ts`).
 * A gateway is opened as `src/gateway/serve.ts` does, without what belongs to a process of its own: signals, the banner, the log on standard error.
 */
import { rmSync } from 'node:fs';
import { runCommandLine } from '../src/cli/program.ts';
import { readEnvironment } from '../src/config/env.ts';
import { commandLinePorts } from '../src/gateway/command-line.ts';
import { type Gateway, openGateway } from '../src/gateway/gateway.ts';
import { readConfig } from '../src/gateway/read-config.ts';
import { StorageHealth } from '../src/gateway/storage-health.ts';
import { openStores } from '../src/gateway/stores.ts';
import { version } from '../src/lib/version.ts';
import { createLogger } from '../src/telemetry/logger.ts';
import { Metrics } from '../src/telemetry/metrics.ts';

type Variables = Readonly<Record<string, string>>;

/** What the parent asks for. */
export type HostCall =
  | { readonly do: 'start'; readonly environment: Variables; readonly configPath: string | undefined }
  | { readonly do: 'stop'; readonly gateway: number }
  | { readonly do: 'run'; readonly environment: Variables; readonly args: readonly string[] };

/** A gateway that runs in this process. */
export interface Started {
  readonly gateway: number;
  readonly url: string;
  readonly rpcUrl: string;
}

/** A line of a gateway's log. */
export interface LogLine {
  readonly gateway: number;
  readonly line: string;
}

/** How a gateway or a command ended, as a process would have. */
export interface HostEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The answer to a call; `error`: why there is none. */
export interface HostAnswer {
  readonly id: number;
  readonly value?: Started | HostEnd;
  readonly error?: string;
}

interface Running {
  readonly opened: Gateway;
  readonly health: StorageHealth;
}

const running = new Map<number, Running>();
let count = 0;

async function start(variables: Variables, configPath: string | undefined): Promise<Started> {
  const environment = readEnvironment(variables);
  const rereadConfig = () => readConfig(environment, configPath);
  const config = await rereadConfig();
  count += 1;
  const gateway = count;
  const write = (line: string): void => void process.send?.({ gateway, line } satisfies LogLine);
  const logger = createLogger({ level: config.logLevel, destination: { write } });
  const metrics = new Metrics(version);
  const health = new StorageHealth({ dataDir: environment.dataDir, logger });
  const stores = await openStores(environment, config, { metrics, logger, health });
  metrics.add(() => health.metrics.text());
  await health.start();
  const opened = await openGateway({ environment, config, stores, logger, metrics, health, rereadConfig });
  running.set(gateway, { opened, health });
  return { gateway, url: opened.publicUrl, rpcUrl: opened.rpcUrl };
}

async function stop(number: number): Promise<HostEnd> {
  const found = running.get(number);
  if (found === undefined) throw new Error(`gateway ${number} does not run`);
  running.delete(number);
  const isStored = await found.opened.stop();
  found.health.close();
  return { code: isStored ? 0 : 1, stdout: '', stderr: '' };
}

async function runCommand(variables: Variables, args: readonly string[]): Promise<HostEnd> {
  const printed = { stdout: '', stderr: '' };
  const code = await runCommandLine(args, {
    ...commandLinePorts(variables),
    streams: { out: text => void (printed.stdout += text), err: text => void (printed.stderr += text) },
  });
  return { code, ...printed };
}

function answer(call: HostCall): Promise<Started | HostEnd> {
  if (call.do === 'start') return start(call.environment, call.configPath);
  if (call.do === 'stop') return stop(call.gateway);
  return runCommand(call.environment, call.args);
}

process.umask(0o077);
process.on('message', ({ id, call }: { readonly id: number; readonly call: HostCall }) => {
  answer(call).then(
    value => process.send?.({ id, value } satisfies HostAnswer),
    (thrown: unknown) =>
      process.send?.({ id, error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) }),
  );
});
// The parent has ended.
process.on('disconnect', () => {
  rmSync(process.cwd(), { recursive: true, force: true });
  process.exit();
});
