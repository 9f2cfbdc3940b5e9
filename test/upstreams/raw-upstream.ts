import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/** A request as the upstream has read it. */
export interface SeenRequest {
  /** "POST /v1/chat/completions HTTP/1.1" */
  readonly line: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly socket: Socket;
  /** The number of its connection, from 1. */
  readonly connection: number;
  /** Resolves when its connection is closed, with the time by `performance.now()`. */
  readonly closedAtMs: Promise<number>;
}

/** What the upstream does with a request. It writes raw bytes, so that it can break every rule of HTTP. */
export type Behaviour = (socket: Socket, request: SeenRequest) => void | Promise<void>;

/**
 * A server on a free port that reads HTTP requests and answers with any bytes.
 */
export class RawUpstream {
  readonly requests: SeenRequest[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #connections = 0;

  private constructor(behaviour: Behaviour) {
    this.#server = createServer(socket => this.#serve(socket, behaviour));
  }

  static async start(behaviour: Behaviour): Promise<RawUpstream> {
    const upstream = new RawUpstream(behaviour);
    upstream.#server.listen(0, '127.0.0.1');
    await once(upstream.#server, 'listening');
    return upstream;
  }

  get port(): number {
    const address: AddressInfo | string | null = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** The base URL for the configuration. */
  get baseUrl(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: Socket, behaviour: Behaviour): void {
    this.#connections += 1;
    const connection = this.#connections;
    this.#sockets.add(socket);
    const closedAtMs = new Promise<number>(resolve => {
      socket.once('close', () => resolve(performance.now()));
    });
    socket.once('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let read: Buffer = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      read = Buffer.concat([read, chunk]);
      const parsed = parse(read);
      if (parsed === undefined) return;
      read = Buffer.alloc(0);
      const request: SeenRequest = { ...parsed, socket, connection, closedAtMs };
      this.requests.push(request);
      void behaviour(socket, request);
    });
  }
}

function parse(read: Buffer): Pick<SeenRequest, 'line' | 'headers' | 'body'> | undefined {
  const end = read.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [line = '', ...fields] = read.subarray(0, end).toString('latin1').split('\r\n');
  const headers = Object.fromEntries(
    fields.map(field => {
      const colon = field.indexOf(':');
      return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()] as const;
    }),
  );
  const body = read.subarray(end + 4);
  if (body.length < Number(headers['content-length'] ?? 0)) return undefined;
  return { line, headers, body: body.toString('utf8') };
}

/** The head of a stream in chunks. */
export const streamHead =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n';

/** One chunk of a chunked body. */
export function chunk(data: string | Uint8Array): Buffer {
  const bytes = Buffer.from(data);
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

/** The end of a chunked body. */
export const lastChunk = '0\r\n\r\n';

/** A whole answer with a length. */
export function whole(status: number, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const fields = { 'content-type': 'application/json', 'content-length': `${Buffer.byteLength(body)}`, ...headers };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Whatever\r\n${lines.join('')}\r\n${body}`;
}
