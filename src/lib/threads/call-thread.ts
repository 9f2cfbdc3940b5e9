import { Worker } from 'node:worker_threads';
import type { Replies } from './serve-calls.ts';

/** A request that waits for its reply. */
export interface Call<Request> {
  readonly request: Request;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Replies that came together. */
export interface BatchFacts {
  readonly kind: 'now' | 'later';
  /** From the hand-over of the last message. */
  readonly tookMs: number;
  /** Calls that were unanswered before them. */
  readonly waiting: number;
}

/** Handles what a thread sends to its owner. */
export interface CallPolicy<C, Reply> {
  onReply(call: C, reply: Reply): void;
  /** Called after all calls of a batch were given to `onReply`. */
  onBatch?(batch: BatchFacts): void;
  /** Called with the thread's messages that are not replies. */
  onNotice?(notice: unknown): void;
  /** The thread ended; `lost` are the calls that it has not answered, in their order. */
  onEnd(lost: readonly C[], cause: Error): void;
}

/** The most requests of a message. */
const batchMax = 4096;

/**
 * The calling side of a thread that runs `serveCalls`. One message at a time carries all that were posted since the last, because a message costs as much
 * as ten requests in it. Calls are kept in arrays: V8 keeps promoting what passes through a Map.
 */
export class CallThread<C extends Call<unknown>, Reply> {
  readonly #program: URL;
  readonly #policy: CallPolicy<C, Reply>;
  #worker: Worker | undefined;
  /** To be sent at the end of this turn of the event loop or when the batch before has its replies. */
  #outbox: C[] = [];
  #sent: C[] = [];
  /** Calls that the thread answers later than their batch. */
  #later: C[] = [];
  #sentAtMs = 0;

  constructor(program: URL, policy: CallPolicy<C, Reply>) {
    this.#program = program;
    this.#policy = policy;
  }

  /** Returns whether there is a thread, which may still be starting. */
  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  /** Calls that are unanswered. */
  get waiting(): number {
    return this.#outbox.length + this.underway;
  }

  /** Unanswered calls that were sent to the thread. */
  get underway(): number {
    return this.#sent.length + this.#later.length;
  }

  /** Returns the calls that are unanswered, in their order. */
  unanswered(): C[] {
    return [...this.#later, ...this.#sent, ...this.#outbox];
  }

  /** Starts the thread; resolves with the value that it sends when it is ready. Rejects with the thread's error. */
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
        const lost = this.unanswered();
        [this.#later, this.#sent, this.#outbox] = [[], [], []];
        this.#policy.onEnd(lost, cause);
        reject(cause);
      });
      worker.once('message', (ready: unknown) => {
        worker.on('message', (replies: Replies<Reply>) => this.#onReplies(replies));
        resolve(ready);
      });
    });
  }

  /** Sends a call to the running thread. */
  post(call: C): void {
    if (this.#outbox.push(call) === 1) setImmediate(() => this.#flush());
  }

  /** Lets the thread reply to all posted calls, then ends it. */
  async end(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    while (this.#outbox.length > 0) this.#send(worker);
    await new Promise(resolve => {
      worker.once('exit', resolve);
      worker.postMessage('end');
    });
  }

  /** Ends the thread wherever it is. */
  async kill(): Promise<void> {
    await this.#worker?.terminate();
  }

  #flush(): void {
    if (this.#worker !== undefined && this.#outbox.length > 0 && this.#sent.length === 0) this.#send(this.#worker);
  }

  #send(worker: Worker): void {
    const batch = this.#outbox.splice(0, batchMax);
    this.#sent.push(...batch);
    this.#sentAtMs = performance.now();
    worker.postMessage(batch.map(({ request }) => request));
  }

  #onReplies([kind, replies]: Replies<Reply>): void {
    if (kind === 'notice') return this.#policy.onNotice?.(replies);
    const batch = { kind, tookMs: performance.now() - this.#sentAtMs, waiting: this.waiting };
    const calls = (kind === 'now' ? this.#sent : this.#later).splice(0, replies.length);
    // First, so that the thread works while the replies are taken in.
    this.#flush();
    for (const [index, call] of calls.entries()) {
      const reply = replies[index];
      if (reply === undefined) this.#later.push(call);
      else this.#policy.onReply(call, reply);
    }
    this.#policy.onBatch?.(batch);
  }
}
