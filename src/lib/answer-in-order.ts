import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** A connection is not read while more than this many of its requests wait. A few may, so that a client that leaves during a long answer is noticed at once. */
const waitingMax = 16;

/** The unanswered requests of a connection. */
interface Connection {
  isAnswering: boolean;
  /** True once a request has come before the answer to an earlier one. */
  isPipelined: boolean;
  readonly waiting: (() => void)[];
}

const connections = new WeakMap<Socket, Connection>();

/**
 * Makes an HTTP/1.1 server answer one request of each connection at a time: pipelined ones begin after the answer before them, each in a later turn of the event loop. Node.js would start all of them at once, so that one
 * client could hold up all others. A connection with pipelined requests is closed after a 401. `Server` may be one that does not listen.
 */
export function answerInOrder(server: Server): void {
  for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) {
    const listeners = server.listeners(event) as RequestListener[];
    server.removeAllListeners(event);
    if (listeners.length === 0) continue;
    server.on(event, (request, response) => {
      queue(request, response, () => {
        for (const listener of listeners) listener.call(server, request, response);
      });
    });
  }
  server.prependListener('upgrade', ({ socket }: IncomingMessage) => {
    // The socket would get the bytes of two protocols.
    if (connections.get(socket)?.isAnswering === true) socket.destroy();
  });
}

function queue({ socket }: IncomingMessage, response: ServerResponse, run: () => void): void {
  const connection = findConnection(socket);
  const begin = (): void => {
    connection.isAnswering = true;
    // In a later turn, because an answer can have been sent before the next request is read from the same bytes.
    response.once('close', () => setImmediate(beginNext, socket, connection, response.statusCode));
    run();
  };
  if (connection.isAnswering) {
    if (!connection.isPipelined) watchReading(socket, connection);
    connection.waiting.push(begin);
    if (connection.waiting.length > waitingMax) socket.pause();
  } else begin();
}

/** Keeps a connection paused while many of its requests wait: Node.js resumes it whenever the body of the request that is being answered is read. */
function watchReading(socket: Socket, connection: Connection): void {
  connection.isPipelined = true;
  socket.on('resume', () => {
    if (connection.waiting.length > waitingMax) socket.pause();
  });
}

function findConnection(socket: Socket): Connection {
  const known = connections.get(socket);
  if (known !== undefined) return known;
  const connection: Connection = { isAnswering: false, isPipelined: false, waiting: [] };
  connections.set(socket, connection);
  socket.once('close', () => (connection.waiting.length = 0));
  return connection;
}

/** Begins the next request. `status`: that of the answer before it. */
function beginNext(socket: Socket, connection: Connection, status: number): void {
  const { waiting, isPipelined } = connection;
  connection.isAnswering = false;
  if (socket.destroyed) return;
  if (isPipelined && status === 401) {
    waiting.length = 0;
    socket.destroySoon();
  }
  if (!socket.writable) return;
  const isPaused = waiting.length > waitingMax;
  waiting.shift()?.();
  if (isPaused && waiting.length <= waitingMax) socket.resume();
}
