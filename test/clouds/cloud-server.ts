/** A server that plays a cloud: it reads whole requests, keeps them, and answers what the test says. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Json = Record<string, unknown>;

/** A request as the cloud has read it. */
export interface CloudRequest {
  readonly method: string;
  /** The path and query as they were sent. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Json;
}

type Answer = (request: CloudRequest, response: ServerResponse) => void | Promise<void>;

/** A server on a free port of the loopback. */
export class CloudServer {
  readonly requests: CloudRequest[] = [];
  readonly #server: Server;
  answer: Answer;

  private constructor(answer: Answer) {
    this.answer = answer;
    this.#server = createServer((message, response) => {
      const parts: Buffer[] = [];
      message.on('data', (part: Buffer) => parts.push(part));
      message.on('end', () => {
        const text = Buffer.concat(parts).toString('utf8');
        const { method = '', url = '', headers } = message;
        const body = text.startsWith('{') ? (JSON.parse(text) as Json) : {};
        const request = { method, url, headers, text, body };
        this.requests.push(request);
        void this.answer(request, response);
      });
    });
  }

  static async start(answer: Answer): Promise<CloudServer> {
    const cloud = new CloudServer(answer);
    await once(cloud.#server.listen(0, '127.0.0.1'), 'listening');
    return cloud;
  }

  /** "127.0.0.1:PORT" */
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get origin(): string {
    return `http://${this.host}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** Answers JSON. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
