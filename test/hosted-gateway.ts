/**
 * Starts gateways that share one process: each has its own data directory, listeners and configuration, but the process starts and loads its modules once for all test files of a worker, which takes
 * longer than many of them. For tests that see a gateway only through its interfaces. Whatever concerns the process (its environment at the start, log, signals, kills, memory, a moved clock) needs `startGateway` of `gateway.ts`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type CommandEnd,
  describeGateway,
  type Gateway,
  gatewayEnvironment,
  type GatewayOptions,
  type Home,
  isOnPostgres,
  makeHome,
  parsed,
  prepareStart,
  startGateway as startProcess,
} from './gateway.ts';
import type { HostAnswer, HostCall, HostEnd, LogLine, Started } from './gateway-host.ts';
import { writeEmptyLedger } from './ledger/empty-ledger.ts';
import { unverified } from './unverified.ts';

/** The process of the gateways, what is called when a call is answered, and the logs of the gateways by their numbers. */
interface Host {
  readonly child: ChildProcess;
  readonly waiting: Map<number, PromiseWithResolvers<Started | HostEnd>>;
  readonly logs: Map<number, string>;
}

let host: Host | undefined;
let calls = 0;

function openHost(): Host {
  const waiting: Host['waiting'] = new Map();
  const logs: Host['logs'] = new Map();
  const child = fork(join(import.meta.dirname, 'gateway-host.ts'), {
    // A folder without a configuration; the process removes it when the worker has ended.
    cwd: mkdtempSync(join(tmpdir(), 'tollgate-host-')),
    env: {
      PATH: process.env['PATH'] ?? '',
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
    },
    execArgv: [],
  });
  child.on('message', (message: HostAnswer | LogLine) => {
    if ('line' in message) {
      logs.set(message.gateway, (logs.get(message.gateway) ?? '') + message.line);
      return;
    }
    const { id, value, error } = message;
    const call = waiting.get(id);
    waiting.delete(id);
    if (value === undefined) call?.reject(new Error(error));
    else call?.resolve(value);
  });
  child.once('exit', (code, signal) => {
    host = undefined;
    const ended = new Error(`the process of the shared gateways ended by itself (${code ?? signal})`);
    if (waiting.size > 0) for (const { reject } of waiting.values()) reject(ended);
    else console.error(ended.message);
  });
  // The worker may end while its gateways' process waits for calls.
  child.unref();
  child.channel?.unref();
  return { child, waiting, logs };
}

async function callHost<T extends Started | HostEnd>(call: HostCall): Promise<T> {
  host ??= openHost();
  calls += 1;
  const answer = Promise.withResolvers<Started | HostEnd>();
  host.waiting.set(calls, answer);
  host.child.send({ id: calls, call });
  return (await answer.promise) as T;
}

/** Runs `tollgate ARGS` to its end, as `runCommand` of `gateway.ts` does, in the process that the test files of this worker share. */
export async function runCommand(
  home: Home,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CommandEnd> {
  const end = await callHost<HostEnd>({ do: 'run', environment: gatewayEnvironment(home, environment), args });
  return { ...end, json: parsed(end.stdout) };
}

const ownProcess = (name: string): never => {
  throw new Error(`${name}: this gateway has no process of its own; start it with startGateway of test/gateway.ts`);
};

/** Starts a gateway in the process that the test files of this worker share, and returns it when it is ready. On PostgreSQL and with workers it has a process of its own. */
export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  if (isOnPostgres || process.env['TOLLGATE_TEST_WORKERS'] !== undefined) return startProcess(options);
  const home = options.home ?? makeHome();
  const { env, configPath } = prepareStart(home, options);
  // A directory that the test has made is for its gateway alone.
  if (!existsSync(home.dataDir)) writeEmptyLedger(home.dataDir);
  const { gateway, url, rpcUrl } = await callHost<Started>({ do: 'start', environment: env, configPath });
  const logs = host?.logs;
  unverified.add(home.dataDir);
  const stopped = Promise.withResolvers<HostEnd>();
  let isStopping = false;
  const end = async (): Promise<HostEnd> => {
    const ended = await callHost<HostEnd>({ do: 'stop', gateway });
    const stderr = logs?.get(gateway) ?? '';
    logs?.delete(gateway);
    return { ...ended, stderr };
  };
  const stop = (): Promise<HostEnd> => {
    if (!isStopping) stopped.resolve(end());
    isStopping = true;
    return stopped.promise;
  };
  const members = {
    ...describeGateway(home, { url, rpcUrl }),
    cli: (args: readonly string[]) => runCommand(home, args, { TOLLGATE_RPC_PORT: new URL(rpcUrl).port }),
    stop,
    // It can only be stopped.
    kill: stop,
    ended: stopped.promise,
    // Its log, without the banner, which only a process prints.
    printed: () => logs?.get(gateway) ?? '',
  };
  // Not enumerable, so that copies of the gateway can be made.
  return Object.defineProperties(members, {
    readyMs: { get: () => ownProcess('readyMs') },
    coreWaitMs: { get: () => ownProcess('coreWaitMs') },
    pid: { get: () => ownProcess('pid') },
  }) as Gateway;
}
