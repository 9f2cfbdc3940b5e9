import { Worker } from 'node:worker_threads';
import type { Replies } from './serve-calls.ts';

/** A request that waits for its reply. */
export interface Call<Request> {
  readonly request: Request;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Facts about replies that arrived in one message. */
export interface BatchFacts {
  /** The time from sending a message to its first replies; undefined: these replies are not the first to their calls' message. */
  readonly tookMs: number | undefined;
  /** The number of calls that had no reply before this message. */
  readonly waiting: number;
}

/** Handles what a thread posts to its owner. */
export interface CallPolicy<C, Reply> {
  onReply(call: C, reply: Reply): void;
  /** Removes the calls of the next message from the waiting ones, at most `max` and at least one, and returns them in their order. Absent: the oldest are taken. */
  readonly takeBatch?: (waiting: C[], max: number) => C[];
  /** Returns whether the thread replies to a call with `later`. It posts no `now` for a message that has only such calls. Absent: the reply to every call is announced or comes with `now`. */
  readonly repliesLater?: (call: C) => boolean;
  /** Returns the memory of a call's request that moves to the thread instead of being copied; absent: all is copied. */
  readonly movedMemory?: (call: C) => readonly ArrayBuffer[];
  /** Called after `onReply` was called for all replies of a message. */
  onBatch?(batch: BatchFacts): void;
  /** Called with the thread's messages that are not replies. */
  onNotice?(notice: unknown): void;
  /** Called when the thread has ended. `lost`: the calls that have no reply, in order. */
  onEnd(lost: readonly C[], cause: Error): void;
}

/** The most requests in a message. */
const batchMax = 4096;

function takeOldest<C>(waiting: C[], max: number): C[] {
  return waiting.splice(0, max);
}

function neverLater(): boolean {
  return false;
}

/**
 * The calling side of a thread that runs `serveCalls`. All calls that are posted while a message is being processed are sent as the next message, because a
 * message costs as much as ten requests in it. Calls are kept in arrays, because V8 keeps moving what passes through a Map to its old generation.
 */
export class CallThread<C extends Call<unknown>, Reply> {
  readonly #program: URL;
  readonly #policy: CallPolicy<C, Reply>;
  #worker: Worker | undefined;
  /** Calls to be sent at the end of this turn of the event loop, or once the previous batch has its replies. */
  #outbox: C[] = [];
  #sent: C[] = [];
  /** Calls whose reply comes later. */
  #later: C[] = [];
  #sentAtMs = 0;
  /** The first message whose calls are not announced and have no reply, and how many calls get theirs before; undefined: there is none. */
  #unannounced: { readonly sentAtMs: number; ahead: number } | undefined;

  constructor(program: URL, policy: CallPolicy<C, Reply>) {
    this.#program = program;
    this.#policy = policy;
  }

  /** True if there is a thread; it may still be starting. */
  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  /** The number of calls without a reply. */
  get waiting(): number {
    return this.#outbox.length + this.underway;
  }

  /** The number of calls that were sent to the thread and have no reply. */
  get underway(): number {
    return this.#sent.length + this.#later.length;
  }

  /** Returns the calls without a reply, in order. */
  unanswered(): C[] {
    return [...this.#later, ...this.#sent, ...this.#outbox];
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
        const lost = this.unanswered();
        [this.#later, this.#sent, this.#outbox] = [[], [], []];
        this.#unannounced = undefined;
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

  /** Ends the thread once it has replied to all posted calls. */
  async end(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    while (this.#outbox.length > 0) this.#send(worker);
    await new Promise(resolve => {
      worker.once('exit', resolve);
      worker.postMessage('end');
    });
  }

  /** Ends the thread at once. */
  async kill(): Promise<void> {
    await this.#worker?.terminate();
  }

  #flush(): void {
    if (this.#worker !== undefined && this.#outbox.length > 0 && this.#sent.length === 0) this.#send(this.#worker);
  }

  #send(worker: Worker): void {
    const { takeBatch = takeOldest, repliesLater = neverLater } = this.#policy;
    const batch = takeBatch(this.#outbox, batchMax);
    const nowMs = performance.now();
    if (batch.every(repliesLater)) {
      this.#unannounced ??= { sentAtMs: nowMs, ahead: this.#later.length };
      this.#later.push(...batch);
    } else {
      this.#sent.push(...batch);
      this.#sentAtMs = nowMs;
    }
    // Not `map`: see `toDense`.
    const requests: unknown[] = [];
    for (const { request } of batch) requests.push(request);
    const { movedMemory } = this.#policy;
    if (movedMemory === undefined) worker.postMessage(requests);
    else worker.postMessage(requests, batch.flatMap(movedMemory));
  }

  #onReplies([kind, replies]: Replies<Reply>): void {
    if (kind === 'notice') return this.#policy.onNotice?.(replies);
    const sentAtMs = kind === 'now' ? this.#sentAtMs : this.#takeUnannounced(replies.length);
    const tookMs = sentAtMs === undefined ? undefined : performance.now() - sentAtMs;
    const batch = { tookMs, waiting: this.waiting };
    const calls = (kind === 'now' ? this.#sent : this.#later).splice(0, replies.length);
    // First, because the thread replies in the order in which it has got the calls.
    for (const [index, call] of calls.entries()) if (replies[index] === undefined) this.#later.push(call);
    // The next batch is sent before the replies are processed here, so that the thread works meanwhile.
    this.#flush();
    for (const [index, call] of calls.entries()) {
      const reply = replies[index];
      if (reply !== undefined) this.#policy.onReply(call, reply);
    }
    this.#policy.onBatch?.(batch);
  }

  /** Notes that the oldest `count` calls of those with later replies have theirs. Returns when the first unannounced message was sent, if it has its first reply now. */
  #takeUnannounced(count: number): number | undefined {
    const first = this.#unannounced;
    if (first === undefined) return undefined;
    first.ahead -= count;
    if (first.ahead >= 0) return undefined;
    this.#unannounced = undefined;
    return first.sentAtMs;
  }
}
