import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';

const program = join(import.meta.dirname, '../../bin/tollgate.js');
const apiKey = `sk-tg-${'soak'.repeat(8)}`;
const managementKey = `mk-tg-${'soak'.repeat(8)}`;
const config = `simulator: { tokens_per_second: 0 }
ledger: { settle_timeout: 3s }
content: { max_bytes: 32MiB }
shutdown_grace: 5s
log_level: error
`;
/** How long a start may take, in ms: after a kill it checks both files, and other programs share the machine. */
const readyMs = 180_000;

/** A gateway that the soak starts, kills and starts again. */
export interface Gateway {
  readonly url: string;
  readonly apiKey: string;
  readonly managementKey: string;
  readonly folder: string;
  readonly dataDir: string;
  readonly pid: number;
  /** Resolves with the exit code; null if a signal ended the process. */
  readonly ended: Promise<number | null>;
  stop(): Promise<number | null>;
  kill(): Promise<void>;
}

/** Starts a gateway and waits until it is ready. `earlier`: a gateway on whose data it starts. */
export async function startGateway(environment: Readonly<Record<string, string>>, earlier?: Gateway): Promise<Gateway> {
  const folder = earlier?.folder ?? mkdtempSync(join(tmpdir(), 'tollgate-soak-'));
  const dataDir = join(folder, 'data');
  const file = join(folder, 'gateway.yaml');
  writeFileSync(file, config);
  const child = spawn(process.execPath, [program, 'serve', '--config', file], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: {
      PATH: process.env['PATH'],
      ...environment,
      TOLLGATE_DATA_DIR: dataDir,
      TOLLGATE_PORT: '0',
      TOLLGATE_RPC_PORT: '0',
      TOLLGATE_BOOTSTRAP_API_KEY: apiKey,
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: managementKey,
      TOLLGATE_BOOTSTRAP_BALANCE: '100000',
    },
  });
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null) child.kill(signal);
    return ended;
  };
  return {
    url: await readAddress(child),
    apiKey,
    managementKey,
    folder,
    dataDir,
    pid: child.pid ?? 0,
    ended,
    stop: () => end('SIGTERM'),
    kill: async () => void (await end('SIGKILL')),
  };
}

async function readAddress(child: ChildProcess): Promise<string> {
  let printed = '';
  child.stdout?.on('data', (text: Buffer) => (printed += text.toString()));
  for (const deadline = performance.now() + readyMs; performance.now() < deadline; await wait(20)) {
    const url = /^\s*public\s+(http:\S+)/m.exec(printed)?.[1];
    if (url !== undefined) return url;
    if (child.exitCode !== null) break;
  }
  child.kill('SIGKILL');
  throw new Error(`the gateway does not start (exit code ${child.exitCode})`);
}
