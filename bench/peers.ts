import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chatRequest } from './load/connection.ts';
import { type Start, Started } from './process.ts';
import {
  type BenchModel,
  benchModels,
  dollarsPerMillion,
  readOrigin,
  type Target,
  toBody,
  toHeaders,
} from './targets.ts';

const folder = resolve(import.meta.dirname, 'peers');
/** How long a peer may take to start. */
const startTimeoutMs = 120_000;

/** Another gateway, with which ours is compared. */
export interface Peer {
  readonly name: string;
  /** The counts and checks of the peer for each request in these benches. */
  readonly accounting: string;
  /** Installs the peer if necessary, and starts it. `budgetUsd`: the most that all requests may cost, if the peer has such a limit. Throws an error with a message for people if it can't be installed or started. */
  start(upstream: Target, options?: { readonly budgetUsd?: number }): Promise<Target>;
  /** Whether the peer can limit costs. */
  readonly hasBudget: boolean;
}

/** How a peer's process is started and called. */
interface PeerProcess {
  readonly name: string;
  readonly start: Omit<Start, 'core'>;
  readonly port: number;
  /** Header lines of each request, each with CRLF at its end. */
  readonly headers: string;
  /** Returns the peer's name of a model. */
  readonly toModel?: (model: BenchModel) => string;
  readonly onStop?: () => void;
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Runs a program to its end. If it fails, throws an error with the last line that it printed. */
function install(program: string, args: readonly string[], cwd = folder): void {
  const { status, error, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' });
  if (status === 0) return;
  const reason = error?.message ?? stderr.trim().split('\n').at(-1) ?? '';
  throw new Error(`\`${[program, ...args].join(' ')}\` failed: ${reason}`);
}

async function startPeer({ name, start, port, headers, toModel, onStop }: PeerProcess): Promise<Target> {
  const started = new Started({ ...start, core: 0 });
  const stop = async (): Promise<void> => {
    await started.stop('SIGKILL');
    onStop?.();
  };
  try {
    await waitUntilAnswering(started, port);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name,
    process: started,
    traffic: model => ({ port, requests: [chatRequest(toBody(model, toModel?.(model)), headers)] }),
    stop,
  };
}

async function waitUntilAnswering(started: Started, port: number): Promise<void> {
  for (const deadline = performance.now() + startTimeoutMs; performance.now() < deadline && !started.hasEnded;) {
    const answered = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
    await answered?.arrayBuffer();
    if (answered !== undefined) return;
    await sleep(100);
  }
  throw new Error(`it ${started.hasEnded ? 'ended at once' : `did not answer within ${startTimeoutMs / 1000} s`}`);
}

const portkey: Peer = {
  name: 'Portkey',
  accounting: 'none',
  hasBudget: false,
  start: async upstream => {
    const npm = process.env['npm_execpath'];
    const [program, own] = npm === undefined ? ['npm', []] : [process.execPath, [npm]];
    install(program, [...own, 'ci', '--no-audit', '--no-fund', '--loglevel=error']);
    const port = await findFreePort();
    return startPeer({
      name: 'Portkey',
      start: {
        args: [join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js'), `--port=${port}`, '--headless'],
      },
      port,
      headers: `x-portkey-provider: openai\r\nx-portkey-custom-host: ${readOrigin(upstream)}/v1\r\nauthorization: Bearer sk-bench\r\n`,
    });
  },
};

/** The version is pinned: 1.107.0 was a compromised release. */
const litellmVersion = '1.106.2';

function writeLitellmConfig(upstream: Target, budgetUsd: number | undefined): string {
  const [input, output] = [dollarsPerMillion.input / 1e6, dollarsPerMillion.output / 1e6];
  const models = benchModels.map(
    name => `  - model_name: bench/${name}
    litellm_params: { model: openai/bench-${name}, api_base: "${readOrigin(upstream)}/v1", api_key: sk-bench, input_cost_per_token: ${input}, output_cost_per_token: ${output} }`,
  );
  const budget =
    budgetUsd === undefined
      ? ''
      : `router_settings: { provider_budget_config: { openai: { budget_limit: ${budgetUsd}, time_period: 1d } } }\n`;
  return `model_list:
${models.join('\n')}
general_settings: { master_key: sk-bench }
${budget}`;
}

const litellm: Peer = {
  name: 'LiteLLM',
  accounting: 'a master key, costs computed in memory; its keys and ledger need PostgreSQL',
  hasBudget: true,
  start: async (upstream, { budgetUsd } = {}) => {
    const environment = join(folder, '.venv');
    if (!existsSync(join(environment, 'bin/litellm'))) {
      install('python3', ['-m', 'venv', environment]);
      install(join(environment, 'bin/pip'), ['install', '-q', `litellm[proxy]==${litellmVersion}`]);
    }
    const home = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
    writeFileSync(join(home, 'config.yaml'), writeLitellmConfig(upstream, budgetUsd));
    const port = await findFreePort();
    return startPeer({
      name: 'LiteLLM',
      start: {
        program: join(environment, 'bin/litellm'),
        args: ['--config', join(home, 'config.yaml'), '--host', '127.0.0.1', '--port', String(port)],
        env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR' },
      },
      port,
      headers: toHeaders('sk-bench'),
      onStop: () => rmSync(home, { recursive: true, force: true }),
    });
  },
};

const bifrost: Peer = {
  name: 'Bifrost',
  accounting: 'none: no governance, no log store',
  hasBudget: false,
  start: async upstream => {
    if (spawnSync('bifrost-http', ['-help']).error !== undefined) {
      throw new Error(
        'there is no `bifrost-http` on the PATH; where the Go module proxy serves it, build it with `go install github.com/maximhq/bifrost/transports/bifrost-http@latest`',
      );
    }
    const home = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
    const config = {
      client: { enable_logging: false, enable_governance: false, allow_direct_keys: false },
      providers: {
        openai: {
          keys: [{ name: 'bench', value: 'sk-bench', models: [], weight: 1 }],
          network_config: { base_url: readOrigin(upstream) },
          concurrency_and_buffer_size: { concurrency: 256, buffer_size: 1024 },
        },
      },
    };
    writeFileSync(join(home, 'config.json'), JSON.stringify(config));
    const port = await findFreePort();
    return startPeer({
      name: 'Bifrost',
      start: {
        program: 'bifrost-http',
        args: ['-app-dir', home, '-host', '127.0.0.1', '-port', String(port), '-log-level', 'error'],
      },
      port,
      headers: '',
      toModel: model => `openai/bench-${model}`,
      onStop: () => rmSync(home, { recursive: true, force: true }),
    });
  },
};

/** Can't be installed; it is listed so that the results say why it is not measured. */
const newApi: Peer = {
  name: 'new-api',
  accounting: 'quotas in SQLite',
  hasBudget: true,
  start: () =>
    Promise.reject(
      new Error(
        'the Go module proxy does not serve `github.com/QuantumNous/new-api` (403), npm and PyPI do not have it',
      ),
    ),
};

/** The gateways that the benches compare with. */
export const allPeers: readonly Peer[] = [portkey, bifrost, litellm, newApi];
