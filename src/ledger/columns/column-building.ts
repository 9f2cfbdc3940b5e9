import { Worker } from 'node:worker_threads';
import { siblingModule } from '../../lib/sibling-module.ts';
import type { BuildData } from './build-worker.ts';

/** The wait before the first run, so that it does not slow the gateway's start. */
const firstMs = 60_000;
const intervalMs = 300_000;

/** Makes the column files of a ledger from time to time, each time on a new thread. If a run fails, the next one tries again; until then sums read the ledger's records. */
export class ColumnBuilding {
  readonly #path: string;
  readonly #now: () => number;
  #timer: NodeJS.Timeout;
  #isFirst = true;
  #worker: Worker | undefined;
  #ended: PromiseWithResolvers<void> | undefined;

  constructor(path: string, now: () => number) {
    this.#path = path;
    this.#now = now;
    this.#timer = setTimeout(() => this.#build(), firstMs).unref();
  }

  /** Resolves when no thread is running. */
  async end(): Promise<void> {
    clearTimeout(this.#timer);
    this.#ended = Promise.withResolvers();
    if (this.#worker === undefined) return;
    void this.#worker.terminate();
    await this.#ended.promise;
  }

  #build(): void {
    const workerData: BuildData = { path: this.#path, nowMs: this.#now(), checksAll: this.#isFirst };
    const worker = new Worker(siblingModule(import.meta.url, 'build-worker'), { workerData });
    this.#worker = worker;
    worker.unref();
    worker.on('error', () => undefined);
    worker.once('exit', code => {
      this.#worker = undefined;
      if (code === 0) this.#isFirst = false;
      if (this.#ended === undefined) this.#timer = setTimeout(() => this.#build(), intervalMs).unref();
      else this.#ended.resolve();
    });
  }
}
