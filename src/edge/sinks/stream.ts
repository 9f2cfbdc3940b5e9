import type { StreamRenderer } from '../../codecs/codec.ts';
import { type GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import type { Sink } from '../../lib/push.ts';
import type { Timer } from '../../lib/runtime.ts';
import type { AnswerHeaders } from '../call.ts';
import { clientError, readWindows } from '../error-answer.ts';
import type { Exchange } from '../exchange.ts';
import type { AnswerMessage } from '../generation-facts.ts';
import { addLimitHeaders } from '../limit-headers.ts';

/** Renders the messages of an answer as the frames of one interface, joined; '' if there are none. */
export interface FrameRenderer {
  /** The type of the stream; absent: server-sent events. */
  readonly contentType?: string;
  /** A frame that keeps a silent stream alive. */
  readonly keepAlive: string;
  push(message: AnswerMessage): string;
  /** Returns the frames that close a stream. Throws if the answer is not complete. */
  end(): string;
  /** Returns the frames of a failure; `requestId` identifies the request. */
  fail(error: GatewayError, requestId: string): string;
}

/** Returns the renderer of an interface that shows only the events of an answer. */
export function eventFrames(renderer: StreamRenderer): FrameRenderer {
  return {
    keepAlive: renderer.keepAlive,
    push: ({ events }) => {
      let frames = '';
      for (const event of events) frames += renderer.push(event);
      return frames;
    },
    end: () => renderer.end(),
    fail: (error, requestId) => renderer.fail(error, requestId),
  };
}

/**
 * Renders an answer and writes it as it comes, but no faster than the client reads. The frames of a message are sent in one write; the last
 * ones are sent together with the frames that close the stream. The status line is sent with the first message, or with a keep-alive if that
 * message takes long; a failure before that is answered with its own status. Source: docs/interfaces/README.md "Streams".
 */
export class StreamSink implements Sink<AnswerMessage> {
  readonly #exchange: Exchange;
  readonly #renderer: FrameRenderer;
  readonly #keepAliveMs: number;
  readonly #timer: Timer;
  readonly #streamEnded: () => void;
  /** True once the status line was sent; failures after that are sent inside the stream. */
  #hasBegun = false;
  #hasEnded = false;
  #isPaused = false;
  /** True if the body has chunked encoding. `#chunk` makes the chunks, because Node.js would make three writes for each. */
  #isChunked = false;
  /** Frames that wait to be written: those of the current message, or the last ones. */
  #frames = '';
  /** The failure after which the rest of the answer is ignored, although the core continues. */
  #failure: unknown;

  constructor(exchange: Exchange, renderer: FrameRenderer) {
    const { runtime, keepAliveMs, metrics } = exchange.edge.options;
    this.#exchange = exchange;
    this.#renderer = renderer;
    this.#keepAliveMs = keepAliveMs;
    this.#timer = runtime.after(keepAliveMs, () => void this.#keepAlive());
    exchange.keepAlive = () => void this.#keepAlive();
    this.#streamEnded = metrics.streamOpened(exchange.routeOptions.url);
  }

  message(message: AnswerMessage): void {
    const exchange = this.#exchange;
    if (exchange.isGone || this.#failure !== undefined) return;
    const { facts } = exchange;
    try {
      facts.observe(message);
      if (!this.#hasBegun) this.#begin(facts.addHeaders(this.#headers(), exchange.edge.options.runtime.now()));
      this.#frames += this.#renderer.push(message);
    } catch (thrown) {
      this.#failure = thrown;
      exchange.control?.cancel(toGatewayError(thrown));
      return;
    }
    // The last frames are sent together with those that close the stream.
    if (this.#frames !== '' && !facts.isCompleted && message.end === undefined) this.#write();
  }

  end(error?: Error): void {
    this.#hasEnded = true;
    this.#timer.cancel();
    this.#streamEnded();
    const exchange = this.#exchange;
    let failure: unknown = this.#failure ?? error;
    if (failure === undefined) {
      try {
        this.#frames += this.#renderer.end();
      } catch (thrown) {
        failure = thrown;
      }
    }
    if (exchange.isGone || (failure !== undefined && !this.#hasBegun)) return exchange.fail(failure);
    if (failure !== undefined) return this.#endFailed(failure);
    this.#close(this.#frames);
    exchange.end(exchange.facts.outcome(200));
  }

  #headers(): AnswerHeaders {
    return {
      ...this.#exchange.call.headers,
      'content-type': this.#renderer.contentType ?? 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-store, no-transform',
      'x-accel-buffering': 'no',
    };
  }

  /** Writes the status line; it is sent together with the next frames. */
  #begin(headers: AnswerHeaders): void {
    this.#hasBegun = true;
    const { edge, reply } = this.#exchange;
    if (edge.stopping()) headers['connection'] = 'close';
    reply.raw.writeHead(200, headers);
    this.#isChunked = reply.raw.chunkedEncoding;
    reply.raw.chunkedEncoding = false;
  }

  /** Returns a text as a chunk, if the body has chunked encoding. */
  #chunk(text: string): string {
    return this.#isChunked && text !== '' ? `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n` : text;
  }

  #write(): void {
    const { raw } = this.#exchange.reply;
    const frames = this.#frames;
    this.#frames = '';
    this.#exchange.call.bodies?.answered(frames);
    this.#timer.restart(this.#keepAliveMs);
    if (raw.write(this.#chunk(frames)) || this.#isPaused) return;
    this.#isPaused = true;
    this.#exchange.control?.pause();
    raw.once('drain', () => {
      this.#isPaused = false;
      if (this.#hasEnded) return;
      this.#timer.restart(this.#keepAliveMs);
      this.#exchange.control?.resume();
    });
  }

  #endFailed(failure: unknown): void {
    const exchange = this.#exchange;
    const { call, facts } = exchange;
    const error = clientError(failure);
    this.#close(this.#renderer.fail(error, facts.repeatedId ?? call.id));
    exchange.end({ ...facts.outcome(200), code: error.code, error });
  }

  #close(frames: string): void {
    const { edge, reply } = this.#exchange;
    const { socket } = reply.raw;
    this.#exchange.call.bodies?.answered(frames);
    // The headers have announced that the connection stays open, but a stopping gateway must close it.
    if (edge.stopping()) reply.raw.once('finish', () => socket?.end());
    reply.raw.end(this.#chunk(frames) + (this.#isChunked ? '0\r\n\r\n' : ''));
  }

  /** Sends a keep-alive, because the stream was silent for long. */
  async #keepAlive(): Promise<void> {
    const { call, edge, reply } = this.#exchange;
    if (!this.#hasBegun) {
      const headers = this.#headers();
      if (call.sendsLimitHeaders) {
        addLimitHeaders(headers, await readWindows(edge, call), edge.options.runtime.now());
      }
      if (!this.#hasBegun && !this.#hasEnded) this.#begin(headers);
    }
    if (this.#hasEnded || this.#exchange.isGone) return;
    // A client that does not read gets no keep-alive, because unread bytes already wait for it.
    if (!reply.raw.writableNeedDrain) reply.raw.write(this.#chunk(this.#renderer.keepAlive));
    this.#timer.restart(this.#keepAliveMs);
  }
}
