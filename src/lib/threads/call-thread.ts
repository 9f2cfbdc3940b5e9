import { Worker } from 'node:worker_threads';

/** A request that waits for its reply. */
export interface Call<Request> {
  readonly request: Request;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** What the owner of a thread does with what comes back. */
export interface CallPolicy<C, Reply> {
  onReply(call: C, reply: Reply): void;
  /** The thread ended; `lost` are the calls that it has not answered, in their order. */
  onEnd(lost: readonly C[], cause: Error): void;
}

/**
 * The calling side of a thread that runs `serveCalls`: replies come in the order of the calls. One message at a time carries all that were posted since
 * the last, because a message costs as much as ten requests in it.
 */
export class CallThread<C extends Call<unknown>, Reply> {
  readonly #program: URL;
  readonly #policy: CallPolicy<C, Reply>;
  #worker: Worker | undefined;
  #calls: C[] = [];
  /** Requests of the last calls, to be sent at the end of this turn of the event loop or after the next reply. */
  #outbox: unknown[] = [];
  #isBusy = false;

  constructor(program: URL, policy: CallPolicy<C, Reply>) {
    this.#program = program;
    this.#policy = policy;
  }

  /** Whether there is a thread, which may still be starting. */
  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  /** Calls that are unanswered. */
  get waiting(): number {
    return this.#calls.length;
  }

  /** Starts the thread; resolves with what it says when it is ready. Rejects with what the thread threw. */
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
        this.#outbox = [];
        this.#isBusy = false;
        this.#policy.onEnd(this.#calls.splice(0), cause);
        reject(cause);
      });
      worker.once('message', (ready: unknown) => {
        worker.on('message', (replies: Reply[]) => this.#onReplies(replies));
        resolve(ready);
      });
    });
  }

  /** Sends a call to the running thread. */
  post(call: C): void {
    this.#calls.push(call);
    if (this.#outbox.length === 0) setImmediate(() => this.#flush());
    this.#outbox.push(call.request);
  }

  /** Lets the thread answer what was posted and ends it. */
  async end(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    this.#isBusy = false;
    this.#flush();
    await new Promise(resolve => {
      worker.once('exit', resolve);
      worker.postMessage('end');
    });
  }

  #flush(): void {
    if (this.#outbox.length === 0 || this.#isBusy) return;
    this.#worker?.postMessage(this.#outbox);
    this.#outbox = [];
    this.#isBusy = true;
  }

  #onReplies(replies: readonly Reply[]): void {
    this.#isBusy = false;
    // First, so that the thread works while the replies are taken in.
    this.#flush();
    const answered = this.#calls.splice(0, replies.length);
    for (const [index, reply] of replies.entries()) {
      const call = answered[index];
      if (call !== undefined) this.#policy.onReply(call, reply);
    }
  }
}
