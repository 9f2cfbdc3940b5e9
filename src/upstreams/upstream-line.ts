import type { Dispatcher } from 'undici';
import { type UpstreamCall, UpstreamFailure } from '../generation/upstream.ts';
import { AnswerDeadlines, GraceOver, type UpstreamTimeouts } from './answer-deadlines.ts';
import type { AnswerReader, ReadBatch } from './answer-reader.ts';
import { asError } from './as-error.ts';
import { BrokenExchange, HttpExchange, type HttpRequest, type ResponseHead } from './http-exchange.ts';

/** The most that is read of an error's body. */
const errorBytesMax = 65_536;

/** What a break of the connection is as a failure of the upstream. */
function asFailure(thrown: unknown): Error {
  if (!(thrown instanceof BrokenExchange)) return asError(thrown);
  if (thrown.malformed) return new UpstreamFailure('malformed', { cause: thrown });
  return new UpstreamFailure(thrown.phase === 'answering' ? 'truncated' : 'connect', { cause: thrown });
}

/** The line to an upstream during one try: exchanges one after the other, their time limits, and the caller's wish to stop. */
export class UpstreamLine {
  readonly #signal: AbortSignal;
  readonly #deadlines: AnswerDeadlines;
  readonly #onAbort = (): void => this.#exchange?.fail(this.#signal.reason);
  #exchange: HttpExchange | undefined;
  #answering = false;
  #finishing = false;

  constructor({ signal, onOvertime }: Pick<UpstreamCall, 'signal' | 'onOvertime'>, timeouts: UpstreamTimeouts) {
    this.#signal = signal;
    this.#deadlines = new AnswerDeadlines(timeouts, reason => this.#exchange?.fail(reason), onOvertime);
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Sends a request and waits for the head of its answer. Throws `UpstreamFailure`, or the signal's reason. */
  async send(connections: Dispatcher, request: HttpRequest): Promise<ResponseHead> {
    this.#signal.throwIfAborted();
    this.#deadlines.connecting();
    this.#exchange = new HttpExchange(connections, request, () => this.#deadlines.sent());
    try {
      return await this.#exchange.head;
    } catch (thrown) {
      this.#signal.throwIfAborted();
      throw asFailure(thrown);
    }
  }

  /** The beginning of an error's body, as much as comes in time. Throws the signal's reason. */
  async errorBody(): Promise<string> {
    this.#deadlines.errorBody();
    const parts: Buffer[] = [];
    let bytes = 0;
    try {
      while (bytes < errorBytesMax) {
        const chunks = await this.#exchange?.read();
        if (chunks === undefined) break;
        parts.push(...chunks);
        bytes += chunks.reduce((sum, chunk) => sum + chunk.length, 0);
      }
    } catch (thrown) {
      // The status has said that it failed; a body that breaks off changes nothing.
      this.#signal.throwIfAborted();
      if (!(thrown instanceof BrokenExchange || thrown instanceof GraceOver || thrown instanceof UpstreamFailure))
        throw thrown;
    }
    this.#exchange?.drain();
    return Buffer.concat(parts).subarray(0, errorBytesMax).toString('utf8');
  }

  /** All bytes of an answer that comes whole, once its head is there. Throws `UpstreamFailure`, `malformed` where it is too large, or the signal's reason. */
  async whole(bytesMax: number): Promise<Buffer> {
    this.#deadlines.answering();
    const parts: Buffer[] = [];
    let bytes = 0;
    for (;;) {
      this.#deadlines.waiting();
      const chunks = await this.#chunks();
      this.#deadlines.arrived();
      if (chunks === undefined) return Buffer.concat(parts);
      for (const chunk of chunks) bytes += chunk.length;
      if (bytes > bytesMax) throw new UpstreamFailure('malformed', { cause: new Error('the answer is too large') });
      parts.push(...chunks);
    }
  }

  async #chunks(): Promise<readonly Buffer[] | undefined> {
    try {
      return await this.#exchange?.read();
    } catch (thrown) {
      this.#signal.throwIfAborted();
      throw asFailure(thrown);
    }
  }

  /** The next batch of an answer. Throws the signal's reason; a failure of the upstream is part of the batch. */
  async next(reader: AnswerReader): Promise<ReadBatch> {
    this.#signal.throwIfAborted();
    const batch = await this.#batch(reader);
    if (reader.finished && !this.#finishing) {
      this.#finishing = true;
      this.#deadlines.finishing();
    } else if (!this.#answering && batch.events.length > 0) {
      this.#answering = true;
      this.#deadlines.answering();
    }
    return batch;
  }

  /** Ends it. `whole`: the answer has come whole, so that its connection may serve again; else it is closed. */
  close(whole: boolean): void {
    this.#deadlines.stop();
    this.#signal.removeEventListener('abort', this.#onAbort);
    if (whole) this.#exchange?.drain();
    else this.#exchange?.fail(new Error('the answer is no longer wanted'));
  }

  async #batch(reader: AnswerReader): Promise<ReadBatch> {
    this.#deadlines.waiting();
    try {
      const chunks = await this.#exchange?.read();
      this.#deadlines.arrived();
      return forgiving(reader, chunks === undefined ? reader.end() : reader.push(chunks));
    } catch (thrown) {
      this.#signal.throwIfAborted();
      if (thrown instanceof GraceOver) return forgiving(reader, reader.end());
      return forgiving(reader, { events: [], failure: asFailure(thrown) });
    }
  }
}

/**
 * After the last choice has ended, usage at most is missing, which the gateway can estimate: a line that breaks or babbles then takes nothing
 * from the answer. An error that the upstream reports still does.
 */
function forgiving(reader: AnswerReader, batch: ReadBatch): ReadBatch {
  const { events, failure } = batch;
  if (!(failure instanceof UpstreamFailure) || !reader.finished) return batch;
  if (failure.kind !== 'truncated' && failure.kind !== 'malformed') return batch;
  const end = reader.end();
  if (end.failure === undefined) return { events: [...events, ...end.events] };
  const rest = reader.finish();
  return { ...rest, events: [...events, ...end.events, ...rest.events] };
}
