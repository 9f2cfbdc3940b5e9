import { siblingModule } from '../../lib/sibling-module.ts';
import { Worker } from 'node:worker_threads';
import { isStorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { CheckpointerData } from './checkpointer.ts';

const restartMs = 1000;

/** The thread that checkpoints a ledger. If it dies it is started again, unless the disk has lost writes. */
export class Checkpoints {
  readonly #data: CheckpointerData;
  readonly #onLost: (cause: Error) => void;
  #worker: Worker | undefined;
  #restart: NodeJS.Timeout | undefined;
  #ended: PromiseWithResolvers<void> | undefined;

  /** Starts it. `onLost`: called with a `StorageLost`, after which nothing more may be written. */
  constructor(data: CheckpointerData, onLost: (cause: Error) => void) {
    this.#data = data;
    this.#onLost = onLost;
    this.#start();
  }

  /** Resolves when it has ended, for whatever reason. */
  async end(): Promise<void> {
    clearTimeout(this.#restart);
    this.#ended = Promise.withResolvers();
    if (this.#worker === undefined) return;
    this.#worker.postMessage('close');
    await this.#ended.promise;
  }

  #start(): void {
    const worker = new Worker(siblingModule(import.meta.url, 'checkpointer'), { workerData: this.#data });
    this.#worker = worker;
    let isLost = false;
    worker.on('error', error => {
      isLost = isStorageLost(error);
      if (isLost) this.#onLost(error as Error);
    });
    worker.once('exit', () => {
      this.#worker = undefined;
      if (this.#ended !== undefined) this.#ended.resolve();
      else if (!isLost) this.#restart = setTimeout(() => this.#start(), restartMs);
    });
  }
}
