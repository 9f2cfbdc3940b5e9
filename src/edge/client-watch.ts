import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Runtime } from '../lib/runtime.ts';

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

/** The interval and the number of probes to a client that has closed its sending side, which show whether it still reads. */
const probeMs = 200;
const probesMax = 3;

/** A client that may have disconnected. */
interface ProbedClient {
  readonly isGone: boolean;
  readonly response: ServerResponse;
  /** Sends something that is no part of the answer. A client that has disconnected answers with a reset, and the next write fails. */
  probe(): void;
}

/** Probes a client that has closed its sending side until it has disconnected or was answered, a few times at most. */
export function probeClient(client: ProbedClient, runtime: Pick<Runtime, 'after'>, left = probesMax): void {
  if (client.isGone || client.response.writableEnded || left === 0) return;
  client.probe();
  runtime.after(probeMs, () => probeClient(client, runtime, left - 1));
}

/** Watches a client whose answer may be long in coming. */
class WaitingWatch extends ClientWatch implements ProbedClient {
  readonly response: ServerResponse;
  readonly #runtime: Pick<Runtime, 'after'> | undefined;

  constructor(response: ServerResponse, runtime?: Pick<Runtime, 'after'>) {
    const { socket } = response.req;
    super(socket);
    this.response = response;
    this.#runtime = runtime;
    if (socket.readableEnded) this.clientEnded();
  }

  override clientEnded(): void {
    if (this.#runtime !== undefined) probeClient(this, this.#runtime);
  }

  probe(): void {
    if (!this.response.headersSent && this.response.req.httpVersion !== '1.0') this.response.writeProcessing();
  }
}

/** Calls `done` once a response was sent or its client has disconnected; at once if that has happened. `runtime`: to probe a client that has closed its sending side; absent: such a client is probed by others, or answered soon. */
export function whenAnswered(response: ServerResponse, done: () => void, runtime?: Pick<Runtime, 'after'>): void {
  const watch = new AnswerWatch(response, done, runtime);
  if (response.closed || watch.isGone) watch.clientLeft();
  else response.once('close', () => watch.clientLeft());
}

class AnswerWatch extends WaitingWatch {
  #done: (() => void) | undefined;

  constructor(response: ServerResponse, done: () => void, runtime?: Pick<Runtime, 'after'>) {
    super(response, runtime);
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
 * Runs work for an answer that is useless once the client has disconnected. `signal` is aborted then, and the error that follows becomes `ClientGone`.
 */
export async function whileConnected<T>(
  response: ServerResponse,
  runtime: Pick<Runtime, 'after'>,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const watch = new WaitingWatch(response, runtime);
  try {
    return await run(watch.signal);
  } catch (thrown) {
    throw watch.isGone ? new ClientGone() : thrown;
  } finally {
    watch.release();
  }
}
