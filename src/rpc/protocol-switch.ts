import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Session } from 'node:http2';
import { chmod, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls';
import { answerInOrder } from '../lib/answer-in-order.ts';
import type { TlsFiles } from '../lib/tls-files.ts';

/**
 * One port for HTTP/1.1 and HTTP/2. The first bytes of a connection show its protocol (RFC 9113 §3.4, "prior knowledge"), and the socket is passed to a server of that protocol. Both servers have the same request listener.
 */
export interface ProtocolSwitch {
  /** Starts to listen. Resolves to the opened port. Rejects if the address is in use or not of this machine. */
  listen(host: string, port: number): Promise<number>;
  /** Starts to listen on a Unix socket that only its owner can open. A socket that an earlier process has left is replaced. */
  listenOnSocket(path: string): Promise<void>;
  /** Accepts no more connections, waits at most `graceMs` for running requests, then cuts off the others. */
  close(graceMs: number): Promise<void>;
}

/** Limits of connections; times in ms. */
export interface ConnectionLimits {
  /** How long a client may take to send the head of a request. */
  readonly headMs: number;
  /** How long a client may take to send a complete HTTP/1.1 request. */
  readonly requestMs: number;
  /** How often an HTTP/2 client is pinged. If a client does not answer before the next ping, its connection is cut off, so that its calls end. */
  readonly pingMs: number;
  /**
   * The most concurrent calls on one HTTP/2 connection. Node.js may still count a call that its client knows to be over, and resets the client's next call (ENHANCE_YOUR_CALM, which clients show as an internal error) if the count is at the limit. So it has to be more than ordinary clients need.
   */
  readonly streamsMax: number;
  /** The most memory of one HTTP/2 session, in MB. */
  readonly sessionMegabytesMax: number;
  /** The most unread bytes that a client may send on a stream; a connection gets four times that. */
  readonly windowBytes: number;
}

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

/**
 * Creates a port that answers both protocols with `listener`. HTTP/2 requests come through Node's compatibility layer. `tls`: the certificate of the port; absent: it uses cleartext.
 */
export function createProtocolSwitch(
  listener: RequestListener,
  limits: ConnectionLimits,
  tls?: TlsFiles,
): ProtocolSwitch {
  const http1 = createHttpServer(
    {
      headersTimeout: limits.headMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: limits.headMs,
      keepAliveTimeout: 65_000,
    },
    listener,
  );
  answerInOrder(http1);
  const http2 = createSecondServer(listener, limits);
  const sockets = new Set<Socket>();
  http2.on('session', session => watchSession(session, limits));
  // The HTTP/1.1 server owns the port, so that its time-outs and `close` work. It handles a connection only after the first bytes have shown its protocol.
  const serveHttp1 = http1.listeners('connection').map(each => each.bind(http1));
  http1.removeAllListeners('connection');
  const take = (socket: Socket): void =>
    awaitProtocol(socket, limits.headMs, protocol => {
      if (protocol === 'http2') {
        // As in Node's HTTP/2 server; otherwise a client that disappears would not be noticed.
        socket.allowHalfOpen = false;
        http2.emit('connection', socket);
      } else for (const serve of serveHttp1) serve(socket);
    });
  const secure = tls === undefined ? undefined : createTlsLayer(tls, limits, take);
  http1.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    if (secure === undefined) take(socket);
    else secure.emit('connection', socket);
  });
  return {
    listen: (host, port) => listenOn(http1, host, port),
    listenOnSocket: path => listenOnSocket(http1, path),
    close: graceMs => closeAll({ http1, http2, sockets }, graceMs),
  };
}

/** Returns a TLS server that does not listen. It decrypts the connections that it is given, and passes them to `take`. */
function createTlsLayer(tls: TlsFiles, limits: ConnectionLimits, take: (socket: Socket) => void): TlsServer {
  const { material } = tls;
  const isMutual = material.ca !== undefined;
  const server = createTlsServer({
    ...material,
    ALPNProtocols: ['h2', 'http/1.1'],
    handshakeTimeout: limits.headMs,
    requestCert: isMutual,
    rejectUnauthorized: isMutual,
  });
  server.on('secureConnection', take);
  // A failed handshake affects only its own client.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  tls.keepUpdated(server);
  return server;
}

function createSecondServer(listener: RequestListener, limits: ConnectionLimits): Http2Server {
  const server = createHttp2Server({
    maxSessionMemory: limits.sessionMegabytesMax,
    settings: { maxConcurrentStreams: limits.streamsMax, initialWindowSize: limits.windowBytes },
  });
  server.on('request', listener as unknown as (request: unknown, response: unknown) => void);
  // A broken session affects only its own client. Without a listener Node.js would throw.
  server.on('sessionError', () => undefined);
  return server;
}

function watchSession(session: ServerHttp2Session, { pingMs, windowBytes }: ConnectionLimits): void {
  // The client may have disconnected before this event.
  if (session.destroyed) return;
  session.setLocalWindowSize(windowBytes * 4);
  let answered = true;
  const timer = setInterval(() => {
    if (session.destroyed) return;
    if (!answered) {
      session.destroy();
      return;
    }
    answered = false;
    if (!session.ping(() => (answered = true))) answered = true;
  }, pingMs);
  timer.unref();
  session.once('close', () => clearInterval(timer));
}

/** Calls `found` once, with the protocol of the first bytes, which remain in the socket. Destroys the socket if it ends before, or if the bytes do not come within `headMs`. */
function awaitProtocol(socket: Socket, headMs: number, found: (protocol: 'http1' | 'http2') => void): void {
  const cut = (): void => {
    socket.destroy();
  };
  socket.on('error', cut);
  socket.setTimeout(headMs, cut);
  let seen = Buffer.alloc(0);
  const take = (): void => {
    const chunk: Buffer | null = socket.read() as Buffer | null;
    if (chunk === null) return;
    seen = Buffer.concat([seen, chunk]);
    const length = Math.min(seen.length, preface.length);
    const isPreface = seen.subarray(0, length).equals(preface.subarray(0, length));
    if (isPreface && length < preface.length) return;
    socket.off('readable', take);
    socket.off('end', cut);
    socket.off('error', cut);
    socket.setTimeout(0);
    socket.unshift(seen);
    found(isPreface ? 'http2' : 'http1');
  };
  socket.on('readable', take);
  socket.once('end', cut);
}

function listenOn(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}

async function listenOnSocket(server: Server, path: string): Promise<void> {
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path, readableAll: false, writableAll: false }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  await chmod(path, 0o600);
}

interface Open {
  readonly http1: Server;
  readonly http2: Http2Server;
  readonly sockets: ReadonlySet<Socket>;
}

async function closeAll({ http1, http2, sockets }: Open, graceMs: number): Promise<void> {
  // Resolves when the last connection of either protocol has closed, because all of them came through this server.
  const closed = new Promise<void>(resolve => {
    http1.close(() => resolve());
  });
  // This server does not listen; the call makes its sessions end.
  http2.close();
  // Closes idle connections repeatedly: a kept-alive HTTP/1.1 connection becomes idle when its last request ends, and Node.js does not close it then.
  const sweep = setInterval(() => http1.closeIdleConnections(), 50);
  const cut = setTimeout(() => {
    for (const socket of sockets) socket.destroy();
  }, graceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(cut);
}
