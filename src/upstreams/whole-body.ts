import type { Dispatcher } from 'undici';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime } from '../lib/runtime.ts';
import type { UpstreamTimeouts } from './deadlines.ts';
import { HttpExchange, type HttpRequest, type ResponseHead } from './http-exchange.ts';

/** How a whole answer is fetched. */
export interface WholeBodyOptions {
  readonly connections: Dispatcher;
  readonly timeouts: UpstreamTimeouts;
  readonly runtime: Runtime;
  /** The most bytes of an answer with a 2xx status. */
  readonly bytesMax: number;
}

/** An answer of any status, of an error as much as came in time. */
export interface WholeAnswer {
  readonly head: ResponseHead;
  readonly body: Buffer;
}

/** Fetches an answer that nobody needs before its end. Throws `UpstreamFailure`, `malformed` if the answer is too large, and the signal's reason. */
export async function fetchWhole(
  request: HttpRequest,
  options: WholeBodyOptions,
  signal?: AbortSignal,
): Promise<WholeAnswer> {
  signal?.throwIfAborted();
  const body = new WholeBody(request, options);
  const abort = (): void => body.cancel(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await body.answer;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

class WholeBody extends HttpExchange {
  readonly #bytesMax: number;
  readonly #answer = Promise.withResolvers<WholeAnswer>();
  readonly #parts: Buffer[] = [];
  #bytes = 0;
  #head: ResponseHead | undefined;

  constructor(request: HttpRequest, { connections, timeouts, runtime, bytesMax }: WholeBodyOptions) {
    super(timeouts, runtime);
    this.#bytesMax = bytesMax;
    this.send(connections, request);
  }

  get answer(): Promise<WholeAnswer> {
    return this.#answer.promise;
  }

  cancel(reason: unknown): void {
    this.close();
    this.#answer.reject(reason);
  }

  protected override answered(head: ResponseHead): void {
    this.#head = head;
    this.deadlines.enter('answering');
  }

  protected override data(chunk: Buffer): void {
    this.deadlines.enter('answering');
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes <= this.#bytesMax) return;
    this.cancel(new UpstreamFailure('malformed', { cause: new Error('the answer is too large') }));
  }

  protected override ended(): void {
    this.deadlines.stop();
    if (this.#head !== undefined) this.#answer.resolve({ head: this.#head, body: Buffer.concat(this.#parts) });
  }

  protected override refused(head: ResponseHead, body: Buffer): void {
    this.deadlines.stop();
    this.#answer.resolve({ head, body });
  }

  protected override broke(failure: Error): void {
    this.cancel(failure);
  }
}
