import { type Dispatcher, errors } from 'undici';
import type { UpstreamCodec } from '../codecs/codec.ts';
import { type AttemptWatch, type RunningAttempt, UpstreamFailure, type WireTap } from '../generation/upstream.ts';
import { asError } from './as-error.ts';
import { Deadlines, type Phase } from './deadlines.ts';
import { readRequestId, type ResponseHead, statusFailure } from './error-answer.ts';
import type { HttpTarget } from './http-target.ts';
import { toLogMessage } from './log-message.ts';

/** A request, sent with one key after the other until one is accepted. */
export interface OutgoingRequest {
  /** Identifies the request: what it learns about keys holds for all of its attempts. */
  readonly keyUser: object;
  /** The model that a key must be allowed to use. */
  readonly model: string;
  /** Path and query. */
  readonly path: string;
  /** Names and values in turn, by the index of the key. */
  readonly headers: readonly string[][];
  /** Null: a GET, otherwise a POST. */
  readonly body: Buffer | null;
  /** True if nothing of the answer comes before its end: it counts as begun with its head. */
  readonly whole: boolean;
  readonly codec: Pick<UpstreamCodec, 'parseError'>;
  /** Absent: not traced. */
  readonly watch?: AttemptWatch | undefined;
  /** Absent: its bytes are not kept. */
  readonly tap?: WireTap | undefined;
}

/** The events of some bytes, and the failure that followed them. */
export interface ReadBatch<Output> {
  readonly events: Output[];
  readonly failure?: Error;
}

/** Reads the bytes of an answer with a 2xx status. Pure: no I/O, no time. */
export interface BodyReader<Output> {
  /** True if nothing more is wanted. */
  readonly completed: boolean;
  /** True if nothing that matters is missing. */
  readonly finished: boolean;
  begin(contentType: string): void;
  push(chunk: Buffer): ReadBatch<Output>;
  /** The bytes have ended, or broken off with `failure`. */
  end(failure?: Error): ReadBatch<Output>;
}

/** Receives what an attempt gives: nothing before its constructor has returned, and nothing once it is cancelled. */
export interface BodyReceiver<Output> {
  /** Receives the events of one chunk, never an empty list. */
  events(events: Output[]): void;
  /** Ends the attempt, once and last. */
  end(failure?: Error): void;
}

/** The most that is read of an error's body. */
const errorBytesMax = 65_536;
/** How many bytes may follow the end of the wanted part before the connection is closed instead of reused. */
const drainBytesMax = 65_536;
/** The parser's message for an answer that ends too early: bytes are missing, none is wrong. */
const endedEarly = /EOF/;

/** Interval at which an upstream that is loading its model is retried. */
const loadingPollMs = 500;
/** When to retry such an upstream if it does not say. */
const loadingRetryMs = 5_000;

/**
 * The connection broke, or what came over it is not HTTP. Keeps only texts: the parser's errors carry the bytes they
 * stumbled over, which must not reach a log.
 */
class BrokenExchange extends Error {
  override readonly name = 'BrokenExchange';
}

/**
 * One attempt at an HTTP upstream, from the key to the last event. A chunk of the socket runs through the reader to the receiver in one call. It works on undici's own handlers
 * instead of `request()`, because a stream object per answer costs more than parsing the answer. No failure names a credential or an address.
 */
export class HttpAttempt<Output> implements Dispatcher.DispatchHandler, RunningAttempt {
  readonly #target: HttpTarget;
  readonly #request: OutgoingRequest;
  readonly #reader: BodyReader<Output>;
  readonly #receiver: BodyReceiver<Output>;
  readonly #deadlines: Deadlines;
  readonly #connections: Dispatcher;
  #phase: Phase | 'over' = 'connecting';
  #controller: Dispatcher.DispatchController | undefined;
  #keyIndex = 0;
  /** When the request went out first; undefined: it has not. */
  #sentAtMs: number | undefined;
  /** The head of an answer with a 2xx status has come. */
  #hasBegun = false;
  /** True once HTTP marks the end of the answer: its connection can be reused. */
  #hasEnded = false;
  #isPaused = false;
  #isCancelled = false;
  #refusal: { readonly head: ResponseHead; readonly parts: Buffer[] } | undefined;
  /** Bytes of a refusal, or after the end. */
  #bytes = 0;

  /** Sends the request. */
  constructor(
    target: HttpTarget,
    request: OutgoingRequest,
    reader: BodyReader<Output>,
    receiver: BodyReceiver<Output>,
  ) {
    this.#target = target;
    this.#request = request;
    this.#reader = reader;
    this.#receiver = receiver;
    this.#deadlines = new Deadlines(target.timeouts, target.runtime, failure => this.#expire(failure));
    this.#connections = target.acquire();
    this.#send();
  }

  cancel(): void {
    this.#isCancelled = true;
    if (this.#reader.completed) this.#drain();
    else this.#leave();
  }

  pause(): void {
    if (this.#phase === 'draining' || this.#phase === 'over') return;
    this.#isPaused = true;
    this.#deadlines.pause();
    if (this.#hasBegun && !this.#hasEnded) this.#controller?.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#deadlines.resume();
    // Later: resuming reads waiting bytes at once, and undici's parser must not be entered from a call that came out
    // of it.
    queueMicrotask(() => {
      if (!this.#isPaused && !this.#hasEnded) this.#controller?.resume();
    });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#sentAtMs ??= this.#target.runtime.monotonicMs();
    if (this.#phase === 'over') this.#abort();
    else this.#enter('sent');
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: ResponseHead['headers']): void {
    // Below 200 it is not the answer yet.
    if (status < 200 || this.#phase === 'over') return;
    this.#request.watch?.answered(readRequestId(headers));
    if (status >= 300) {
      this.#refusal = { head: { status, headers }, parts: [] };
      this.#enter('refused');
      return;
    }
    this.#hasBegun = true;
    this.#target.keys.works(this.#request.keyUser, this.#keyIndex);
    if (this.#isPaused) controller.pause();
    const type = headers['content-type'];
    this.#reader.begin(typeof type === 'string' ? type : '');
    if (this.#request.whole) this.#enter('answering');
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#phase !== 'draining' && this.#phase !== 'over') this.#request.tap?.received(chunk);
    if (this.#phase === 'refused' || this.#phase === 'draining') {
      this.#bytes += chunk.length;
      this.#refusal?.parts.push(chunk);
      if (this.#phase === 'draining' ? this.#bytes > drainBytesMax : this.#bytes >= errorBytesMax) this.#enough();
    } else if (this.#phase !== 'over') {
      const batch = this.#reader.push(chunk);
      const isGoing = this.#phase === 'answering' || batch.events.length > 0;
      if (isGoing && this.#phase !== 'finishing' && !this.#reader.completed) {
        this.#enter(this.#reader.finished ? 'finishing' : 'answering');
      }
      this.#deliver(batch);
    }
  }

  onResponseEnd(): void {
    this.#hasEnded = true;
    this.#end();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#end(this.#brokenFailure(error));
  }

  #send(): void {
    const { keyUser, model, path, headers, body } = this.#request;
    const { keys, origin } = this.#target;
    const index = keys.pick(keyUser, model);
    if (index === undefined) {
      this.#fail(
        keys.lastRefusal(keyUser) ?? new UpstreamFailure('status', { status: 401, retryAfterMs: keys.restMs }),
      );
      return;
    }
    this.#keyIndex = index;
    this.#controller = undefined;
    this.#hasEnded = false;
    this.#bytes = 0;
    this.#enter('connecting');
    const method = body === null ? 'GET' : 'POST';
    this.#connections.dispatch({ origin, path, method, headers: this.#headers(headers[index] ?? []), body }, this);
  }

  /** The provider's headers, and those of the request that the configuration does not set. */
  #headers(own: readonly string[]): string[] {
    const more = this.#request.watch?.outgoingHeaders;
    if (more === undefined) return own as string[];
    const headers = [...own];
    for (let at = 0; at < more.length; at += 2) {
      const [name = '', value = ''] = more.slice(at, at + 2);
      if (!this.#target.isConfigured(name)) headers.push(name, value);
    }
    return headers;
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#deadlines.enter(phase);
  }

  #expire(failure: UpstreamFailure): void {
    this.#abort();
    this.#end(failure);
  }

  /** Ends the answer's bytes. The body of a refusal may break off: its status already reports the failure. */
  #end(failure?: Error): void {
    if (this.#phase === 'refused' || this.#phase === 'draining') this.#enough();
    else if (this.#phase !== 'over') this.#deliver(this.#reader.end(failure));
  }

  /** Called when the body of a refusal, or what follows a whole answer, has ended or is no longer waited for. */
  #enough(): void {
    this.#abort();
    const refusal = this.#refusal;
    this.#refusal = undefined;
    if (refusal === undefined) {
      this.#phase = 'over';
      this.#deadlines.stop();
      return;
    }
    // Later: undici is done with this request then, and its connection can serve the next one.
    queueMicrotask(() => {
      if (this.#phase !== 'over') this.#refused(refusal.head, refusal.parts);
    });
  }

  #refused(head: ResponseHead, parts: readonly Buffer[]): void {
    const { keyUser, model, codec } = this.#request;
    const body = Buffer.concat(parts).subarray(0, errorBytesMax).toString('utf8');
    const failure = this.#withLogMessage(statusFailure(head, body, { codec, clock: this.#target.runtime }));
    if (this.#target.keys.learn(keyUser, model, this.#keyIndex, failure)) this.#send();
    else if (head.status === 503 && failure.facts.isLoading === true) this.#awaitModel(failure);
    else this.#fail(failure);
  }

  /** Sends the request again in a moment, until the time limit of the first event. */
  #awaitModel({ kind, facts }: UpstreamFailure): void {
    const { runtime, timeouts } = this.#target;
    const waitedMs = runtime.monotonicMs() - (this.#sentAtMs ?? 0);
    if (waitedMs + loadingPollMs > timeouts.firstEventMs) {
      this.#fail(new UpstreamFailure(kind, { retryAfterMs: loadingRetryMs, ...facts }));
      return;
    }
    this.#enter('loading');
    runtime.after(loadingPollMs, () => {
      if (this.#phase === 'loading') this.#send();
    });
  }

  #deliver({ events, failure }: ReadBatch<Output>): void {
    try {
      if (events.length > 0) this.#receiver.events(events);
    } catch (thrown) {
      this.#fail(asError(thrown));
    }
    // The receiver may have cancelled.
    if (this.#isCancelled || this.#phase === 'over') return;
    if (failure !== undefined) this.#fail(failure);
    else if (this.#reader.completed) {
      this.#drain();
      this.#receiver.end();
    }
  }

  /** The answer is whole: lets what follows go by, so that the connection can serve again, but not for long. */
  #drain(): void {
    if (this.#phase === 'draining' || this.#phase === 'over') return;
    this.#target.release(this.#connections);
    if (this.#hasEnded) this.#enough();
    else {
      this.#enter('draining');
      this.resume();
    }
  }

  #fail(failure: Error): void {
    this.#leave();
    const cleaned = failure instanceof UpstreamFailure ? this.#target.clean(this.#withLogMessage(failure)) : failure;
    // Later: the constructor may not have returned, and what begins next must not begin inside undici.
    queueMicrotask(() => {
      if (!this.#isCancelled) this.#receiver.end(cleaned);
    });
  }

  /** Adds the message that may be logged, while the sent body is still available. */
  #withLogMessage(failure: UpstreamFailure): UpstreamFailure {
    const { kind, facts } = failure;
    if (facts.message === undefined || facts.logMessage !== undefined) return failure;
    const clean = this.#target.clean(failure).facts.message ?? '';
    const logMessage = toLogMessage(clean, this.#request.body, this.#request.model);
    return logMessage === undefined ? failure : new UpstreamFailure(kind, { ...facts, logMessage });
  }

  #leave(): void {
    if (this.#phase === 'over') return;
    this.#target.keys.leave(this.#request.keyUser, this.#keyIndex);
    this.#phase = 'over';
    this.#deadlines.stop();
    this.#target.release(this.#connections);
    this.#abort();
  }

  /** Closes the connection, unless it is free. */
  #abort(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = this.#controller !== undefined;
    this.#controller?.abort(new Error('the answer is no longer wanted'));
  }

  #brokenFailure(error: Error): UpstreamFailure {
    const phase = this.#hasBegun ? 'answering' : this.#phase;
    const cause = new BrokenExchange(`${error.name} while ${phase}: ${error.message}`);
    const isMalformed =
      error instanceof errors.HeadersOverflowError ||
      (error instanceof errors.HTTPParserError && !endedEarly.test(error.message));
    if (isMalformed) return new UpstreamFailure('malformed', { cause });
    return new UpstreamFailure(this.#hasBegun ? 'truncated' : 'connect', { cause });
  }
}
