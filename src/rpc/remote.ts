import type { Transport } from '@connectrpc/connect';
import { createAsyncIterable } from '@connectrpc/connect/protocol';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { clientAddressHeader, edgeHeader, fingerprintHeader, idempotencyKeyHeader } from '../lib/call-headers.ts';
import { requestIdHeader } from '../lib/ids.ts';
import { type HeaderReader, pump } from '../lib/push.ts';
import type { PushTransport } from './push-transport.ts';

/** The gateway that an edge in another process calls. */
export interface RemoteTarget {
  /** The origin of its internal listener ("http://10.0.0.7:2001"). */
  readonly baseUrl: string;
  /** The text of the file edge.token in its data directory. */
  readonly edgeToken: string;
}

/** How often the connection is pinged. If the gateway does not answer before the next ping, the running calls fail. */
const pingMs = 30_000;
/** The most memory of the connection, in MB, for what paused streams have received. */
const sessionMegabytesMax = 1_024;
/** The headers of a call that the core reads. */
const forwarded = ['authorization', requestIdHeader, idempotencyKeyHeader, fingerprintHeader, clientAddressHeader];

/** The most calls of one connection; the gateway accepts 1,024. */
const callsMax = 100;

/** A connection to the gateway, and how many calls it has. */
interface Connection {
  readonly sessions: Http2SessionManager;
  readonly transport: Transport;
  calls: number;
}

/** Calls the services of a gateway in another process, over as many HTTP/2 connections as the running calls need. */
export class RemoteTransport implements PushTransport {
  readonly #baseUrl: string;
  readonly #edgeToken: string;
  /** Calls use the first connection with room, so that the last ones become idle, and are then closed. */
  readonly #connections: Connection[] = [];

  constructor({ baseUrl, edgeToken }: RemoteTarget) {
    this.#baseUrl = baseUrl;
    this.#edgeToken = edgeToken;
  }

  /** Closes the connections. Running calls fail. */
  close(): void {
    for (const { sessions } of this.#connections) sessions.abort();
  }

  readonly push: PushTransport['push'] = (method, request, headers, sink) => {
    const findRoom = (): Connection => this.#findRoom();
    const sent = this.#sentHeaders(headers);
    return pump(async function* (signal) {
      const connection = findRoom();
      connection.calls += 1;
      try {
        const { transport } = connection;
        const { message } = await transport.stream(method, signal, undefined, sent, createAsyncIterable([request]));
        yield* message;
      } finally {
        connection.calls -= 1;
      }
    }, sink);
  };

  readonly ask: PushTransport['ask'] = async (method, request, headers, signal) => {
    const connection = this.#findRoom();
    connection.calls += 1;
    try {
      const sent = this.#sentHeaders(headers);
      const { message } = await connection.transport.unary(method, signal, undefined, sent, request);
      return message;
    } finally {
      connection.calls -= 1;
    }
  };

  #findRoom(): Connection {
    const found = this.#connections.find(({ calls }) => calls < callsMax);
    if (found !== undefined) return found;
    const baseUrl = this.#baseUrl;
    const nodeOptions = { maxSessionMemory: sessionMegabytesMax };
    const sessions = new Http2SessionManager(baseUrl, { pingIntervalMs: pingMs, pingTimeoutMs: pingMs }, nodeOptions);
    const transport = createGrpcTransport({ baseUrl, acceptCompression: [], sessionManager: sessions });
    const opened = { sessions, transport, calls: 0 };
    this.#connections.push(opened);
    return opened;
  }

  #sentHeaders(headers: HeaderReader): Headers {
    const sent = new Headers({ [edgeHeader]: this.#edgeToken });
    for (const name of forwarded) {
      const value = headers.get(name);
      if (value !== null) sent.set(name, value);
    }
    return sent;
  }
}
