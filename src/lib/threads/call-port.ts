/** The calls and replies that were posted in one turn of the event loop. A call with the id 0 gets no reply. `value` of a reply: the result, or the written error if the call threw. */
interface Posted {
  readonly calls: PostedCall[];
  readonly replies: PostedReply[];
}
type PostedCall = [id: number, name: string, args: readonly unknown[]];
type PostedReply = [id: number, succeeded: boolean, value: unknown];

interface OpenCall {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** A `MessagePort` or a `Worker`. */
interface Port {
  postMessage(value: unknown): void;
  on(event: 'message', listener: (value: unknown) => void): unknown;
}

/** Handles the calls of the other side of a `CallPort`. */
export interface CallHandler {
  /** Executes a call and returns its reply or a promise of it. What it throws is the error that the caller gets. */
  readonly answer: (name: string, args: readonly unknown[]) => unknown;
  /** `writeError` converts a thrown value to one that can be cloned; `readError` converts it back to an error. */
  readonly writeError: (thrown: unknown) => unknown;
  readonly readError: (written: unknown) => Error;
}

/**
 * Calls between two threads, in both directions. Arguments and replies are cloned. Everything that is posted in a turn of the event loop is sent as one message, because a
 * message costs as much as several calls in it.
 */
export class CallPort {
  readonly #port: Port;
  readonly #handler: CallHandler;
  readonly #open = new Map<number, OpenCall>();
  #outbox: Posted = { calls: [], replies: [] };
  #willFlush = false;
  #lastId = 0;
  #ended: Error | undefined;

  constructor(port: Port, handler: CallHandler) {
    this.#port = port;
    this.#handler = handler;
    port.on('message', message => {
      // Arrays belong to a protocol that shares the port (`LedgerLane`). The cast holds, because the other side posts nothing else.
      if (!Array.isArray(message)) this.#take(message as Posted);
    });
  }

  /** Calls the other side. Rejects with the error of the call, or with the one that was passed to `end`. */
  call<Reply>(name: string, ...args: readonly unknown[]): Promise<Reply> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      // Nothing checks the type of the reply: the caller must request the one that the handler returns for this name.
      this.#open.set(id, { resolve: resolve as OpenCall['resolve'], reject });
      this.#outbox.calls.push([id, name, args]);
      this.#flushSoon();
    });
  }

  /** Calls the other side without waiting for a reply. Errors of the call are ignored. */
  notify(name: string, ...args: readonly unknown[]): void {
    this.#outbox.calls.push([0, name, args]);
    this.#flushSoon();
  }

  /** Called when the other side has ended. Rejects all waiting and all later calls with `error`. */
  end(error: Error): void {
    this.#ended = error;
    for (const { reject } of this.#open.values()) reject(error);
    this.#open.clear();
  }

  #flushSoon(): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    setImmediate(() => {
      this.#willFlush = false;
      const posted = this.#outbox;
      this.#outbox = { calls: [], replies: [] };
      this.#post(posted);
    });
  }

  #post(posted: Posted): void {
    try {
      this.#port.postMessage(posted);
    } catch {
      // A call or reply in the message can't be cloned, so each is posted separately: only that one fails.
      for (const call of posted.calls) this.#postCall(call);
      for (const reply of posted.replies) this.#postReply(reply);
    }
  }

  #postCall(call: PostedCall): void {
    try {
      this.#port.postMessage({ calls: [call], replies: [] } satisfies Posted);
    } catch (thrown) {
      const [id] = call;
      this.#open.get(id)?.reject(thrown);
      this.#open.delete(id);
    }
  }

  #postReply(reply: PostedReply): void {
    try {
      this.#port.postMessage({ calls: [], replies: [reply] } satisfies Posted);
    } catch (thrown) {
      const refused: PostedReply = [reply[0], false, this.#handler.writeError(thrown)];
      this.#port.postMessage({ calls: [], replies: [refused] } satisfies Posted);
    }
  }

  #take({ calls, replies }: Posted): void {
    for (const [id, succeeded, value] of replies) {
      const open = this.#open.get(id);
      this.#open.delete(id);
      if (succeeded) open?.resolve(value);
      else open?.reject(this.#handler.readError(value));
    }
    for (const [id, name, args] of calls) this.#answer(id, name, args);
  }

  #answer(id: number, name: string, args: readonly unknown[]): void {
    let reply: unknown;
    try {
      reply = this.#handler.answer(name, args);
    } catch (thrown) {
      return this.#reply([id, false, this.#handler.writeError(thrown)]);
    }
    if (!(reply instanceof Promise)) return this.#reply([id, true, reply]);
    reply.then(
      (value: unknown) => this.#reply([id, true, value]),
      (thrown: unknown) => this.#reply([id, false, this.#handler.writeError(thrown)]),
    );
  }

  #reply(reply: PostedReply): void {
    if (reply[0] === 0) return;
    this.#outbox.replies.push(reply);
    this.#flushSoon();
  }
}
