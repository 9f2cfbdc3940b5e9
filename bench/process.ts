import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/**
 * The core that a process runs on: 0 is for what is measured, 1 for load and upstream. Ignored if the machine has one core or no `taskset`.
 */
export type Core = 0 | 1;

const canPin = availableParallelism() > 1 && spawnSync('taskset', ['--version']).status === 0;
const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/** How to start a process. */
export interface Start {
  /** Default: this Node.js. */
  readonly program?: string;
  readonly args: readonly string[];
  /** Absent: all cores. */
  readonly core?: Core | undefined;
  readonly env?: Readonly<Record<string, string>>;
  /** A file descriptor for its standard error; absent: discarded. */
  readonly log?: number;
}

/** CPU time, user and system, in ms (steps of 10). */
export interface Cpu {
  readonly totalMs: number;
  /** CPU time of the threads that still run, by name; threads of the same name are summed. */
  readonly threadsMs: ReadonlyMap<string, number>;
}

/** A process that was started, and the CPU time and memory that it uses. */
export class Started {
  readonly #child: ChildProcess;
  #printed = '';
  #ended = false;
  #onPrinted: () => void = () => undefined;

  constructor({ program = process.execPath, args, core, env = {}, log }: Start) {
    const cores = core === undefined ? `0-${availableParallelism() - 1}` : String(core);
    const [command = '', ...rest] = [...(canPin ? ['taskset', '-c', cores] : []), program, ...args];
    this.#child = spawn(command, rest, {
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

  /** Whether the process has ended. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Waits for a line on its standard output; returns the pattern's first group. Throws if it ends before. */
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

  /** Returns the CPU time so far of the process and of its child processes. */
  cpu(): Cpu {
    return readCpu(this.pid);
  }

  /** Returns the memory in use now by the process and its child processes, in MB. */
  residentMb(): number {
    const kilobytes = listFamily(this.pid).map(pid =>
      Number(/^VmRSS:\s+(\d+)/m.exec(readProc(`${pid}/status`))?.[1] ?? 0),
    );
    return kilobytes.reduce((sum, each) => sum + each, 0) / 1000;
  }

  /** Sends the signal and waits until the process has ended. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    if (this.#ended) return;
    const ended = once(this.#child, 'close');
    this.#child.kill(signal);
    await ended;
  }
}

/** Reads a file of /proc; '' if its process has ended. */
function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return '';
  }
}

/** The members of a `stat` file that are used here; times in ms. */
interface Stat {
  readonly name: string;
  readonly parent: number;
  readonly ownMs: number;
  /** Time of children that have ended and were waited for. */
  readonly childrenMs: number;
}

function readStat(path: string): Stat {
  const text = readProc(`${path}/stat`);
  const nameEnd = text.lastIndexOf(')');
  const fields = text.slice(nameEnd + 2).split(' ');
  const ms = (field: number): number => Number(fields[field] ?? 0) * 10;
  return {
    name: text.slice(text.indexOf('(') + 1, nameEnd),
    parent: Number(fields[1] ?? 0),
    ownMs: ms(11) + ms(12),
    childrenMs: ms(13) + ms(14),
  };
}

/** Returns a process and all its descendants that run. */
function listFamily(root: number): number[] {
  const parents = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(name => [Number(name), readStat(name).parent] as const);
  const family = [root];
  for (const member of family) family.push(...parents.filter(([, parent]) => parent === member).map(([pid]) => pid));
  return family;
}

/** Returns the CPU time so far of a process and of its descendants. */
export function readCpu(root: number): Cpu {
  const threadsMs = new Map<string, number>();
  let totalMs = 0;
  for (const pid of listFamily(root)) {
    const { ownMs, childrenMs } = readStat(String(pid));
    totalMs += ownMs + childrenMs;
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const stat = readStat(`${pid}/task/${thread}`);
      threadsMs.set(stat.name, (threadsMs.get(stat.name) ?? 0) + stat.ownMs);
    }
  }
  return { totalMs, threadsMs };
}

/** Returns the CPU time between two readings. */
export function subtractCpu(later: Cpu, earlier: Cpu): Cpu {
  const threads = [...later.threadsMs].map(([name, ms]) => [name, ms - (earlier.threadsMs.get(name) ?? 0)] as const);
  return { totalMs: later.totalMs - earlier.totalMs, threadsMs: new Map(threads) };
}

/** Lets this process, and those that it starts from now on, run on all cores. */
export function spreadSelf(): void {
  if (canPin) spawnSync('taskset', ['-a', '-cp', `0-${availableParallelism() - 1}`, String(process.pid)]);
}

/** Puts this process on a core. */
export function pinSelf(core: Core): void {
  if (canPin) spawnSync('taskset', ['-a', '-cp', String(core), String(process.pid)]);
}
