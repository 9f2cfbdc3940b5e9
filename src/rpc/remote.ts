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

/** Calls the services of a gateway in another process, over one HTTP/2 connection. */
export class RemoteTransport implements PushTransport {
  readonly #sessions: Http2SessionManager;
  readonly #transport: Transport;
  readonly #edgeToken: string;

  constructor({ baseUrl, edgeToken }: RemoteTarget) {
    const nodeOptions = { maxSessionMemory: sessionMegabytesMax };
    this.#sessions = new Http2SessionManager(baseUrl, { pingIntervalMs: pingMs, pingTimeoutMs: pingMs }, nodeOptions);
    this.#transport = createGrpcTransport({ baseUrl, acceptCompression: [], sessionManager: this.#sessions });
    this.#edgeToken = edgeToken;
  }

  /** Closes the connection. Running calls fail. */
  close(): void {
    this.#sessions.abort();
  }

  readonly push: PushTransport['push'] = (method, request, headers, sink) => {
    const transport = this.#transport;
    const sent = this.#sentHeaders(headers);
    return pump(async function* (signal) {
      const { message } = await transport.stream(method, signal, undefined, sent, createAsyncIterable([request]));
      yield* message;
    }, sink);
  };

  readonly ask: PushTransport['ask'] = async (method, request, headers, signal) => {
    const { message } = await this.#transport.unary(method, signal, undefined, this.#sentHeaders(headers), request);
    return message;
  };

  #sentHeaders(headers: HeaderReader): Headers {
    const sent = new Headers({ [edgeHeader]: this.#edgeToken });
    for (const name of forwarded) {
      const value = headers.get(name);
      if (value !== null) sent.set(name, value);
    }
    return sent;
  }
}
