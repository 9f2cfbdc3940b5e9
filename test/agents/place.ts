import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';

const main = resolve(import.meta.dirname, '../../bin/tollgate.js');
const programs = resolve(import.meta.dirname, 'node_modules/.bin');

/** How a program ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running gateway with a temporary home folder. */
export interface RunningGateway {
  readonly url: string;
  readonly key: string;
  readonly stop: () => Promise<void>;
  /** Runs `tollgate ARGS` against the gateway in an agent's home and folder. `interruptMs`: sends SIGINT that long after the command has made its key. */
  readonly tollgate: (
    args: readonly string[],
    options?: { readonly interruptMs?: number; readonly env?: Record<string, string>; readonly input?: string },
  ) => Promise<Ended>;
}

function gather(child: ChildProcess): Promise<Ended> {
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const { promise, resolve: done } = Promise.withResolvers<Ended>();
  child.once('close', code => done({ code, stdout, stderr }));
  return promise;
}

/** Starts a gateway with this configuration, and waits until it is ready. Throws an error with its output if it ends before that. */
export async function startGateway(config: string): Promise<RunningGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-agents-'));
  const work = join(folder, 'work');
  mkdirSync(work);
  writeFileSync(join(work, 'README.md'), '# A project\n\nIt does nothing.\n');
  writeFileSync(join(folder, 'gateway.yaml'), config);
  const own = {
    PATH: `${programs}:${process.env['PATH'] ?? ''}`,
    HOME: folder,
    TERM: 'dumb',
    TOLLGATE_DATA_DIR: join(folder, 'data'),
  };
  const child = spawn(process.execPath, [main, 'serve', '--config', join(folder, 'gateway.yaml')], {
    cwd: folder,
    env: { ...own, TOLLGATE_PORT: '0', TOLLGATE_RPC_PORT: '0', TOLLGATE_BOOTSTRAP_BALANCE: '10000' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = gather(child);
  let banner = '';
  const ready = Promise.withResolvers<void>();
  child.stdout.on('data', (text: string) => {
    banner += text;
    if (banner.includes('curl ')) ready.resolve();
  });
  void ended.then(({ stderr }) => ready.reject(new Error(`the gateway ended: ${stderr}`)));
  await ready.promise;
  const find = (pattern: RegExp): string => pattern.exec(banner)?.[1] ?? '';
  const rpcPort = new URL(find(/internal +(\S+)/)).port;
  return {
    url: find(/public +(\S+)/),
    key: find(/API key +(\S+)/),
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
    tollgate: (args, { interruptMs, env = {}, input } = {}) => {
      const program = spawn(process.execPath, [main, ...args], {
        cwd: work,
        env: { ...own, TOLLGATE_RPC_PORT: rpcPort, ...env },
        stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
        timeout: 240_000,
      });
      if (input !== undefined) program.stdin?.end(input);
      if (interruptMs !== undefined) {
        program.stderr?.once('data', () => setTimeout(() => program.kill('SIGINT'), interruptMs));
      }
      return gather(program);
    },
  };
}
