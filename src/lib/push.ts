/**
 * Streams that are pushed: whoever makes a message hands it to its receiver in the same call, so that a chunk from one socket reaches the other without a
 * promise between them.
 */

/** Receives the messages of one stream. */
export interface Sink<Message> {
  /** Takes the next message. It must not throw. */
  message(message: Message): void;
  /** Ends the stream, once and last. `error`: what the receiver is told instead of a regular end. It must not throw. */
  end(error?: Error): void;
}

/** What the receiver of a stream does with its source. Every method may be called at any time and more than once. */
export interface StreamControl {
  /** Nobody wants the rest. The source stops its work; it still calls `end`, once all that it owes is done. */
  cancel(): void;
  /** Nothing more is wanted for now. What is on its way already may still come. */
  pause(): void;
  /** More is wanted again. */
  resume(): void;
}

/** Headers of a call, read by name in lower case; null: absent. `Headers` is one. */
export interface HeaderReader {
  get(name: string): string | null;
  has(name: string): boolean;
}

/** The stream that a pulled source makes for a pushed receiver: reads it one message ahead of nobody, and not at all while paused. */
class Pump<Message> implements StreamControl {
  readonly #abort = new AbortController();
  readonly #source: AsyncIterator<Message>;
  readonly #sink: Sink<Message>;
  #isPaused = false;
  #isReading = false;
  #isOver = false;

  constructor(open: (signal: AbortSignal) => AsyncIterable<Message>, sink: Sink<Message>) {
    this.#sink = sink;
    this.#source = open(this.#abort.signal)[Symbol.asyncIterator]();
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
 * Pushes what is pulled: a network client, or a service that reads from a store. `open` gets a signal that `cancel` aborts; the source is read to its end also
 * then, so that it can settle what it owes. The sink hears nothing before this has returned.
 */
export function pump<Message>(
  open: (signal: AbortSignal) => AsyncIterable<Message>,
  sink: Sink<Message>,
): StreamControl {
  const pumping = new Pump(open, sink);
  queueMicrotask(() => void pumping.read());
  return pumping;
}

/** A pushed stream as one that is pulled. It holds what its reader has not asked for yet, and pauses its source meanwhile. */
class Pulled<Message> implements Sink<Message>, AsyncIterableIterator<Message> {
  #control: StreamControl | undefined;
  #waiting: Message[] = [];
  #error: Error | undefined;
  #isOver = false;
  #wanted: PromiseWithResolvers<void> | undefined;

  open(control: StreamControl): void {
    this.#control = control;
  }

  message(message: Message): void {
    this.#waiting.push(message);
    this.#control?.pause();
    this.#wake();
  }

  end(error?: Error): void {
    this.#error = error;
    this.#isOver = true;
    this.#wake();
  }

  async next(): Promise<IteratorResult<Message, undefined>> {
    for (;;) {
      const message = this.#waiting.shift();
      if (message !== undefined) return { done: false, value: message };
      if (this.#isOver) break;
      this.#wanted = Promise.withResolvers();
      this.#control?.resume();
      await this.#wanted.promise;
    }
    const error = this.#error;
    this.#error = undefined;
    if (error !== undefined) throw error;
    return { done: true, value: undefined };
  }

  /** The reader leaves: resolves when the source has done what it owes. */
  async return(): Promise<IteratorResult<Message, undefined>> {
    this.#control?.cancel();
    while (!this.#isOver) {
      this.#waiting = [];
      this.#wanted = Promise.withResolvers();
      await this.#wanted.promise;
    }
    this.#waiting = [];
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #wake(): void {
    this.#wanted?.resolve();
    this.#wanted = undefined;
  }
}

/** Pulls what is pushed, for listeners that read. `signal` cancels the stream when it is aborted. */
export function pull<Message>(
  start: (sink: Sink<Message>) => StreamControl,
  signal: AbortSignal,
): AsyncIterableIterator<Message> {
  const pulled = new Pulled<Message>();
  const control = start(pulled);
  pulled.open(control);
  if (signal.aborted) control.cancel();
  else signal.addEventListener('abort', () => control.cancel(), { once: true });
  return pulled;
}
