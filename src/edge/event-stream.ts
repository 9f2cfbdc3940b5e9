import type { ServerResponse } from 'node:http';
import type { AnswerHeaders } from './call.ts';
import type { Disconnect } from './client-gone.ts';

/** How a stream of frames is sent. */
export interface EventStreamOptions {
  /** A frame that keeps a quiet stream alive. */
  readonly keepAlive: string;
  /** How long a stream may be quiet. */
  readonly keepAliveMs: number;
  readonly client: Disconnect;
  /** The headers that can be told before the first event, where that is long in coming. */
  readonly earlyHeaders: () => Promise<AnswerHeaders>;
  /** The connection is to close after this answer. */
  readonly lastAnswer: () => boolean;
}

const streamHeaders: AnswerHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-store, no-transform',
  'x-accel-buffering': 'no',
};

/**
 * The stream of frames of one answer: status line, keep-alives while nothing comes, and the client's pace. It never holds more than the
 * response's own buffer and one batch, because the caller waits for `write` before it asks for the next batch. Source: decisions §4.
 */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #options: EventStreamOptions;
  readonly #timer: NodeJS.Timeout;
  #begun = false;
  #ended = false;

  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.#response = response;
    this.#options = options;
    this.#timer = setTimeout(() => void this.#quiet(), options.keepAliveMs);
  }

  /** The status line was sent: what fails from here on is told inside the stream. */
  get begun(): boolean {
    return this.#begun;
  }

  /** Sends the status line; once, later calls do nothing. It leaves with the frames that follow at once. */
  begin(headers: AnswerHeaders): void {
    if (this.#begun || this.#ended) return;
    this.#begun = true;
    this.#response.writeHead(200, {
      ...streamHeaders,
      ...headers,
      ...(this.#options.lastAnswer() ? { connection: 'close' } : {}),
    });
  }

  /** Sends whole frames. A promise resolves when the client has taken them or has gone away; nothing means: go on at once. */
  write(frames: string): Promise<void> | undefined {
    this.#timer.refresh();
    if (this.#ended || this.#options.client.gone || this.#response.write(frames)) return undefined;
    return this.#drained();
  }

  /** Sends the last frames and ends the answer. */
  end(frames: string): void {
    this.release();
    if (this.#options.client.gone) return;
    // The connection was promised to stay open when the stream began; a gateway that stops can't keep that.
    const { socket } = this.#response;
    const closes = this.#options.lastAnswer();
    this.#response.end(frames, () => {
      if (closes) socket?.end();
    });
  }

  /** Nothing is sent any more. */
  release(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  async #quiet(): Promise<void> {
    if (!this.#begun) this.begin(await this.#options.earlyHeaders());
    if (this.#ended || this.#options.client.gone) return;
    // A client that does not read has enough to read already.
    if (!this.#response.writableNeedDrain) this.#response.write(this.#options.keepAlive);
    this.#timer.refresh();
  }

  #drained(): Promise<void> {
    const { signal } = this.#options.client;
    return new Promise(resolve => {
      const done = (): void => {
        this.#response.off('drain', done);
        signal.removeEventListener('abort', done);
        this.#timer.refresh();
        resolve();
      };
      this.#response.on('drain', done);
      signal.addEventListener('abort', done);
    });
  }
}
