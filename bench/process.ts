import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** The core of what is measured, and the core of load and upstream; undefined where there is only one or no `taskset`. */
export type Core = 0 | 1;

const canPin = availableParallelism() > 1 && spawnSync('taskset', ['--version']).status === 0;
const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/** How to start a process. */
export interface Start {
  readonly args: readonly string[];
  /** Absent: wherever the system puts it. */
  readonly core?: Core;
  readonly env?: Readonly<Record<string, string>>;
  /** A file descriptor for what it logs; absent: nowhere. */
  readonly log?: number;
}

/** A process that was started, and what it cost so far. */
export class Started {
  readonly #child: ChildProcess;
  #printed = '';
  #ended = false;
  #onPrinted: () => void = () => undefined;

  /** Starts Node.js. */
  constructor({ args, core, env = {}, log }: Start) {
    const node = [process.execPath, ...args];
    const [program = '', ...rest] = core === undefined || !canPin ? node : ['taskset', '-c', String(core), ...node];
    this.#child = spawn(program, rest, {
      stdio: ['ignore', 'pipe', log ?? 'ignore'],
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...env },
    });
    children.add(this.#child);
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#printed += text;
      this.#onPrinted();
    });
    this.#child.once('close', () => {
      this.#ended = true;
      children.delete(this.#child);
      this.#onPrinted();
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Waits for a line on its standard output; answers the pattern's first group. Throws when it ends before. */
  async printed(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = pattern.exec(this.#printed)?.[1];
      if (found !== undefined) return found;
      if (this.#ended)
        throw new Error(`${this.#child.spawnargs.join(' ')} ended before it was ready: ${this.#printed}`);
      await new Promise<void>(resolve => {
        this.#onPrinted = resolve;
      });
    }
  }

  /** Time on the processor so far, all threads, user and system, in ms (steps of 10). */
  cpuMs(): number {
    const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8');
    const [user = '0', system = '0'] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13);
    return (Number(user) + Number(system)) * 10;
  }

  /** Memory in use now, in MB. */
  residentMb(): number {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${this.pid}/status`, 'utf8'))?.[1];
    return Number(kilobytes ?? 0) / 1000;
  }

  /** Ends it and waits for its end. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    if (this.#ended) return;
    const ended = once(this.#child, 'close');
    this.#child.kill(signal);
    await ended;
  }
}

/** Puts this process on a core. */
export function pinSelf(core: Core): void {
  if (canPin) spawnSync('taskset', ['-a', '-cp', String(core), String(process.pid)]);
}
