/**
 * Pushed streams: the producer calls its receiver with each message, so that a chunk gets from one socket
 * to the other without a promise in between.
 */

/** Receives the messages of one stream. */
export interface Sink<Message> {
  /** Takes the next message. It must not throw. */
  message(message: Message): void;
  /** Ends the stream; called once, last. `error`: why the stream failed; absent for a regular end. It must not throw. */
  end(error?: Error): void;
}

/** Controls the source of a stream, for its receiver. Every method may be called at any time and more than once. */
export interface StreamControl {
  /**
   * Cancels the rest of the stream. The source stops its work; it still calls `end` once it has cleaned up.
   * `failure`: why the receiver can't take messages any more, if the caller did not cause it; not passed on to remote sources.
   */
  cancel(failure?: Error): void;
  /** Asks the source to send no more messages for now. Those already on their way may still arrive. */
  pause(): void;
  /** Asks the source to continue. */
  resume(): void;
}

/** Reads the headers of a call by their name in lower case; null if a header is absent. `Headers` fits this interface. */
export interface HeaderReader {
  get(name: string): string | null;
  has(name: string): boolean;
  /** How much memory the body of the call holds, in bytes; absent: it is not known, or none. */
  readonly bodyMemory?: number;
  /**
   * Calls `done` once the answer of the call was sent or nobody waits for it any more; at once if that has happened. Returns false, and never calls it, if that is not known. Absent: it is not known.
   */
  onOver?(done: () => void): boolean;
}

/** Pushes the messages of a pulled source to a receiver. Reads one message at a time, and none while paused. */
class Pump<Message> implements StreamControl {
  readonly #abort = new AbortController();
  readonly #open: (signal: AbortSignal) => AsyncIterable<Message>;
  readonly #sink: Sink<Message>;
  #source: AsyncIterator<Message> | undefined;
  #isPaused = false;
  #isReading = false;
  #isOver = false;

  constructor(open: (signal: AbortSignal) => AsyncIterable<Message>, sink: Sink<Message>) {
    this.#open = open;
    this.#sink = sink;
  }

  cancel(): void {
    this.#abort.abort(new Error('the call was cancelled'));
    this.resume();
  }

  pause(): void {
    this.#isPaused = !this.#abort.signal.aborted;
  }

  resume(): void {
    this.#isPaused = false;
    void this.read();
  }

  /** Reads until the source ends or the receiver pauses. Never rejects. */
  async read(): Promise<void> {
    if (this.#isReading || this.#isOver) return;
    this.#isReading = true;
    try {
      this.#source ??= this.#open(this.#abort.signal)[Symbol.asyncIterator]();
      while (!this.#isPaused) {
        const next = await this.#source.next();
        if (next.done === true) return this.#end();
        if (!this.#abort.signal.aborted) this.#sink.message(next.value);
      }
    } catch (thrown) {
      this.#end(thrown instanceof Error ? thrown : new Error('a stream failed', { cause: thrown }));
    } finally {
      this.#isReading = false;
    }
  }

  #end(error?: Error): void {
    this.#isOver = true;
    this.#sink.end(error);
  }
}

/**
 * Pushes the messages of a pulled source (a network client, or a service that reads from a store) to a sink. `open` gets a signal that `cancel`
 * aborts; even then the source is read to its end, so that it can settle. The sink is not called before this function has returned.
 */
export function pump<Message>(
  open: (signal: AbortSignal) => AsyncIterable<Message>,
  sink: Sink<Message>,
): StreamControl {
  const pumping = new Pump(open, sink);
  queueMicrotask(() => void pumping.read());
  return pumping;
}

/**
 * Makes a pushed stream readable. The stream begins with the first read. Its source is paused while a message is
 * unread.
 */
class Pulled<Message> implements Sink<Message>, AsyncIterableIterator<Message> {
  readonly #start: (sink: Sink<Message>) => StreamControl;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#cancel();
  #control: StreamControl | undefined;
  #waiting: Message[] = [];
  #isPaused = false;
  #isCancelled = false;
  #isOver = false;
  #error: Error | undefined;
  #wanted: PromiseWithResolvers<void> | undefined;

  constructor(start: (sink: Sink<Message>) => StreamControl, signal: AbortSignal | undefined) {
    this.#start = start;
    this.#signal = signal;
  }

  message(message: Message): void {
    if (this.#isCancelled) return;
    this.#waiting.push(message);
    if (this.#wanted === undefined && !this.#isPaused) {
      this.#isPaused = true;
      this.#control?.pause();
    }
    this.#wake();
  }

  end(error?: Error): void {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#error = error ?? (this.#signal?.aborted === true ? (this.#signal.reason as Error) : undefined);
    this.#isOver = true;
    this.#wake();
  }

  async next(): Promise<IteratorResult<Message, undefined>> {
    if (this.#control === undefined && !this.#isOver) this.#open();
    while (this.#waiting.length === 0 && !this.#isOver) await this.#more();
    const message = this.#waiting.shift();
    if (message !== undefined) return { done: false, value: message };
    const error = this.#error;
    this.#error = undefined;
    if (error !== undefined) throw error;
    return { done: true, value: undefined };
  }

  /** Called when the reader stops. Resolves when the source has ended. */
  async return(): Promise<IteratorResult<Message, undefined>> {
    this.#cancel();
    this.#isOver ||= this.#control === undefined;
    while (!this.#isOver) await this.#more();
    this.#error = undefined;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #open(): void {
    this.#control = this.#start(this);
    if (this.#signal?.aborted === true) this.#cancel();
    else this.#signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  #cancel(): void {
    this.#waiting = [];
    if (this.#isCancelled || this.#isOver) return;
    this.#isCancelled = true;
    this.#control?.cancel();
  }

  async #more(): Promise<void> {
    this.#wanted ??= Promise.withResolvers();
    const { promise } = this.#wanted;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#control?.resume();
    }
    await promise;
  }

  #wake(): void {
    this.#wanted?.resolve();
    this.#wanted = undefined;
  }
}

/**
 * Returns a pushed stream as an async iterable, for listeners that pull. The stream begins with the first read. Aborting `signal`
 * cancels it; the iteration ends once the source has ended.
 */
export function pull<Message>(
  start: (sink: Sink<Message>) => StreamControl,
  signal?: AbortSignal,
): AsyncIterableIterator<Message> {
  return new Pulled(start, signal);
}
