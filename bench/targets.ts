import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { AdminService } from '../src/gen/tollgate/v1/admin_pb.ts';
import { chatRequest } from './load/connection.ts';
import type { Aim } from './load/load.ts';
import { Started } from './process.ts';

/** Something that requests are sent to. */
export interface Target {
  readonly name: string;
  readonly process: Started;
  /** Where to send requests for a model of the bench's upstream. */
  aim(model: BenchModel): Aim;
  stop(): Promise<void>;
}

/** What the bench's upstream answers (`servers/upstream.ts`). */
export type BenchModel = keyof typeof isStreamed;

const isStreamed = { short: false, words: false, stream: true, idle: true, flood: true };
/** As many customers as a small team has. */
const keyCount = 16;

const root = resolve(import.meta.dirname, '..');

function aimAt(port: number, model: BenchModel, keys: readonly (string | undefined)[]): Aim {
  const stream = isStreamed[model];
  return { port, requests: keys.map(key => chatRequest({ model, stream, ...(key === undefined ? {} : { key }) })) };
}

async function server(name: string, args: readonly string[], core: 0 | 1): Promise<Target> {
  const started = new Started({ args: [join(root, 'bench/servers', args[0] ?? ''), ...args.slice(1)], core });
  const port = Number(await started.printed(/^(\d+)\n/));
  return { name, process: started, aim: model => aimAt(port, model, [undefined]), stop: () => started.stop() };
}

/** The upstream itself: what a request costs without anything between. */
export function startUpstream(): Promise<Target> {
  return server('direct', ['upstream.ts'], 1);
}

/** The bare proxy. */
export function startProxy(upstream: Target): Promise<Target> {
  return server('proxy', ['proxy.ts', originOf(upstream)], 0);
}

function originOf(upstream: Target): string {
  return `http://127.0.0.1:${upstream.aim('short').port}`;
}

function configOf(upstream: Target): string {
  const models = Object.keys(isStreamed).map(
    name => `  - id: bench/${name}
    context_length: 131072
    pricing: { input: 0.5, output: 1.5, caching: { read: 0.1 } }
    routes: [{ provider: bench, model: bench-${name} }]`,
  );
  return `providers:
  bench: { protocol: chat, base_url: "${originOf(upstream)}/v1", api_key: sk-bench }
models:
${models.join('\n')}
`;
}

/** A running gateway and what a bench asks of it beside answers. */
export interface GatewayTarget extends Target {
  /** Origin of the public listener. */
  readonly url: string;
  /** One of its keys. */
  readonly apiKey: string;
  readonly rpcUrl: string;
  readonly managementKey: string;
  readonly dataDir: string;
}

/**
 * The gateway with everything on: paid models, keys with a request limit, holds, the durable ledger, its log in a file. It starts on an empty
 * data directory, removed by `stop`. `nodeOptions`: options of Node.js, to profile it or to try another heap.
 */
export async function startGateway(
  upstream: Target,
  { nodeOptions = [] }: { nodeOptions?: readonly string[] } = {},
): Promise<GatewayTarget> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const config = join(folder, 'gateway.yaml');
  writeFileSync(config, configOf(upstream));
  const secret = (): string => randomBytes(22).toString('hex').slice(0, 43);
  const managementKey = `mk-tg-${secret()}`;
  const dataDir = join(folder, 'data');
  const started = new Started({
    args: [...nodeOptions, join(root, 'src/main.ts'), 'serve', '--config', config],
    core: 0,
    log: openSync(join(folder, 'gateway.log'), 'w'),
    env: {
      TOLLGATE_DATA_DIR: dataDir,
      TOLLGATE_PORT: '0',
      TOLLGATE_RPC_PORT: '0',
      TOLLGATE_BOOTSTRAP_BALANCE: '1000000',
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: managementKey,
    },
  });
  const url = await started.printed(/^\s*public\s+(http:\S+)/m);
  const rpcUrl = await started.printed(/^\s*internal\s+(http:\S+)/m);
  const keys = await makeKeys(rpcUrl, dataDir);
  return {
    name: 'gateway',
    process: started,
    url,
    apiKey: keys[0] ?? '',
    rpcUrl,
    managementKey,
    dataDir,
    aim: model => aimAt(Number(new URL(url).port), model, keys),
    stop: async () => {
      await started.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function makeKeys(rpcUrl: string, dataDir: string): Promise<string[]> {
  const token = readFileSync(join(dataDir, 'operator.token'), 'utf8').trim();
  const transport = createConnectTransport({ baseUrl: rpcUrl, httpVersion: '1.1' });
  const admin = createClient(AdminService, transport);
  const headers = { authorization: `Bearer ${token}` };
  const made = Array.from({ length: keyCount }, async () => {
    const { key } = await admin.createApiKey({ accountId: 1n, settings: { minuteLimit: 10_000_000n } }, { headers });
    return key?.key ?? '';
  });
  return Promise.all(made);
}

/** Portkey's gateway, installed into `bench/peers` by `npm ci` first. */
export async function startPortkey(upstream: Target): Promise<Target> {
  const folder = join(root, 'bench/peers');
  const npm = process.env['npm_execpath'];
  const [program, own] = npm === undefined ? ['npm', []] : [process.execPath, [npm]];
  const { status } = spawnSync(program, [...own, 'ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: folder });
  if (status !== 0) throw new Error('npm ci in bench/peers failed');
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const started = new Started({
    args: [join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js'), `--port=${port}`, '--headless'],
    core: 0,
  });
  await answering(port);
  const headers = `x-portkey-provider: openai\r\nx-portkey-custom-host: ${originOf(upstream)}/v1\r\nauthorization: Bearer sk-bench\r\n`;
  return {
    name: 'portkey',
    process: started,
    aim: model => {
      const plain = chatRequest({ model, stream: isStreamed[model] }).toString('latin1');
      return { port, requests: [Buffer.from(plain.replace('\r\n', `\r\n${headers}`), 'latin1')] };
    },
    stop: () => started.stop('SIGKILL'),
  };
}

async function answering(port: number): Promise<void> {
  for (const deadline = performance.now() + 20_000; performance.now() < deadline;) {
    const answered = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
    await answered?.arrayBuffer();
    if (answered !== undefined) return;
    await sleep(50);
  }
  throw new Error(`nothing answers at port ${port}`);
}
