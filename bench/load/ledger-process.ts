import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { LoadKey, LoadOrder, LoadReport } from '../servers/ledger-load.ts';

const program = resolve(import.meta.dirname, '../servers/ledger-load.ts');

/** A ledger in a separate process, which also generates the load. */
export class LedgerProcess {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Opens a ledger in a data directory or a database. */
  static async open(engine: 'sqlite' | 'postgres', at: string): Promise<LedgerProcess> {
    const opened = new LedgerProcess(fork(program));
    await opened.#order({ kind: 'open', engine, at });
    return opened;
  }

  /** Makes accounts with money, each with a key. */
  make(accounts: number): Promise<LoadKey[]> {
    return this.#order({ kind: 'make', accounts });
  }

  run(load: Omit<Extract<LoadOrder, { kind: 'run' }>, 'kind'>): Promise<LoadReport> {
    return this.#order({ kind: 'run', ...load });
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.send({ kind: 'close' } satisfies LoadOrder);
    await ended;
  }

  async #order<R>(order: LoadOrder): Promise<R> {
    const over = new AbortController();
    const { signal } = over;
    const answered = Promise.race([once(this.#child, 'message', { signal }), once(this.#child, 'exit', { signal })]);
    this.#child.send(order);
    const [answer] = (await answered) as [{ readonly reply?: R; readonly error?: string } | number];
    over.abort();
    if (typeof answer === 'number') throw new Error(`the ledger's process ended with ${answer}`);
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer.reply as R;
  }
}
