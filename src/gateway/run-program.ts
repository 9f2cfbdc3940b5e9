import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import process from 'node:process';
import { CommandFailure } from '../cli/failure.ts';

const forwardedSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/**
 * Runs a program with the terminal and streams of this process. Returns its exit code; if a signal ended it, 128 plus the signal's number. SIGTERM and SIGHUP are passed on to the program, and SIGINT and SIGQUIT unless the standard input is a terminal, which sends them to the program itself. Throws `CommandFailure` if the program can't be started.
 */
export function runProgram(command: readonly string[], env: Readonly<Record<string, string>>): Promise<number> {
  const [name = '', ...args] = command;
  const child = spawn(name, args, { stdio: 'inherit', env });
  const handlers = forwardedSignals.map(signal => {
    // A terminal sends Ctrl-C and Ctrl-\ to all its programs, so these signals must not be passed on again.
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
