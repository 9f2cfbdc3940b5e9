import { readAttribution } from '../attribution.ts';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { WebSocketServer } from 'ws';
import { GatewayError } from '../../errors/gateway-error.ts';
import { resolveAlias } from '../aliases.ts';
import { answerText, jsonAnswer } from '../answer.ts';
import { Call } from '../call.ts';
import { identify, readKey } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { addErrorHeaders, clientError, errorEnvelope } from '../error-answer.ts';
import { recordRequest } from '../request-record.ts';
import { responsesPath } from './create-route.ts';
import { ResponsesSocket, type SocketParts } from './socket.ts';

/** A connection that is still open this long after the gateway began to close is cut. */
const closeGraceMs = 2_000;

/** Returns whether a request is for a WebSocket of this interface. Any other upgrade is ignored, as HTTP allows. */
export function isSocketUpgrade({ method, url = '', headers }: IncomingMessage): boolean {
  const [path] = resolveAlias(url).split('?', 1);
  return method === 'GET' && path === responsesPath && headers.upgrade?.toLowerCase() === 'websocket';
}

/** Registers WebSockets at the path of the Responses interface. The caller is authenticated before the upgrade. */
export function registerSocket(app: FastifyInstance, edge: Edge): void {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
  });
  const open = new Set<ResponsesSocket>();
  app.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // Until the library takes over the socket, errors of a client that disconnects are ignored.
    const ignore = (): void => undefined;
    socket.on('error', ignore);
    void upgrade(edge, request)
      .then(parts => {
        socket.off('error', ignore);
        // Bytes that came with the upgrade are read by the listener below, like all that follow.
        if (head.length > 0) socket.unshift(head);
        server.handleUpgrade(request, socket, Buffer.alloc(0), accepted => {
          const connection = new ResponsesSocket(accepted, parts, takeOverMessages(socket));
          open.add(connection);
          socket.on('data', (bytes: Buffer) => connection.received(bytes));
          accepted.once('close', () => open.delete(connection));
        });
      })
      .catch((thrown: unknown) => refuse(edge, request, { socket, thrown }));
  });
  server.on('headers', (headers, request: IncomingMessage) => {
    headers.push(`x-request-id: ${toCall(edge, request).id}`);
  });
  app.addHook('preClose', done => {
    for (const connection of open) connection.end();
    setTimeout(() => {
      for (const connection of open) connection.terminate();
    }, closeGraceMs).unref();
    done();
  });
}

/**
 * Stops the library from reading the connection, because it would unmask, join and check a whole message at once. Returns a function that
 * passes it the bytes of ping, pong and close frames, which the library still answers.
 */
function takeOverMessages(socket: Duplex): (bytes: Buffer) => void {
  const listeners = socket.listeners('data') as ((this: Duplex, bytes: Buffer) => void)[];
  for (const listener of listeners) socket.off('data', listener);
  return bytes => {
    for (const listener of listeners) listener.call(socket, bytes);
  };
}

const calls = new WeakMap<IncomingMessage, Call>();

/** Returns the `Call` of an upgrade, the same one for each request. */
function toCall(edge: Edge, request: IncomingMessage): Call {
  const { options } = edge;
  const call =
    calls.get(request) ?? new Call(options.runtime, options.nextRequestId()).follow(request.headers, options);
  calls.set(request, call);
  return call;
}

async function upgrade(edge: Edge, request: IncomingMessage): Promise<SocketParts> {
  if (edge.stopping()) throw new GatewayError('overloaded', 'The gateway is stopping.');
  const call = toCall(edge, request);
  const key = readKey(request.headers);
  await identify(edge, call, { key, allowed: 'api_key' });
  const { headers } = request;
  const attribution = readAttribution(headers);
  return { edge, call, key, strict: edge.isStrict(headers), headers, attribution };
}

/** Answers an upgrade that is refused with the error envelope. */
function refuse(
  edge: Edge,
  request: IncomingMessage,
  { socket, thrown }: { readonly socket: Duplex; readonly thrown: unknown },
): void {
  const error = clientError(thrown);
  const call = toCall(edge, request);
  const status = error.facets.http;
  const { runtime, texts } = edge.options;
  const headers = addErrorHeaders(call.headers, error, [], runtime.now());
  // An upgraded socket has no timeout, and a closing server waits for it. It is destroyed, so that a client that keeps its side open blocks neither.
  socket.once('finish', () => socket.destroy());
  socket.end(answerText(jsonAnswer(status, headers, errorEnvelope(error, call.id, texts))));
  const recorded = { call, method: 'GET', routeOptions: { url: responsesPath } };
  recordRequest(edge, recorded, { status, code: error.code, error });
}
