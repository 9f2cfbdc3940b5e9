import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Thrown if the client disconnected before its answer was complete, so that nobody can be answered. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

const watches = Symbol('watches');

/** A connection, with the watches of its requests that are not answered yet. */
interface WatchedSocket extends Socket {
  [watches]?: ClientWatch[];
}

/**
 * Watches a connection while one request is answered. It watches the socket, not the response, because with pipelined requests only the
 * response of the first one reports that the connection has ended. All requests of a connection share one listener.
 */
export class ClientWatch {
  readonly #socket: WatchedSocket;
  #controller: AbortController | undefined;
  #isGone = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    if (socket.destroyed) this.#isGone = true;
    else watchesOn(socket).push(this);
  }

  /** True if the client has disconnected. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Aborted once the client has disconnected. Created on first use, because most requests do not need it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isGone) this.#controller.abort(new ClientGone());
    return this.#controller.signal;
  }

  /**
   * Called once the client has closed its sending side. The client may still read, or may have disconnected; only the next bytes sent to it show which.
   */
  clientEnded(): void {
    // Nothing to do for answers that are written soon.
  }

  /** Called once the connection has closed. */
  clientLeft(): void {
    this.#isGone = true;
    this.#controller?.abort(new ClientGone());
  }

  /** Stops watching: the answer has ended. */
  release(): void {
    const all = this.#socket[watches];
    const place = all?.indexOf(this) ?? -1;
    if (place !== -1) all?.splice(place, 1);
  }
}

function watchesOn(socket: WatchedSocket): ClientWatch[] {
  const known = socket[watches];
  if (known !== undefined) return known;
  const all: ClientWatch[] = [];
  socket[watches] = all;
  socket.once('end', () => {
    for (const watch of all.slice()) watch.clientEnded();
  });
  socket.once('close', () => {
    for (const watch of all.splice(0)) watch.clientLeft();
  });
  return all;
}

/** Calls `done` once a response was sent or its client has disconnected; at once if that has happened. */
export function whenAnswered(response: ServerResponse, done: () => void): void {
  const watch = new AnswerWatch(response.req.socket, done);
  if (response.closed || watch.isGone) watch.clientLeft();
  else response.once('close', () => watch.clientLeft());
}

class AnswerWatch extends ClientWatch {
  #done: (() => void) | undefined;

  constructor(socket: Socket, done: () => void) {
    super(socket);
    this.#done = done;
  }

  override clientLeft(): void {
    super.clientLeft();
    this.release();
    this.#done?.();
    this.#done = undefined;
  }
}

/**
 * Runs work that is useless once the client has disconnected. `signal` is aborted then, and the error that follows becomes `ClientGone`.
 */
export async function whileConnected<T>(socket: Socket, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const watch = new ClientWatch(socket);
  try {
    return await run(watch.signal);
  } catch (thrown) {
    throw watch.isGone ? new ClientGone() : thrown;
  } finally {
    watch.release();
  }
}
