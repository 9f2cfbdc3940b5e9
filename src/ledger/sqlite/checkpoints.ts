import { siblingModule } from '../../lib/sibling-module.ts';
import { Worker } from 'node:worker_threads';
import { isStorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { CheckpointerData } from './checkpointer.ts';

const restartMs = 1000;

/** Runs the thread that makes the checkpoints of a ledger. If the thread dies, it is started again, unless writes were lost. */
export class Checkpoints {
  readonly #data: CheckpointerData;
  readonly #onLost: (cause: Error) => void;
  #worker: Worker | undefined;
  #restart: NodeJS.Timeout | undefined;
  #ended: PromiseWithResolvers<void> | undefined;

  /** Starts the thread. `onLost`: called with a `StorageLost`; nothing may be written afterwards. */
  constructor(data: CheckpointerData, onLost: (cause: Error) => void) {
    this.#data = data;
    this.#onLost = onLost;
    this.#start();
  }

  /** Resolves when the thread has ended, for whatever reason. */
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
