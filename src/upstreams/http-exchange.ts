import { type Dispatcher, errors } from 'undici';
import { asError } from './as-error.ts';

/** What is sent: a POST, or a GET where there is no body. */
export interface HttpRequest {
  /** `https://host:port`. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer | null;
}

/** The beginning of an answer. */
export interface ResponseHead {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** How far an exchange has come when it breaks: what the failure is depends on it. */
export type ExchangePhase =
  | 'connecting' // nothing was sent
  | 'sent' // sent, in part at least, no answer yet
  | 'answering'; // the head has come

/** The connection broke, or what came over it is not HTTP. */
export class BrokenExchange extends Error {
  override readonly name = 'BrokenExchange';
  readonly phase: ExchangePhase;
  /** The bytes break the rules of HTTP, as against bytes that never came. */
  readonly malformed: boolean;

  /** `error`: what broke it. Only its texts are kept: the parser's errors carry the bytes they stumbled over, which no log may have. */
  constructor(phase: ExchangePhase, error: Error) {
    super(`${error.name} while ${phase}: ${error.message}`);
    this.phase = phase;
    this.malformed = isMalformed(error);
  }
}

/** Bytes that wait for the reader before the connection is paused. */
const bufferedBytesMax = 16_384;
/** Bytes that may come after the end of what is wanted before the connection is given up instead of kept. */
const drainBytesMax = 65_536;
/** How long they may take. */
const drainMs = 2_000;
/** What the parser says of an answer that ends too early: bytes are missing, none is wrong. */
const endedEarly = /EOF/;

function isMalformed(error: Error): boolean {
  if (error instanceof errors.HeadersOverflowError) return true;
  return error instanceof errors.HTTPParserError && !endedEarly.test(error.message);
}

/**
 * One HTTP request and its answer, read by pulling: what nobody has asked for waits in the kernel, save a little. It works on undici's
 * own handlers instead of `request()`, because a stream object per answer costs more than parsing the answer.
 */
export class HttpExchange implements Dispatcher.DispatchHandler {
  readonly #head = Promise.withResolvers<ResponseHead>();
  #phase: ExchangePhase = 'connecting';
  #controller: Dispatcher.DispatchController | undefined;
  #chunks: Buffer[] = [];
  #chunkBytes = 0;
  #ended = false;
  #failure: { readonly reason: unknown } | undefined;
  #reader: PromiseWithResolvers<void> | undefined;
  #drainTimer: NodeJS.Timeout | undefined;
  #drainedBytes = 0;
  #draining = false;
  readonly #onSent: () => void;

  /** Sends the request. `onSent`: called once a connection is there and the request goes out on it. */
  constructor(dispatcher: Dispatcher, request: HttpRequest, onSent: () => void) {
    this.#onSent = onSent;
    // Read by head(); a failure that comes before somebody asks must not end the process.
    this.#head.promise.catch(() => undefined);
    const { origin, path, headers, body } = request;
    dispatcher.dispatch({ origin, path, method: body === null ? 'GET' : 'POST', headers, body }, this);
  }

  /** Status and headers. Rejects with `BrokenExchange`, or with what `fail` was given. */
  get head(): Promise<ResponseHead> {
    return this.#head.promise;
  }

  /** What has come since the last call, waiting where nothing has; undefined at the end. Rejects as `head` does. One call at a time. */
  async read(): Promise<readonly Buffer[] | undefined> {
    if (this.#chunks.length === 0 && !this.#ended && this.#failure === undefined) {
      this.#reader = Promise.withResolvers();
      await this.#reader.promise;
    }
    if (this.#chunks.length > 0) {
      const chunks = this.#chunks;
      this.#chunks = [];
      this.#chunkBytes = 0;
      this.#controller?.resume();
      return chunks;
    }
    if (this.#failure !== undefined) throw this.#failure.reason;
    return undefined;
  }

  /** Ends the exchange with `reason`, which whoever waits gets; the connection is closed. Nothing happens to one that has ended. */
  fail(reason: unknown): void {
    if (this.#ended || this.#failure !== undefined) return;
    this.#settle(reason);
    this.#controller?.abort(asError(reason));
  }

  /** What was wanted has come: lets the rest go by, so that the connection can serve again, but not for long. */
  drain(): void {
    if (this.#ended || this.#failure !== undefined || this.#draining) return;
    this.#draining = true;
    this.#chunks = [];
    this.#drainTimer = setTimeout(() => this.fail(new Error('the answer goes on after its end')), drainMs);
    this.#drainTimer.unref();
    this.#controller?.resume();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#failure !== undefined) {
      controller.abort(asError(this.#failure.reason));
      return;
    }
    this.#controller = controller;
    this.#phase = 'sent';
    this.#onSent();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: ResponseHead['headers']): void {
    if (status < 200) return;
    this.#phase = 'answering';
    this.#head.resolve({ status, headers });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#failure !== undefined) return;
    if (this.#draining) {
      this.#drainedBytes += chunk.length;
      if (this.#drainedBytes > drainBytesMax) this.fail(new Error('the answer goes on after its end'));
      return;
    }
    this.#chunks.push(chunk);
    this.#chunkBytes += chunk.length;
    if (this.#chunkBytes > bufferedBytesMax) controller.pause();
    this.#wake();
  }

  onResponseEnd(): void {
    this.#ended = true;
    clearTimeout(this.#drainTimer);
    this.#wake();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#drainTimer);
    if (this.#ended || this.#failure !== undefined) return;
    this.#settle(new BrokenExchange(this.#phase, error));
  }

  #settle(reason: unknown): void {
    clearTimeout(this.#drainTimer);
    this.#failure = { reason };
    this.#head.reject(reason);
    this.#wake();
  }

  #wake(): void {
    this.#reader?.resolve();
    this.#reader = undefined;
  }
}
