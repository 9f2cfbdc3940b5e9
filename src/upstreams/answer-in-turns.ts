import type { Dispatcher } from 'undici';
import { runInTurn } from '../lib/answer-turns.ts';
import { asError } from './as-error.ts';

/** Bytes of an answer that are handled in one piece: about a millisecond of work. */
const pieceBytes = 8_192;

type Handler = Required<
  Pick<
    Dispatcher.DispatchHandler,
    'onRequestStart' | 'onResponseStart' | 'onResponseData' | 'onResponseEnd' | 'onResponseError'
  >
>;

/**
 * Passes the bytes of an answer on in turns, accounts in rotation: undici reads up to 64 kB of every connection in one turn of the event loop, so that hundreds of fast answers would hold up everything else. While bytes wait, the
 * connection is not read. It is the controller of its handler, and calls it in the order of undici's calls.
 */
export class AnswerInTurns implements Dispatcher.DispatchHandler, Dispatcher.DispatchController {
  readonly #handler: Handler;
  readonly #account: number;
  #controller: Dispatcher.DispatchController | undefined;
  /** How many pieces wait for their turn. */
  #waiting = 0;
  /** True while the connection is not read because pieces wait. */
  #isHeld = false;
  /** True if the handler wants no more bytes. */
  #isAborted = false;
  /** True if the handler has paused the answer. */
  #isPaused = false;

  /** `account`: the number of the account that the answer is for; 0: the gateway itself. */
  constructor(handler: Handler, account: number) {
    this.#handler = handler;
    this.#account = account;
  }

  get aborted(): boolean {
    return this.#controller?.aborted === true;
  }

  get paused(): boolean {
    return this.#isPaused;
  }

  get reason(): Error | null {
    return this.#controller?.reason ?? null;
  }

  abort(reason: Error): void {
    this.#isAborted = true;
    this.#controller?.abort(reason);
  }

  pause(): void {
    this.#isPaused = true;
    this.#controller?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isHeld) this.#controller?.resume();
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#controller = controller;
    this.#handler.onRequestStart(this, context);
  }

  onResponseStart(...[, status, headers]: Parameters<Handler['onResponseStart']>): void {
    this.#handler.onResponseStart(this, status, headers);
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      const piece = chunk.subarray(at, at + pieceBytes);
      this.#run(() => {
        if (!this.#isAborted) this.#handler.onResponseData(this, piece);
      });
    }
    if (this.#waiting === 0) return;
    this.#isHeld = true;
    this.#controller?.pause();
  }

  onResponseEnd(_: Dispatcher.DispatchController, trailers: Parameters<Handler['onResponseEnd']>[1]): void {
    this.#after(() => this.#handler.onResponseEnd(this, trailers));
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#after(() => this.#handler.onResponseError(this, error));
  }

  /** Runs a job after all pieces that wait. */
  #after(job: () => void): void {
    if (this.#waiting === 0) job();
    else this.#run(job);
  }

  #run(job: () => void): void {
    this.#waiting += 1;
    runInTurn(this.#account, () => {
      this.#waiting -= 1;
      try {
        job();
      } catch (thrown) {
        // In a later turn there is no caller to throw to.
        this.abort(asError(thrown));
        this.#handler.onResponseError(this, asError(thrown));
      }
      if (this.#waiting === 0 && this.#isHeld) this.#release();
    });
  }

  /** Continues to read the connection, after this job: undici's parser must not be entered from one of its own callbacks. */
  #release(): void {
    this.#isHeld = false;
    queueMicrotask(() => {
      if (!this.#isHeld && !this.#isPaused) this.#controller?.resume();
    });
  }
}
