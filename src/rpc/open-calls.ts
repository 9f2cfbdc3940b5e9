import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import type { Runtime, Timer } from '../lib/runtime.ts';

/** Limits of calls that need no credential: health and reflection. */
export interface OpenCallLimits {
  /** A message, which may not be compressed. */
  readonly bytesMax: number;
  /** Calls at once, of everyone. */
  readonly callsMax: number;
  /** Calls at once from one address. */
  readonly perAddressMax: number;
  /** The longest time of a call, in ms: a watch ends then, and its client reconnects. */
  readonly durationMs: number;
}

/** How long a call may take to end after it was cancelled. */
const cutMs = 5_000;

/** The calls without a credential that are being answered. */
export class OpenCalls {
  readonly #limits: OpenCallLimits;
  readonly #runtime: Pick<Runtime, 'after'>;
  readonly #byAddress = new Map<string, number>();
  #calls = 0;

  constructor(limits: OpenCallLimits, runtime: Pick<Runtime, 'after'>) {
    this.#limits = limits;
    this.#runtime = runtime;
  }

  /** Returns whether a call may begin. One that may is counted until its response has closed, and is cut if it outlives its time. */
  admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { callsMax, perAddressMax, durationMs } = this.#limits;
    const address = request.socket.remoteAddress ?? '';
    const own = this.#byAddress.get(address) ?? 0;
    if (this.#calls >= callsMax || own >= perAddressMax) return false;
    this.#calls += 1;
    this.#byAddress.set(address, own + 1);
    const timer: Timer = this.#runtime.after(durationMs + cutMs, () => cut(request));
    // A client that has been answered may keep its side of the stream open.
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

/** Cuts one call: over HTTP/2 its stream, otherwise its connection. */
function cut(request: IncomingMessage | Http2ServerRequest): void {
  if ('stream' in request) request.stream.destroy();
  else request.destroy();
}

function endStream(request: IncomingMessage | Http2ServerRequest): void {
  if ('stream' in request && !request.stream.closed) request.stream.close();
}
