/**
 * Starts a gateway as its operator does: a process with its own data directory, used over its two listeners and its
 * command line. This file imports nothing of the gateway's code except the generated RPC clients and the check of
 * the ledger's invariants.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, createClient, type Interceptor } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { expect } from 'vitest';
import { AccountService, type ActivityRecord } from '../src/gen/tollgate/v1/account_pb.ts';
import { AdminService } from '../src/gen/tollgate/v1/admin_pb.ts';
import { verifyLedgerFile } from '../src/ledger/sqlite/verify.ts';
import {
  databaseVariable,
  dropDatabase,
  endLeases,
  moveDatabaseClock,
  prepareDatabase,
  verifyOwnDatabase,
} from './gateway-database.ts';
import { readCoreWait } from './core-wait.ts';
import { unverified } from './unverified.ts';

export { isOnPostgres, prepareDatabase, queryDatabase } from './gateway-database.ts';

/** The root of the checkout. */
export const root = resolve(import.meta.dirname, '..');
const main = join(root, 'bin/tollgate.js');

/** How to start a gateway. */
export interface GatewayOptions {
  /** An earlier gateway's folder; if absent, a new one is made. */
  readonly home?: Home;
  /** Text of the configuration file; if absent, the gateway starts with its defaults. */
  readonly config?: string;
  /** Further environment variables. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The balance of account 1 at the first start, in dollars; default 10. */
  readonly balance?: string;
}

/** The parts of a gateway that outlive its process: its folder and keys. */
export interface Home {
  readonly folder: string;
  readonly dataDir: string;
  readonly apiKey: string;
  readonly managementKey: string;
}

/** How a process ended: its exit code, or null if a signal ended it. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a command ended; `json` is its parsed standard output if that is JSON. */
export interface CommandEnd extends Ended {
  readonly json: unknown;
}

/** A new API key: the credential and its id. */
export interface NewKey {
  readonly key: string;
  readonly id: bigint;
}

/** A running gateway. */
export interface Gateway {
  /** Origin of the public listener. */
  readonly url: string;
  /** Origin of the internal listener. */
  readonly rpcUrl: string;
  readonly apiKey: string;
  readonly managementKey: string;
  readonly dataDir: string;
  readonly home: Home;
  /** Time from the start of the process to its first ready answer, in ms. */
  readonly readyMs: number;
  /** How much of `readyMs` it waited for a core that other programs used: see `readCoreWait`. */
  readonly coreWaitMs: number;
  /** Its output so far, errors included. */
  printed(): string;
  /** The internal services, with the management key and with the operator's token. */
  readonly account: Client<typeof AccountService>;
  readonly admin: Client<typeof AdminService>;
  /** Runs `tollgate ARGS` against the gateway. */
  cli(args: readonly string[]): Promise<CommandEnd>;
  /** Sends the stop signal and waits until the process has ended. */
  stop(signal?: 'SIGTERM' | 'SIGINT'): Promise<Ended>;
  /** Kills the process (SIGKILL) and waits until it has ended. */
  kill(): Promise<Ended>;
  readonly ended: Promise<Ended>;
  readonly pid: number;
}

const workers = process.env['TOLLGATE_TEST_WORKERS'];
const children = new Set<ChildProcess>();
// If a worker of the tests ends early (because the run was interrupted), no gateway stays behind.
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/** Returns the environment of a program, without the developer's variables. */
export function gatewayEnvironment(home: Home, more: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: home.folder,
    TOLLGATE_DATA_DIR: home.dataDir,
    TOLLGATE_PORT: '0',
    TOLLGATE_RPC_PORT: '0',
    ...databaseVariable(home),
    // `TOLLGATE_TEST_WORKERS=2 npm test -- test/e2e` runs the gateways of the suite with workers.
    ...(workers === undefined ? {} : { TOLLGATE_WORKERS: workers }),
    ...more,
  };
}

/** Makes a new folder, with keys for the first start. */
export function makeHome(): Home {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-e2e-'));
  // Hexadecimal digits are also base62 digits.
  const secret = (): string => randomBytes(22).toString('hex').slice(0, 43);
  return {
    folder,
    dataDir: join(folder, 'data'),
    apiKey: `sk-tg-${secret()}`,
    managementKey: `mk-tg-${secret()}`,
  };
}

/** Starts a program and collects its output until it ends. */
export function run(
  command: readonly [string, ...string[]],
  options: { readonly cwd: string; readonly env: Record<string, string> },
): { child: ChildProcess; output: { stdout: string; stderr: string }; ended: Promise<Ended> } {
  const [program, ...args] = command;
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const ended = new Promise<Ended>((done, failed) => {
    child.once('error', failed);
    child.once('close', code => {
      children.delete(child);
      done({ code, ...output });
    });
  });
  return { child, output, ended };
}

/** Runs `tollgate ARGS` to its end. */
export async function runCommand(
  home: Home,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CommandEnd> {
  const { ended } = run([process.execPath, main, ...args], {
    cwd: home.folder,
    env: gatewayEnvironment(home, environment),
  });
  const end = await ended;
  return { ...end, json: parsed(end.stdout) };
}

/** Returns the value of a JSON text; undefined if it is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Waits for the two URLs in the output, then until the gateway is ready. Throws with all output if the process ends first, or after three minutes (a busy machine needs that long). */
async function waitUntilReady({ output, ended }: ReturnType<typeof run>): Promise<{ url: string; rpcUrl: string }> {
  let end: Ended | undefined;
  void ended.then(each => (end = each));
  for (const deadline = performance.now() + 180_000; performance.now() < deadline; await sleep(10)) {
    if (end !== undefined) break;
    const url = /^\s*public\s+(http:\S+)/m.exec(output.stdout)?.[1];
    const rpcUrl = /^\s*internal\s+(http:\S+)/m.exec(output.stdout)?.[1];
    if (url === undefined || rpcUrl === undefined) continue;
    const ready = await fetch(`${url}/readyz`).catch(() => undefined);
    await ready?.arrayBuffer();
    if (ready?.status === 200) return { url, rpcUrl };
  }
  throw new Error(`The gateway did not become ready (exit code ${end?.code}):\n${output.stdout}\n${output.stderr}`);
}

function withCredential(credential: string): Interceptor {
  return next => request => {
    request.header.set('authorization', `Bearer ${credential}`);
    return next(request);
  };
}

/** Returns a transport to the internal listener with a credential. */
export function openTransport(rpcUrl: string, credential: string): ReturnType<typeof createConnectTransport> {
  return createConnectTransport({
    baseUrl: rpcUrl,
    httpVersion: '1.1',
    interceptors: [withCredential(credential)],
  });
}

/** Returns what is known of a gateway that has started in a folder and listens at these origins: its keys, and clients of its internal services. */
export function describeGateway(home: Home, { url, rpcUrl }: Pick<Gateway, 'url' | 'rpcUrl'>) {
  const token = readFileSync(join(home.dataDir, 'operator.token'), 'utf8').trim();
  return {
    url,
    rpcUrl,
    apiKey: home.apiKey,
    managementKey: home.managementKey,
    dataDir: home.dataDir,
    home,
    account: createClient(AccountService, openTransport(rpcUrl, home.managementKey)),
    admin: createClient(AdminService, openTransport(rpcUrl, token)),
  };
}

/** Writes the configuration of a gateway. Returns the path of its file, and the environment of its process. */
export function prepareStart(home: Home, { config, environment, balance = '10' }: GatewayOptions) {
  const path = join(home.folder, 'gateway.yaml');
  if (config !== undefined) writeFileSync(path, config);
  const env = gatewayEnvironment(home, {
    TOLLGATE_BOOTSTRAP_API_KEY: home.apiKey,
    TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: home.managementKey,
    TOLLGATE_BOOTSTRAP_BALANCE: balance,
    ...environment,
  });
  return { env, configPath: config === undefined ? undefined : path };
}

/** Starts a gateway and waits until it is ready. */
export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const home = options.home ?? makeHome();
  await prepareDatabase(home);
  await moveDatabaseClock(home, options.environment?.['MOVED_CLOCK_FILE']);
  const { env, configPath } = prepareStart(home, options);
  const began = performance.now();
  const arguments_ = configPath === undefined ? [] : ['--config', configPath];
  const running = run([process.execPath, main, 'serve', ...arguments_], { cwd: home.folder, env });
  const { url, rpcUrl } = await waitUntilReady(running);
  const readyMs = performance.now() - began;
  const coreWaitMs = readCoreWait(running.child.pid ?? 0);
  // If the test chose the database, the test verifies the ledger itself.
  if (options.environment?.['TOLLGATE_DATABASE_URL'] === undefined) unverified.add(home.dataDir);
  const { child, output, ended } = running;
  let isExpected = false;
  void ended.then(({ code, stderr }) => {
    if (!isExpected) console.error(`The gateway ended by itself (exit code ${code}):\n${stderr.slice(-4_000)}`);
  });
  const end = (signal: NodeJS.Signals): Promise<Ended> => {
    isExpected = true;
    child.kill(signal);
    return ended;
  };
  return {
    ...describeGateway(home, { url, rpcUrl }),
    readyMs,
    coreWaitMs,
    printed: () => output.stdout + output.stderr,
    cli: args => {
      const { TOLLGATE_DATABASE_URL: url } = env;
      const database = url === undefined ? {} : { TOLLGATE_DATABASE_URL: url };
      return runCommand(home, args, { TOLLGATE_RPC_PORT: new URL(rpcUrl).port, ...database });
    },
    stop: (signal = 'SIGTERM') => end(signal),
    kill: async () => {
      const how = await end('SIGKILL');
      await endLeases(home);
      return how;
    },
    ended,
    pid: child.pid ?? 0,
  };
}

/** Returns the sum of the holds of all running requests, in nano-dollars. */
export async function heldBy({ admin }: Gateway): Promise<bigint> {
  const { accounts } = await admin.listAccounts({});
  return accounts.reduce((sum, account) => sum + account.heldNanoUsd, 0n);
}

/** Returns account 1's balance in nano-dollars. */
export async function readBalance({ account }: Gateway): Promise<bigint> {
  return (await account.getBalance({})).balanceNanoUsd;
}

/** Returns the record of a settled request with the calculation of its cost. Waits up to 20 s, because after a disconnect a request takes a moment to end, on a busy machine a long one. */
export async function readRecord({ account }: Gateway, requestId: string): Promise<ActivityRecord> {
  for (const deadline = performance.now() + 20_000; ; await sleep(20)) {
    const found = await account.getActivity({ requestId }).catch((error: unknown) => {
      if (performance.now() > deadline) throw error;
      return undefined;
    });
    if (found?.record !== undefined) return found.record;
  }
}

/**
 * Returns once the gateway has read everything that had been written to its sockets before the call: two turns of its event loop later, however busy the machine is.
 */
export async function turnLoop({ url }: Pick<Gateway, 'url'>): Promise<void> {
  for (let turn = 0; turn < 2; turn += 1) await (await fetch(`${url}/healthz`)).arrayBuffer();
}

/** Waits until `count` answers are being streamed to clients of a gateway without workers. */
export async function expectStreams({ rpcUrl }: Pick<Gateway, 'rpcUrl'>, count: number): Promise<void> {
  const openStreams = async (): Promise<number> => {
    const page = await (await fetch(`${rpcUrl}/metrics`)).text();
    return [...page.matchAll(/^tollgate_open_streams\{.*\} (\d+)$/gm)].reduce((sum, [, open]) => sum + Number(open), 0);
  };
  await expect.poll(openStreams, { interval: 20 }).toBe(count);
}

/** Makes a key of account 1. */
export async function makeKey(
  { admin }: Gateway,
  settings: NonNullable<Parameters<Gateway['admin']['createApiKey']>[0]['settings']> = {},
): Promise<NewKey> {
  const { key } = await admin.createApiKey({ accountId: 1n, settings });
  if (key === undefined) throw new Error('no key in the answer');
  return { key: key.key, id: key.apiKeyId };
}

/** Makes an account with a balance in dollars and a key. Returns the key. */
export async function createAccount({ admin }: Pick<Gateway, 'admin'>, balance: string): Promise<string> {
  const balanceNanoUsd = BigInt(Math.round(Number(balance) * 1e9));
  const { account } = await admin.createAccount({ name: 'another', balanceNanoUsd });
  const { key } = await admin.createApiKey({ accountId: account?.accountId ?? 0n, settings: {} });
  if (key === undefined) throw new Error('no key in the answer');
  return key.key;
}

/** Expects that every invariant of the ledger holds, whether the gateway runs or has ended. */
export async function expectVerified(home: Home): Promise<void> {
  expect((await verifyOwnDatabase(home)) ?? verifyLedgerFile(home.dataDir)).toEqual([]);
  unverified.delete(home.dataDir);
}

/**
 * Stops a gateway, and expects that nothing is held, that it exits with 0, and that the ledger's invariants
 * hold.
 */
export async function endGateway(gateway: Gateway): Promise<void> {
  try {
    let held = await heldBy(gateway);
    for (const deadline = performance.now() + 20_000; held !== 0n && performance.now() < deadline;) {
      await sleep(50);
      held = await heldBy(gateway);
    }
    expect(held, 'held').toBe(0n);
    const { code, stderr } = await gateway.stop();
    expect(code, `${stderr}`).toBe(0);
    await expectVerified(gateway.home);
  } finally {
    await gateway.kill();
    await dropDatabase(gateway.home);
    rmSync(gateway.home.folder, { recursive: true, force: true });
  }
}
