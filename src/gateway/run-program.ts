import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import process from 'node:process';
import { CommandFailure } from '../cli/failure.ts';

const passed = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/**
 * Runs a program on this process's own terminal and streams until it ends, and returns its exit code; of one that a signal ended, 128 and the signal's number. Signals to this process go on to
 * it. Throws `CommandFailure` if it can't be started.
 */
export function runProgram(command: readonly string[], env: Readonly<Record<string, string>>): Promise<number> {
  const [name = '', ...args] = command;
  const child = spawn(name, args, { stdio: 'inherit', env });
  const handlers = passed.map(signal => {
    // A terminal sends Ctrl-C and Ctrl-\ to every program on it: another would be a second one.
    const isFromTerminal = process.stdin.isTTY && (signal === 'SIGINT' || signal === 'SIGQUIT');
    const handler = (): void => void (isFromTerminal || child.kill(signal));
    process.on(signal, handler);
    return { signal, handler };
  });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.once('error', error => reject(new CommandFailure(1, [`${name} can’t be started: ${error.message}`], error)));
  child.once('exit', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  return promise.finally(() => {
    for (const { signal, handler } of handlers) process.off(signal, handler);
  });
}
