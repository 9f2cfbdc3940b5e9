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

/** Decides what is sent together, and handles replies. */
export interface QueuePolicy<C, Reply> {
  onReply(call: C, reply: Reply): void;
  /** Removes the calls of the next message from the waiting ones, at most `max` and at least one, and returns them in their order. Absent: the oldest are taken. */
  readonly takeBatch?: (waiting: C[], max: number) => C[];
  /** Returns whether the thread replies to a call with `later`. It posts no `now` for a message that has only such calls. Absent: the reply to every call is announced or comes with `now`. */
  readonly repliesLater?: (call: C) => boolean;
  /** Returns the memory of a call's request that moves to the thread instead of being copied; absent: all is copied. */
  readonly movedMemory?: (call: C) => readonly ArrayBuffer[];
  /** Called after `onReply` was called for all replies of a message. */
  onBatch?(batch: BatchFacts): void;
}

/** A `Worker` or a `MessagePort`. */
interface Port {
  postMessage(requests: unknown[]): void;
  postMessage(requests: unknown[], moved: ArrayBuffer[]): void;
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
 * The calls to a thread that runs `serveCalls`, over one port. All calls that are posted while a message is being processed are sent as the next message, because a
 * message costs as much as ten requests in it. Calls are kept in arrays, because V8 keeps moving what passes through a Map to its old generation.
 */
export class CallQueue<C extends Call<unknown>, Reply> {
  readonly #port: () => Port | undefined;
  readonly #policy: QueuePolicy<C, Reply>;
  /** Calls to be sent at the end of this turn of the event loop, or once the previous batch has its replies. */
  #outbox: C[] = [];
  #sent: C[] = [];
  /** Calls whose reply comes later. */
  #later: C[] = [];
  #sentAtMs = 0;
  /** The first message whose calls are not announced and have no reply, and how many calls get theirs before; undefined: there is none. */
  #unannounced: { readonly sentAtMs: number; ahead: number } | undefined;

  /** `port` returns the port to the thread; undefined: there is no thread now, so that calls wait. */
  constructor(port: () => Port | undefined, policy: QueuePolicy<C, Reply>) {
    this.#port = port;
    this.#policy = policy;
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

  /** Removes the calls without a reply, because the thread has ended. Returns them in order. */
  takeUnanswered(): C[] {
    const lost = this.unanswered();
    [this.#later, this.#sent, this.#outbox] = [[], [], []];
    this.#unannounced = undefined;
    return lost;
  }

  /** Sends a call at the end of this turn of the event loop. */
  post(call: C): void {
    if (this.#outbox.push(call) === 1) setImmediate(() => this.#flush());
  }

  /** Sends all posted calls without waiting for replies. */
  sendAll(): void {
    for (let port = this.#port(); port !== undefined && this.#outbox.length > 0; port = this.#port()) this.#send(port);
  }

  /** Handles replies that the thread has posted. */
  take(kind: 'now' | 'later', replies: readonly (Reply | undefined)[]): void {
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

  #flush(): void {
    const port = this.#port();
    if (port !== undefined && this.#outbox.length > 0 && this.#sent.length === 0) this.#send(port);
  }

  #send(port: Port): void {
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
    if (movedMemory === undefined) port.postMessage(requests);
    else port.postMessage(requests, batch.flatMap(movedMemory));
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
