import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { OpenLoopOrder } from '../servers/open-loop.ts';
import type { LoadResult, Traffic } from './load.ts';

const program = resolve(import.meta.dirname, '../servers/open-loop.ts');

/** An answer of the process: a map can't be sent as JSON. */
type Reply = Omit<LoadResult, 'failures'> & { readonly failures: [string, number][] };

/** A client in a process of its own, so that it reads its answers at once even if other clients of the benchmark are busy. It runs on the core of this process. */
export class ClientProcess {
  readonly #child: ChildProcess = fork(program);

  /** Sends requests at a fixed rate, as `openLoop` does. One run at a time. */
  async openLoop({ port, requests }: Traffic, load: { rate: number; seconds: number }): Promise<LoadResult> {
    const over = new AbortController();
    const { signal } = over;
    const answered = Promise.race([once(this.#child, 'message', { signal }), once(this.#child, 'exit', { signal })]);
    this.#child.send({
      port,
      requests: requests.map(each => each.toString('latin1')),
      ...load,
    } satisfies OpenLoopOrder);
    const [reply] = (await answered) as [Reply | number | null];
    over.abort();
    if (typeof reply !== 'object' || reply === null) throw new Error(`a client’s process ended with ${String(reply)}`);
    return { ...reply, failures: new Map(reply.failures) };
  }

  close(): void {
    this.#child.kill();
  }
}
