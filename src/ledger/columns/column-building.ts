import { Worker } from 'node:worker_threads';
import { siblingModule } from '../../lib/sibling-module.ts';
import type { BuildData } from './build-worker.ts';

/** Not while a gateway starts. */
const firstMs = 60_000;
const intervalMs = 300_000;

/** Makes column files of a ledger now and then, on a thread that ends each time. If it fails, the next one tries again, and sums read the ledger's records meanwhile. */
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

  /** Resolves when no thread is left. */
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
