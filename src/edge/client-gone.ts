import type { Socket } from 'node:net';

/** The client went away before its answer was there: nobody is left to be answered. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/**
 * Watches a connection for the time of one answer. The socket is watched and not the response: of requests that were sent ahead on one
 * connection (pipelining) only the first has a response that hears of its end.
 */
export class Disconnect {
  readonly #controller = new AbortController();
  readonly #socket: Socket;
  readonly #onClose = (): void => {
    this.#gone = true;
    this.stop();
  };
  #gone = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    if (socket.destroyed) this.#onClose();
    else socket.once('close', this.#onClose);
  }

  /** The client has gone away. */
  get gone(): boolean {
    return this.#gone;
  }

  /** Aborted when the client has gone away, and by `stop`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Stops whatever listens to `signal`, although the client is still there. */
  stop(): void {
    this.#controller.abort(new ClientGone());
  }

  /** The answer has ended: what becomes of the connection is no matter any more. */
  release(): void {
    this.#socket.off('close', this.#onClose);
  }
}
