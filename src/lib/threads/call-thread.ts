import { type MessagePort, Worker } from 'node:worker_threads';
import { type Call, CallQueue, type QueuePolicy } from './call-queue.ts';
import type { Replies } from './serve-calls.ts';

/** Handles what a thread posts to its owner. */
export interface CallPolicy<C, Reply> extends QueuePolicy<C, Reply> {
  /** Called with the thread's messages that are not replies. */
  onNotice?(notice: unknown): void;
  /** Called when the thread has ended. `lost`: the calls that have no reply, in order. */
  onEnd(lost: readonly C[], cause: Error): void;
}

/** The calling side of a thread that runs `serveCalls`: its owner. */
export class CallThread<C extends Call<unknown>, Reply> {
  readonly #program: URL;
  readonly #policy: CallPolicy<C, Reply>;
  readonly #calls: CallQueue<C, Reply>;
  #worker: Worker | undefined;
  #isShared = false;

  constructor(program: URL, policy: CallPolicy<C, Reply>) {
    this.#program = program;
    this.#policy = policy;
    this.#calls = new CallQueue<C, Reply>(() => this.#worker, policy);
  }

  /** True if there is a thread; it may still be starting. */
  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  /** True if the thread also has calls of others: see `share`. */
  get isShared(): boolean {
    return this.#isShared;
  }

  /** The number of calls without a reply. */
  get waiting(): number {
    return this.#calls.waiting;
  }

  /** The number of calls that were sent to the thread and have no reply. */
  get underway(): number {
    return this.#calls.underway;
  }

  /** Returns the calls without a reply, in order. */
  unanswered(): C[] {
    return this.#calls.unanswered();
  }

  /** Starts the thread. Resolves with the value that it posts when it is ready; rejects with its error. */
  start(workerData: unknown): Promise<unknown> {
    const worker = new Worker(this.#program, { workerData });
    this.#worker = worker;
    return new Promise((resolve, reject) => {
      let cause = new Error('The thread ended.');
      worker.on('error', error => {
        cause = error instanceof Error ? error : new Error(String(error));
      });
      worker.once('exit', () => {
        this.#worker = undefined;
        this.#isShared = false;
        this.#policy.onEnd(this.#calls.takeUnanswered(), cause);
        reject(cause);
      });
      worker.once('message', (ready: unknown) => {
        worker.on('message', ([kind, replies]: Replies<Reply>) => {
          if (kind === 'notice') this.#policy.onNotice?.(replies);
          else this.#calls.take(kind, replies);
        });
        resolve(ready);
      });
    });
  }

  /** Sends a call to the running thread. */
  post(call: C): void {
    this.#calls.post(call);
  }

  /** Lets another thread, which has the other end of `port`, send calls with a `CallQueue` of its own. The port is closed when this thread ends. Throws if there is no thread. */
  share(port: MessagePort): void {
    if (this.#worker === undefined) throw new Error('the thread has ended');
    this.#isShared = true;
    this.#worker.postMessage(port, [port]);
  }

  /** Ends the thread once it has replied to all posted calls. */
  async end(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    this.#calls.sendAll();
    await new Promise(resolve => {
      worker.once('exit', resolve);
      worker.postMessage('end');
    });
  }

  /** Ends the thread at once. */
  async kill(): Promise<void> {
    await this.#worker?.terminate();
  }
}
