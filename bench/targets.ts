import { randomBytes } from 'node:crypto';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { AdminService } from '../src/gen/tollgate/v1/admin_pb.ts';
import { chatRequest } from './load/connection.ts';
import type { Traffic } from './load/load.ts';
import { Started } from './process.ts';

/** A server that requests are sent to. */
export interface Target {
  readonly name: string;
  readonly process: Started;
  /** Returns where to send requests for a model of the bench's upstream, and the requests. */
  traffic(model: BenchModel): Traffic;
  stop(): Promise<void>;
}

/** The models of the bench's upstream (`servers/upstream.ts`), each with another kind of answer. */
export type BenchModel = keyof typeof isStreamed;

const isStreamed = {
  short: false,
  capped: false,
  words: false,
  burst: true,
  first: true,
  late: true,
  stream: true,
  torrent: true,
  idle: true,
  flood: true,
};
/** The names of all models of the bench's upstream. */
export const benchModels = Object.keys(isStreamed);
/** Keys of the gateway's account: as many as a small team has. */
const keyCount = 16;

/** The usage that `servers/upstream.ts` reports for a `capped` answer, which is as long as its limit allows. */
export const usage = { input: 12, output: 40 };
/** The price of every model. */
export const dollarsPerMillion = { input: 0.5, output: 1.5 };

const root = resolve(import.meta.dirname, '..');

/** Returns the body of a Chat request. `name`: the model's name if it is not `bench/MODEL`. */
export function toBody(model: BenchModel, name = `bench/${model}`): object {
  return {
    model: name,
    messages: [
      { role: 'system', content: 'You are a helpful assistant.' },
      { role: 'user', content: 'Say something short about benches in parks, in one sentence.' },
    ],
    temperature: 0.7,
    ...(model === 'capped' ? { max_tokens: usage.output } : {}),
    ...(isStreamed[model] ? { stream: true, stream_options: { include_usage: true } } : {}),
  };
}

/** Returns the header lines of a request with a credential. */
export function toHeaders(key: string): string {
  return `authorization: Bearer ${key}\r\n`;
}

async function server(name: string, args: readonly string[], core: 0 | 1): Promise<Target> {
  const started = new Started({ args: [join(root, 'bench/servers', args[0] ?? ''), ...args.slice(1)], core });
  const port = Number(await started.printed(/^(\d+)\n/));
  return {
    name,
    process: started,
    traffic: model => ({ port, requests: [chatRequest(toBody(model))] }),
    stop: () => started.stop(),
  };
}

/** Starts the upstream. Measured directly, it shows what a request costs without a proxy or gateway in between. */
export function startUpstream(): Promise<Target> {
  return server('direct', ['upstream.ts'], 1);
}

/** Starts a collector of traces. */
export function startCollector(): Promise<Target> {
  return server('collector', ['collector.ts'], 1);
}

/** Starts the bare proxy. */
export function startProxy(upstream: Target): Promise<Target> {
  return server('proxy', ['proxy.ts', readOrigin(upstream)], 0);
}

/** Returns the origin of the upstream. */
export function readOrigin(upstream: Target): string {
  return `http://127.0.0.1:${upstream.traffic('short').port}`;
}

function writeConfig(upstream: Target): string {
  const models = benchModels.map(
    name => `  - id: bench/${name}
    context_length: 131072
    pricing: { input: ${dollarsPerMillion.input}, output: ${dollarsPerMillion.output}, caching: { read: 0.1 } }
    routes: [{ provider: bench, model: bench-${name} }]`,
  );
  return `providers:
  bench: { protocol: chat, base_url: "${readOrigin(upstream)}/v1", api_key: sk-bench }
models:
${models.join('\n')}
`;
}

/** A running gateway, with what benches need in addition to its answers. */
export interface GatewayTarget extends Target {
  /** Origin of the public listener. */
  readonly url: string;
  /** One of its API keys. */
  readonly apiKey: string;
  /** Valid only if the folder had no data when the gateway started. */
  readonly managementKey: string;
  /** Makes further accounts with a million dollars each. Returns the `traffic` function for their keys, which are used in turn. */
  addAccounts(count: number): Promise<Target['traffic']>;
}

/** How to start the gateway; by default on one core, like the bare proxy. */
export interface GatewayStart {
  /** Whether its sources run instead of its bundle, so that a profile names their files. */
  readonly isFromSources?: boolean;
  /** Whether its threads may use all cores. */
  readonly isSpread?: boolean;
  /** The balance of its account, in dollars. */
  readonly balance?: string;
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** A folder with the data of an earlier gateway; absent: an empty folder, which `stop` removes. */
  readonly folder?: string;
}

/** Starts the gateway with everything on: paid models, keys with a request limit, holds, the durable ledger, its log in a file. */
export async function startGateway(
  upstream: Target,
  { isFromSources = false, isSpread = false, balance = '1000000', env = {}, folder: given }: GatewayStart = {},
): Promise<GatewayTarget> {
  const folder = given ?? mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const config = join(folder, 'gateway.yaml');
  writeFileSync(config, writeConfig(upstream));
  const secret = (): string => randomBytes(22).toString('hex').slice(0, 43);
  const managementKey = `mk-tg-${secret()}`;
  const dataDir = join(folder, 'data');
  const started = new Started({
    args: [join(root, isFromSources ? 'src/main.ts' : 'bin/tollgate.js'), 'serve', '--config', config],
    core: isSpread ? undefined : 0,
    log: openSync(join(folder, 'gateway.log'), 'a'),
    env: {
      TOLLGATE_DATA_DIR: dataDir,
      TOLLGATE_PORT: '0',
      TOLLGATE_RPC_PORT: '0',
      TOLLGATE_BOOTSTRAP_BALANCE: balance,
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: managementKey,
      ...env,
    },
  });
  const url = await started.printed(/^\s*public\s+(http:\S+)/m);
  const rpcUrl = await started.printed(/^\s*internal\s+(http:\S+)/m);
  const admin = adminCalls(rpcUrl, dataDir);
  const keys = await makeKeys(admin, 1n, keyCount);
  const trafficWith =
    (those: readonly string[]): Target['traffic'] =>
    model => ({
      port: Number(new URL(url).port),
      requests: those.map(key => chatRequest(toBody(model), toHeaders(key))),
    });
  return {
    name: 'gateway',
    process: started,
    url,
    apiKey: keys[0] ?? '',
    managementKey,
    traffic: trafficWith(keys),
    addAccounts: async count => trafficWith(await makeAccounts(admin, count)),
    stop: async () => {
      await started.stop();
      if (given === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns a client for the operator's calls, with the token of a running gateway. */
function adminCalls(rpcUrl: string, dataDir: string) {
  const token = readFileSync(join(dataDir, 'operator.token'), 'utf8').trim();
  const transport = createConnectTransport({
    baseUrl: rpcUrl,
    httpVersion: '1.1',
    interceptors: [
      next => request => {
        request.header.set('authorization', `Bearer ${token}`);
        return next(request);
      },
    ],
  });
  return createClient(AdminService, transport);
}

type AdminCalls = ReturnType<typeof adminCalls>;

/** Makes keys of an account, and returns them. */
function makeKeys(admin: AdminCalls, accountId: bigint, count: number): Promise<string[]> {
  const made = Array.from({ length: count }, async () => {
    const { key } = await admin.createApiKey({ accountId, settings: { minuteLimit: 10_000_000n } });
    return key?.key ?? '';
  });
  return Promise.all(made);
}

/** Makes accounts with one key each, and returns the keys. */
async function makeAccounts(admin: AdminCalls, count: number): Promise<string[]> {
  const made = Array.from({ length: count }, async (_, index) => {
    const { account } = await admin.createAccount({ name: `bench ${index}`, balanceNanoUsd: 10n ** 15n });
    return makeKeys(admin, account?.accountId ?? 0n, 1);
  });
  return (await Promise.all(made)).flat();
}
