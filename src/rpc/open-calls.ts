import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import type { Runtime, Timer } from '../lib/runtime.ts';

/** The limits of calls that need no credential: health and reflection. */
export interface OpenCallLimits {
  /** The most bytes of a message. Messages must not be compressed. */
  readonly bytesMax: number;
  /** The most concurrent calls of all callers. */
  readonly callsMax: number;
  /** The most concurrent calls from one address. */
  readonly perAddressMax: number;
  /** The longest that a call may last, in ms. A watch ends then, and its client reconnects. */
  readonly durationMs: number;
}

/** How long a call may take to end after its time has passed, before it is cut off. */
const cutMs = 5_000;

/** Counts the running calls without a credential, and enforces their limits. */
export class OpenCalls {
  readonly #limits: OpenCallLimits;
  readonly #runtime: Pick<Runtime, 'after'>;
  readonly #byAddress = new Map<string, number>();
  #calls = 0;

  constructor(limits: OpenCallLimits, runtime: Pick<Runtime, 'after'>) {
    this.#limits = limits;
    this.#runtime = runtime;
  }

  /** Returns whether a call may begin. If it may, it is counted until its response has closed, and is cut off if it lasts too long. */
  admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { callsMax, perAddressMax, durationMs } = this.#limits;
    const address = request.socket.remoteAddress ?? '';
    const own = this.#byAddress.get(address) ?? 0;
    if (this.#calls >= callsMax || own >= perAddressMax) return false;
    this.#calls += 1;
    this.#byAddress.set(address, own + 1);
    const timer: Timer = this.#runtime.after(durationMs + cutMs, () => cut(request));
    // Ends the client's side of the stream, which a client could keep open after the answer.
    response.once('finish', () => setImmediate(endStream, request));
    response.once('close', () => {
      timer.cancel();
      this.#calls -= 1;
      const left = (this.#byAddress.get(address) ?? 1) - 1;
      if (left === 0) this.#byAddress.delete(address);
      else this.#byAddress.set(address, left);
    });
    return true;
  }
}

/** Cuts off a call: over HTTP/2 its stream, otherwise its connection. */
function cut(request: IncomingMessage | Http2ServerRequest): void {
  if ('stream' in request) request.stream.destroy();
  else request.destroy();
}

function endStream(request: IncomingMessage | Http2ServerRequest): void {
  if ('stream' in request && !request.stream.closed) request.stream.close();
}
