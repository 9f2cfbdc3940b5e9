import { createServer, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A proxy that removes `/ai` from the path, like that of docs/reverse-proxy.md "Below a path". */
export class PathProxy {
  readonly #server = createServer((incoming, outgoing) => {
    const path = incoming.url ?? '';
    if (!path.startsWith('/ai/')) return void outgoing.writeHead(404).end('not below the path');
    const { method, headers } = incoming;
    const forwarded = send(`${this.target}${path.slice(3)}`, { method, headers }, answer => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    forwarded.on('error', () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
  /** The origin of the gateway; set it before the first request. */
  target = '';

  async listen(): Promise<void> {
    await new Promise<void>(done => {
      this.#server.listen(0, '127.0.0.1', done);
    });
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
