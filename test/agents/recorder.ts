import { createServer, type IncomingHttpHeaders, request as send, type Server } from 'node:http';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';

/** A request that was answered with an error, and the answer. */
export interface Refusal {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly status: number;
  readonly answer: string;
}

/** A proxy between agents and a gateway that records what was answered with status 400 or above, except answers to requests to upgrade. */
export class Recorder {
  readonly #server: Server;
  #refusals: Refusal[] = [];
  /** The number of requests. */
  requests = 0;
  /** The number of requests to upgrade to a WebSocket. */
  sockets = 0;

  constructor(target: string) {
    const { hostname, port } = new URL(target);
    this.#server = createServer((request, response) => {
      const { method = 'GET', url: path = '/', headers } = request;
      const body: Buffer[] = [];
      const answer: Buffer[] = [];
      this.requests += 1;
      const upstream = send({ hostname, port, method, path, headers }, from => {
        const { statusCode: status = 0 } = from;
        response.writeHead(status, from.headers);
        from.on('data', (chunk: Buffer) => status >= 400 && answer.push(chunk));
        from.on('end', () => {
          if (status < 400) return;
          this.#refusals.push({
            method,
            path,
            headers,
            status,
            body: String(Buffer.concat(body)),
            answer: String(Buffer.concat(answer)),
          });
        });
        from.pipe(response);
      });
      request.on('data', (chunk: Buffer) => body.push(chunk));
      request.pipe(upstream);
      response.on('close', () => upstream.destroy());
      upstream.on('error', () => response.destroy());
    });
    this.#server.on('upgrade', (request, socket, head: Buffer) => {
      this.sockets += 1;
      const upstream = connect(Number(port), hostname, () => {
        const lines = request.rawHeaders.flatMap((value, index, all) =>
          index % 2 === 0 ? `${value}: ${all[index + 1] ?? ''}` : [],
        );
        upstream.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
        upstream.write(head);
        socket.pipe(upstream).pipe(socket);
      });
      upstream.on('error', () => socket.destroy());
      socket.on('error', () => upstream.destroy());
    });
  }

  /** Starts listening. Returns the URL. */
  async open(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Returns the refusals since the last call. */
  take(): Refusal[] {
    const taken = this.#refusals;
    this.#refusals = [];
    return taken;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
