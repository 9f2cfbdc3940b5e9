import type { Readable } from 'node:stream';
import { type Dispatcher, errors } from 'undici';
import type { UpstreamCodec } from '../codecs/codec.ts';
import { type AttemptWatch, type RunningAttempt, UpstreamFailure, type WireTap } from '../generation/upstream.ts';
import { LargeJson } from '../lib/large-json.ts';
import { redactTokens } from '../telemetry/redaction.ts';
import { AnswerInTurns } from './answer-in-turns.ts';
import { asError } from './as-error.ts';
import { Deadlines, type Phase } from './deadlines.ts';
import { readRequestId, type ResponseHead, statusFailure } from './error-answer.ts';
import type { HttpTarget } from './http-target.ts';
import { toLogMessage } from './log-message.ts';
import type { OutgoingBody } from './outgoing-json.ts';
import type { RequestSigner, SignedRequest, UnsignedRequest } from './request-signer.ts';

/** A request to an upstream. It is sent with one key after the other until a key is accepted. */
export interface OutgoingRequest {
  /** Identifies the client's request: keys that were refused in one of its attempts are not used in its other attempts. */
  readonly keyUser: object;
  /** The account for which the request is sent; absent: the gateway itself. */
  readonly accountId?: number | undefined;
  /** The model that a key must be allowed to use. */
  readonly model: string;
  /** Requests with the same text use the same key (`KeyRing.pick`); absent: the keys are used in rotation. */
  readonly affinity?: string | undefined;
  /** Called with the index of the key before each time the request is sent. */
  readonly keyPicked?: ((index: number) => void) | undefined;
  /** The path and query. */
  readonly path: string;
  /** Returns another path to try once, for an error's body that refuses the path; absent: there is none. */
  readonly reroute?: ((body: string) => string | undefined) | undefined;
  /** For each key, by its index, the headers as a list of alternating names and values. */
  readonly headers: readonly string[][];
  /** The body of a POST; null: the request is a GET. */
  readonly body: OutgoingBody | null;
  /** True if the answer is not streamed. It then counts as begun when its head has come. */
  readonly whole: boolean;
  readonly codec: Pick<UpstreamCodec, 'parseError'>;
  /** Absent: the attempt is not traced. */
  readonly watch?: AttemptWatch | undefined;
  /** Absent: the bytes are not kept. */
  readonly tap?: WireTap | undefined;
}

/** The events of some bytes, and the failure that came after them; absent: none. */
export interface ReadBatch<Output> {
  readonly events: Output[];
  readonly failure?: Error;
}

/** Reads the bytes of an answer with a 2xx status. It does no I/O and does not depend on time. */
export interface BodyReader<Output> {
  /** True if the answer is complete, and no more bytes are needed. */
  readonly completed: boolean;
  /** True if nothing is missing that can't be done without. */
  readonly finished: boolean;
  begin(contentType: string): void;
  push(chunk: Buffer): ReadBatch<Output>;
  /** Called when the bytes have ended, or have broken off with `failure`. */
  end(failure?: Error): ReadBatch<Output>;
}

/** Receives the output of an attempt. It is not called before the constructor of the attempt has returned, nor after the attempt was cancelled. */
export interface BodyReceiver<Output> {
  /** Receives the events of one chunk; the list is never empty. */
  events(events: Output[]): void;
  /** Called last, once, when the attempt has ended. */
  end(failure?: Error): void;
}

/** The most bytes that are read of an error's body. */
const errorBytesMax = 65_536;
/** If more bytes than this follow the end of the answer, its connection is closed and not reused. */
const drainBytesMax = 65_536;
/** Matches the parser's message for an answer that ended too early, in which no byte is wrong. */
const endedEarly = /EOF/;

/** How often a request to an upstream that is loading its model is repeated. */
const loadingPollMs = 500;
/** The `retry-after` for the client if such an upstream sends none. */
const loadingRetryMs = 5_000;

/**
 * The connection broke, or what came over it is not HTTP. It has only the text of the original error, because the parser's errors contain received bytes, which must not be logged.
 */
class BrokenExchange extends Error {
  override readonly name = 'BrokenExchange';
}

/**
 * One attempt at an HTTP upstream, from choosing a key to the last event. Each chunk from the socket goes through the reader to the receiver synchronously. It implements undici's handlers instead of using `request()`, because a stream object for each answer takes more time than parsing the answer. No failure contains a credential or a URL.
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
  /** How many bytes of the body the tap has got: it gets each once, although the body is sent again with every key. */
  #tappedBytes = 0;
  /** When the request was first sent; undefined: it was not sent yet. */
  #sentAtMs: number | undefined;
  /** True if the head of an answer with a 2xx status has come. */
  #hasBegun = false;
  /** True if HTTP has marked the end of the answer, so that its connection can be reused. */
  #hasEnded = false;
  /** True if the signer has replaced a refused credential. */
  #hasRenewed = false;
  /** The path after the first one was refused; undefined: it was not. */
  #otherPath: string | undefined;
  #isPaused = false;
  #isCancelled = false;
  #refusal: { readonly head: ResponseHead; readonly parts: Buffer[] } | undefined;
  /** How many bytes of an error's body, or after the end of the answer, have come. */
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
    // Deferred, because resuming reads waiting bytes synchronously, and undici's parser must not be entered from one of its own callbacks.
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
    // A status below 200 is not the answer yet.
    if (status < 200 || this.#phase === 'over') return;
    this.#request.watch?.answered(readRequestId(headers));
    if (status >= 300) {
      this.#refusal = { head: { status, headers }, parts: [] };
      this.#enter('refused');
      return;
    }
    this.#hasBegun = true;
    this.#target.keys.works(this.#request.keyUser, this.#request.model, this.#keyIndex);
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
    const { keyUser, model, affinity, body } = this.#request;
    const path = this.#otherPath ?? this.#request.path;
    const { keys, origin, signer } = this.#target;
    const index = keys.pick(keyUser, model, affinity);
    if (index === undefined) {
      this.#fail(
        keys.lastRefusal(keyUser) ?? new UpstreamFailure('status', { status: 429, retryAfterMs: keys.restMs(model) }),
      );
      return;
    }
    this.#keyIndex = index;
    this.#request.keyPicked?.(index);
    this.#controller = undefined;
    this.#hasEnded = false;
    this.#bytes = 0;
    this.#enter('connecting');
    const headers = this.#headers(this.#request.headers[index] ?? []);
    if (signer === undefined) this.#dispatch({ path, headers });
    else this.#sign(signer, { method: body === null ? 'GET' : 'POST', origin, path, headers, body });
  }

  /** Sends the request when it has a credential. If there is none, that counts as a refused key. */
  #sign(signer: RequestSigner, unsigned: UnsignedRequest): void {
    const { keyUser, model } = this.#request;
    signer.sign(unsigned).then(
      signed => {
        if (this.#phase === 'connecting') this.#dispatch(signed);
      },
      (cause: unknown) => {
        if (this.#phase !== 'connecting') return;
        const logMessage = redactTokens(asError(cause).message);
        const failure = new UpstreamFailure('status', { status: 401, logMessage, cause });
        this.#target.keys.learn(keyUser, model, this.#keyIndex, failure);
        this.#fail(failure);
      },
    );
  }

  #dispatch({ path, headers: own }: SignedRequest): void {
    const { body } = this.#request;
    const method = body === null ? 'GET' : 'POST';
    // Without a length undici would send the slices in chunks, which some providers refuse.
    const headers = body instanceof LargeJson ? [...own, 'content-length', String(body.length)] : own;
    const { origin } = this.#target;
    const inTurns = new AnswerInTurns(this, this.#request.accountId ?? 0);
    this.#connections.dispatch({ origin, path, method, headers, body: this.#sentBody(body) }, inTurns);
  }

  #sentBody(body: OutgoingBody | null): Buffer | Readable | null {
    // undici also sends iterables, which its types do not say.
    if (body instanceof LargeJson) return this.#slices(body) as unknown as Readable;
    if (body !== null) this.#tap(body, 0);
    return body;
  }

  async *#slices(body: LargeJson): AsyncGenerator<Buffer, void, undefined> {
    let at = 0;
    for await (const slice of body.slices()) {
      this.#tap(slice, at);
      at += slice.length;
      yield slice;
    }
  }

  /** `at`: how many bytes of the body come before these. */
  #tap(bytes: Buffer, at: number): void {
    if (at < this.#tappedBytes) return;
    this.#tappedBytes = at + bytes.length;
    this.#request.tap?.sent(bytes);
  }

  /** Returns the provider's headers, and those headers of the request that the configuration does not override. */
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

  /** Handles the end of the bytes. If the body of an error breaks off, that does not matter, because its status already says enough. */
  #end(failure?: Error): void {
    if (this.#phase === 'refused' || this.#phase === 'draining') this.#enough();
    else if (this.#phase !== 'over') this.#deliver(this.#reader.end(failure));
  }

  /** Called when the body of an error, or what follows a complete answer, has ended or is no longer waited for. */
  #enough(): void {
    this.#abort();
    const refusal = this.#refusal;
    this.#refusal = undefined;
    if (refusal === undefined) {
      this.#phase = 'over';
      this.#deadlines.stop();
      return;
    }
    // Deferred until undici has finished this request, so that its connection can be used for the next one.
    queueMicrotask(() => {
      if (this.#phase !== 'over') this.#handleRefusal(refusal.head, refusal.parts);
    });
  }

  /** Returns whether a refusal is about a credential that can be replaced, or about a path that has another. Each is tried once. */
  #maySendAgain(head: ResponseHead, body: string): boolean {
    if (!this.#hasRenewed && this.#target.signer?.mayRenew(head) === true) {
      this.#hasRenewed = true;
      return true;
    }
    if (this.#otherPath !== undefined) return false;
    this.#otherPath = this.#request.reroute?.(body);
    return this.#otherPath !== undefined;
  }

  #handleRefusal(head: ResponseHead, parts: readonly Buffer[]): void {
    const { keyUser, model, codec } = this.#request;
    const body = Buffer.concat(parts).subarray(0, errorBytesMax).toString('utf8');
    if (this.#maySendAgain(head, body)) {
      this.#send();
      return;
    }
    const failure = this.#withLogMessage(statusFailure(head, body, { codec, clock: this.#target.runtime }));
    if (this.#target.keys.learn(keyUser, model, this.#keyIndex, failure)) {
      this.#request.watch?.keyRefused?.(failure);
      this.#send();
    } else if (failure.facts.meaning === 'loading') this.#awaitModel(failure);
    else this.#fail(failure);
  }

  /** Sends the request again after a short wait, until the time limit of the first event. */
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
    // The receiver may have cancelled the attempt.
    if (this.#isCancelled || this.#phase === 'over') return;
    if (failure !== undefined) this.#fail(failure);
    else if (this.#reader.completed) {
      this.#drain();
      this.#receiver.end();
    }
  }

  /** Called when the answer is complete. Reads what follows, for a limited time, so that the connection can be reused. */
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
    // Deferred, because the constructor may not have returned yet, and the receiver must not start its next attempt inside a callback of undici.
    queueMicrotask(() => {
      if (!this.#isCancelled) this.#receiver.end(cleaned);
    });
  }

  /** Adds the message for the log, from which everything that was in the sent body is removed. */
  #withLogMessage(failure: UpstreamFailure): UpstreamFailure {
    const { kind, facts } = failure;
    if (facts.message === undefined || facts.logMessage !== undefined) return failure;
    const clean = this.#target.clean(failure).facts.message ?? '';
    const logMessage = toLogMessage(clean, this.#request.body, this.#request.model);
    return logMessage === undefined ? failure : new UpstreamFailure(kind, { ...facts, logMessage });
  }

  #leave(): void {
    if (this.#phase === 'over') return;
    this.#target.keys.release(this.#request.model, this.#request.keyUser);
    this.#phase = 'over';
    this.#deadlines.stop();
    this.#target.release(this.#connections);
    this.#abort();
  }

  /** Closes the connection, unless it can be reused. */
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
