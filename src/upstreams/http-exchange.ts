import { type Dispatcher, errors } from 'undici';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime } from '../lib/runtime.ts';
import { Deadlines, type UpstreamTimeouts } from './deadlines.ts';

/** What is sent: a POST, or a GET if there is no body. */
export interface HttpRequest {
  /** `https://host:port`. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  /** Names and values in turn. */
  readonly headers: string[];
  readonly body: Buffer | null;
}

/** The beginning of an answer. */
export interface ResponseHead {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** How far an exchange has come. The kind of its failure depends on it. */
type ExchangePhase =
  | 'connecting' // nothing was sent
  | 'sent' // sent, in part at least, no answer yet
  | 'answering'; // the head has come

/** The connection broke, or what came over it is not HTTP. */
class BrokenExchange extends Error {
  override readonly name = 'BrokenExchange';

  /** Keeps only the texts of `error`: the parser's errors carry the bytes they stumbled over, which no log may have. */
  constructor(phase: ExchangePhase, error: Error) {
    super(`${error.name} while ${phase}: ${error.message}`);
  }
}

/** The most that is read of an error's body. */
const errorBytesMax = 65_536;
/** Bytes that may come after the end of what is wanted before the connection is closed instead of kept. */
const drainBytesMax = 65_536;
/** What the parser says of an answer that ends too early: bytes are missing, none is wrong. */
const endedEarly = /EOF/;

/** Maps a broken connection to an `UpstreamFailure`. */
function brokenFailure(phase: ExchangePhase, error: Error): UpstreamFailure {
  const cause = new BrokenExchange(phase, error);
  const isMalformed =
    error instanceof errors.HeadersOverflowError ||
    (error instanceof errors.HTTPParserError && !endedEarly.test(error.message));
  if (isMalformed) return new UpstreamFailure('malformed', { cause });
  return new UpstreamFailure(phase === 'answering' ? 'truncated' : 'connect', { cause });
}

/**
 * HTTP requests to an upstream, one after the other until one is answered, under the time limits of one attempt. The bytes of the answer are pushed to whoever extends it, in the
 * call in which the socket gave them. It works on undici's own handlers instead of `request()`, because a stream object per answer costs more than parsing the answer.
 */
export abstract class HttpExchange implements Dispatcher.DispatchHandler {
  protected readonly deadlines: Deadlines;
  #controller: Dispatcher.DispatchController | undefined;
  #phase: ExchangePhase = 'connecting';
  /** What the bytes that come are. Nothing: no request runs. */
  #reading: 'answer' | 'refusal' | 'rest' | 'nothing' = 'nothing';
  #isPaused = false;
  #refusal: { readonly head: ResponseHead; readonly parts: Buffer[] } | undefined;
  /** Bytes of the refusal, or of the rest. */
  #bytes = 0;

  constructor(timeouts: UpstreamTimeouts, runtime: Runtime) {
    this.deadlines = new Deadlines(timeouts, runtime, reason => this.#expire(reason));
  }

  /** The head of an answer with a 2xx status has come. */
  protected abstract answered(head: ResponseHead): void;
  /** Takes bytes of the answer. */
  protected abstract data(chunk: Buffer): void;
  /** The bytes of the answer have ended as HTTP says. */
  protected abstract ended(): void;
  /** The answer has another status. `body`: as much of it as came in time. Nothing runs any more; `send` may be called again. */
  protected abstract refused(head: ResponseHead, body: Buffer): void;
  /** A connection broke or a time limit passed (`GraceOver` too). Nothing runs any more. */
  protected abstract broke(failure: Error): void;

  /** Sends a request. Its answer may come before this returns if it can't be sent. */
  protected send(dispatcher: Dispatcher, { origin, path, headers, body }: HttpRequest): void {
    this.#controller = undefined;
    this.#phase = 'connecting';
    this.#reading = 'answer';
    this.deadlines.enter('connecting');
    dispatcher.dispatch({ origin, path, method: body === null ? 'GET' : 'POST', headers, body }, this);
  }

  /** Ends the exchange and closes its connection, unless the answer has ended. Nothing is called any more. */
  protected close(): void {
    this.deadlines.stop();
    this.#abort();
  }

  /** What was wanted has come: lets the rest go by, so that the connection can serve again, but not for long. Nothing is called any more. */
  protected drain(): void {
    if (this.#reading !== 'answer') {
      this.deadlines.stop();
      return;
    }
    this.#reading = 'rest';
    this.#bytes = 0;
    this.deadlines.enter('draining');
    this.resume();
  }

  /** Stops reading the connection. */
  pause(): void {
    this.#isPaused = true;
    this.deadlines.pause();
    if (this.#reading === 'answer' && this.#phase === 'answering') this.#controller?.pause();
  }

  /** Reads the connection again. */
  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.deadlines.resume();
    // Later: it reads at once what waits, and undici's parser must not be entered from a call that came out of it.
    queueMicrotask(() => {
      if (!this.#isPaused) this.#controller?.resume();
    });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#reading === 'nothing') {
      controller.abort(notWanted());
      return;
    }
    this.#phase = 'sent';
    this.deadlines.enter('sent');
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: ResponseHead['headers']): void {
    // Below 200 it is not the answer yet.
    if (status < 200 || this.#reading !== 'answer') return;
    this.#phase = 'answering';
    const head = { status, headers };
    if (status < 300) {
      if (this.#isPaused) controller.pause();
      this.answered(head);
      return;
    }
    this.#reading = 'refusal';
    this.#refusal = { head, parts: [] };
    this.#bytes = 0;
    this.deadlines.enter('refused');
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#reading === 'answer') {
      this.data(chunk);
      return;
    }
    if (this.#reading === 'nothing') return;
    this.#bytes += chunk.length;
    if (this.#reading === 'refusal') {
      this.#refusal?.parts.push(chunk);
      if (this.#bytes >= errorBytesMax) this.#refuse();
    } else if (this.#bytes > drainBytesMax) this.close();
  }

  onResponseEnd(): void {
    const reading = this.#reading;
    this.#reading = 'nothing';
    if (reading === 'answer') this.ended();
    else if (reading === 'refusal') this.#refuse();
    else this.deadlines.stop();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const reading = this.#reading;
    this.#reading = 'nothing';
    if (reading === 'answer') this.broke(brokenFailure(this.#phase, error));
    // The status has said that it failed; a body that breaks off changes nothing.
    else if (reading === 'refusal') this.#refuse();
    else if (reading === 'rest') this.deadlines.stop();
  }

  #expire(reason: Error): void {
    if (this.#reading === 'rest') this.close();
    else if (this.#reading === 'refusal') this.#refuse();
    else {
      this.#abort();
      this.broke(reason);
    }
  }

  #refuse(): void {
    this.#abort();
    const refusal = this.#refusal;
    this.#refusal = undefined;
    if (refusal === undefined) return;
    const body = Buffer.concat(refusal.parts).subarray(0, errorBytesMax);
    // Later: the connection can serve the next request when undici is done with this one.
    queueMicrotask(() => this.refused(refusal.head, body));
  }

  #abort(): void {
    if (this.#reading === 'nothing') return;
    this.#reading = 'nothing';
    this.#controller?.abort(notWanted());
  }
}

function notWanted(): Error {
  return new Error('the answer is no longer wanted');
}
